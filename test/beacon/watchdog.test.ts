import { expect, test } from 'vitest';
import { feedWatchdog } from '../../node-beacon/watchdog.ts';
import { collectingLog } from './support/collecting-log.ts';
import { VirtualClock } from './support/virtual-clock.ts';

const UNIT = { NOTIFY_SOCKET: '/run/systemd/notify', WATCHDOG_USEC: '90000000', WATCHDOG_PID: '42' };

function setUp(env: Record<string, string | undefined>, fails = false) {
  const clock = new VirtualClock();
  const { log, events } = collectingLog();
  const told: number[] = [];
  const state = { turning: true };
  const stop = new AbortController();
  const parts = { env, pid: 42, clock, log, isTurning: () => state.turning };
  const tell = async (): Promise<void> => {
    if (fails) throw new Error('no such file');
    told.push(clock.monotonicMs());
  };
  const running = feedWatchdog({ ...parts, tell }, stop.signal);
  return { clock, told, state, stop, running, events };
}

test('three signs within the watchdog’s time, for as long as the beats go on', async () => {
  const { clock, told, state, events } = setUp(UNIT);
  await clock.advance(65_000);
  expect(told).toEqual([0, 30_000, 60_000]);
  state.turning = false;
  await clock.advance(60_000);
  expect(told).toHaveLength(3);
  expect(events()).toContain('beats-hang');
});

test.for<{ name: string; env: Record<string, string> }>([
  { name: 'no unit', env: {} },
  { name: 'a unit without a watchdog', env: { NOTIFY_SOCKET: '/run/systemd/notify' } },
  { name: 'a watchdog of another process', env: { ...UNIT, WATCHDOG_PID: '41' } },
])('$name: nothing is told', async ({ env }) => {
  const { clock, told, running } = setUp(env);
  await clock.advance(100_000);
  await running;
  expect(told).toEqual([]);
});

test('a systemd that cannot be told is complained of once, and tried again', async () => {
  const { clock, events, stop, running } = setUp(UNIT, true);
  await clock.advance(100_000);
  expect(events()).toEqual(['watchdog-unheard']);
  stop.abort();
  await running;
});
