import { describe, expect, test } from 'vitest';
import { afterBeat, backoffLevel, NO_BACKOFF } from '../../node-beacon/backoff.ts';
import { planTries } from '../../node-beacon/tries.ts';
import { Random } from '../support/simulator/random.ts';

/*
 * What 5,000 beacons send to a service that comes back after ten minutes: the schedule that runs on nodes, seeded, on
 * a clock of its own. That the loop goes by this schedule is shown in loop.test.ts.
 */

const BEACONS = 5_000;
const OUTAGE_MS = 600_000;
/** What is counted after it: the first beats, and those that show that it stays calm. */
const WINDOW_MS = 60_000;
const SEED = 20_301;

interface Case {
  readonly name: string;
  readonly intervalMs: number;
  /** What the service's edge asked for while it was out. */
  readonly retryAfterMs?: number;
  /** How long after the beacons' start the outage begins. */
  readonly beginsAtMs: number;
  /** None of them holds back. */
  readonly reckless?: boolean;
}

/** Tries per second in the window after the outage. */
function triesAfterOutage({ intervalMs, retryAfterMs = 0, beginsAtMs, reckless = false }: Case): number[] {
  const random = new Random(SEED);
  const endsAtMs = beginsAtMs + OUTAGE_MS;
  const perSecond = Array.from({ length: WINDOW_MS / 1_000 }, () => 0);
  for (let beacon = 0; beacon < BEACONS; beacon++) {
    let backoff = NO_BACKOFF;
    let pausedUntilMs = 0;
    for (let dueMs = random.next() * intervalMs; dueMs < endsAtMs + WINDOW_MS; dueMs += intervalMs) {
      const level = reckless ? 0 : backoffLevel(backoff);
      const holdingBack = level === 0 ? undefined : { level, random: () => random.next() };
      let outcome: 'delivered' | 'failed' = 'failed';
      for (const { startMs } of planTries(intervalMs, 50, holdingBack)) {
        const atMs = dueMs + startMs;
        if (atMs < pausedUntilMs) continue;
        const second = Math.floor((atMs - endsAtMs) / 1_000);
        if (perSecond[second] !== undefined) perSecond[second] += 1;
        if (atMs < beginsAtMs || atMs >= endsAtMs) {
          outcome = 'delivered';
          break;
        }
        pausedUntilMs = atMs + Math.min(retryAfterMs, intervalMs);
      }
      backoff = afterBeat(backoff, outcome);
    }
  }
  return perSecond;
}

function peakOverMean(perSecond: readonly number[]): number {
  return Math.max(...perSecond) / (perSecond.reduce((sum, tries) => sum + tries, 0) / perSecond.length);
}

describe(`${BEACONS} beacons after ten minutes without the service`, () => {
  test.for<Case>([
    { name: 'every 10 s, and packets vanished', intervalMs: 10_000, beginsAtMs: 60_000 },
    { name: 'every 3 s', intervalMs: 3_000, beginsAtMs: 60_000 },
    { name: 'every minute', intervalMs: 60_000, beginsAtMs: 60_000 },
    {
      name: 'the edge asked all of them to wait a minute',
      intervalMs: 10_000,
      beginsAtMs: 60_000,
      retryAfterMs: 60_000,
    },
    {
      name: 'they were started together when it began, as after a power cut',
      intervalMs: 10_000,
      beginsAtMs: 0,
    },
  ])('$name: no second has more than twice the mean', (situation) => {
    const perSecond = triesAfterOutage(situation);
    // All are back: one beat per interval each.
    const beats = (BEACONS * WINDOW_MS) / situation.intervalMs;
    expect(perSecond.reduce((sum, tries) => sum + tries, 0)).toBeGreaterThan(0.98 * beats);
    expect(peakOverMean(perSecond)).toBeLessThanOrEqual(2);
  });

  test('without holding back it would be more', () => {
    const reckless = { name: '', intervalMs: 10_000, beginsAtMs: 60_000, reckless: true };
    expect(peakOverMean(triesAfterOutage(reckless))).toBeGreaterThan(2);
  });
});
