// The beacon with a clock that runs faster, so that a day passes in minutes. All else is the beacon's own.
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../node-beacon/clock.ts';
import { createLog } from '../../node-beacon/log.ts';
import { runBeacon } from '../../node-beacon/run.ts';
import { parseSettings } from '../../node-beacon/settings.ts';

const times = Number(process.env['TIMES']);

const fastClock: Clock = {
  monotonicMs: () => performance.now() * times,
  wallMs: () => Date.now(),
  async sleep(ms, signal) {
    try {
      await delay(Math.max(0, ms) / times, undefined, signal === undefined ? {} : { signal });
      return true;
    } catch (error) {
      if (signal?.aborted === true) return false;
      throw error;
    }
  },
  random: () => Math.random(),
};

const parsed = parseSettings(process.argv.slice(2), process.env);
if (parsed.kind !== 'command') throw new Error(JSON.stringify(parsed));
const log = createLog({
  level: 'error',
  now: () => new Date(),
  write: (line) => process.stderr.write(`${line}\n`),
});
const stop = new AbortController();
process.on('SIGTERM', () => stop.abort('SIGTERM'));
await runBeacon(parsed.settings, log, stop.signal, fastClock);
process.exit(0);
