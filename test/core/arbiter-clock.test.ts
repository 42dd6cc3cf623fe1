import { describe, expect, test } from 'vitest';
import { followClock } from '../../worker/core/arbiter/clock.ts';
import { stepArbiter } from '../../worker/core/arbiter/step.ts';
import type { ArbiterState } from '../../worker/core/arbiter/state.ts';
import { allReport, amend, anArbiter, nodeOf, reported, silent } from '../support/simulator/builders.ts';

const T = 1_800_000_000_000;
const HOUR_MS = 3_600_000;

/** As it was left at T, with times of every kind. */
function left(): ArbiterState {
  const state = anArbiter(['node-1', 'node-2'], T);
  state.lastRanAtMs = T;
  allReport(state, [reported('node-1', { sentAtMs: 7 }), silent('node-2', 30_000)], T);
  amend(state, 'node-2', {
    sinceMs: T - 9_000,
    paused: { untilMs: T + 5, reason: 'an operator said so' },
    returnsAtMs: [T - 2, T - 1],
    watch: { signs: { renewTimeMs: 5 }, movedAtMs: T - 1, lookedAtMs: T - 1, hasLease: true },
  });
  state.coolDown = { untilMs: T + 100, wave: ['node-2'], quietSinceMs: T };
  state.contradictionsAtMs = [T - 3];
  state.ownLease = { renewedAtMs: T - 4, writtenTimeMs: 11 };
  state.memory.leases = new Map([['node-2', { renewTimeMs: 5, movedAtMs: T - 6, firstSeenAtMs: T - 8 }]]);
  return state;
}

describe("the arbiter's own clock, set back by an hour", () => {
  const state = left();
  followClock(state, T - HOUR_MS);

  test.for([
    ['since when a node is in its phase', () => nodeOf(state, 'node-2').sinceMs, T - 9_000],
    ['when a node returned', () => nodeOf(state, 'node-2').returnsAtMs?.[1], T - 1],
    ["when a watched node's signs moved", () => nodeOf(state, 'node-2').watch?.movedAtMs, T - 1],
    ['when a report came', () => state.reports.get('weur')?.receivedAtMs, T],
    ['when the cool-down ends', () => state.coolDown?.untilMs, T + 100],
    ['when a kubelet contradicted', () => state.contradictionsAtMs[0], T - 3],
    ['when our Lease was renewed', () => state.ownLease?.renewedAtMs, T - 4],
    ['when a Lease moved', () => state.memory.leases.get('node-2')?.movedAtMs, T - 6],
  ] as const)('moves %s', ([, seen, wasMs]) => {
    expect(seen()).toBe(wasMs - HOUR_MS);
  });

  test.for([
    ["a node's own clock", () => state.reports.get('weur')?.report.nodes[0]?.sentAtMs, 7],
    ["an operator's time of day", () => nodeOf(state, 'node-2').paused?.untilMs, T + 5],
    ["a kubelet's renewal", () => nodeOf(state, 'node-2').watch?.signs.renewTimeMs, 5],
    ['what we wrote into our Lease', () => state.ownLease?.writtenTimeMs, 11],
  ] as const)('leaves %s', ([, seen, was]) => {
    expect(seen()).toBe(was);
  });

  test('asks again for what was found out lately', () => {
    expect(state.memory.polledAtMs).toBe(Number.NEGATIVE_INFINITY);
  });
});

describe("the arbiter's own clock", () => {
  test('set back by less than five seconds is not worth a thing', () => {
    const state = left();
    followClock(state, T - 4_999);
    expect(nodeOf(state, 'node-2').sinceMs).toBe(T - 9_000);
  });

  test.for([
    {
      name: 'set forward is an own outage: whoever is missing is one wave',
      aheadMs: HOUR_MS,
      coolDown: true,
    },
    { name: 'that stood for 150 s is none: cron runs it every minute', aheadMs: 150_000, coolDown: false },
    { name: 'that stood for longer is one', aheadMs: 150_001, coolDown: true },
  ])('$name', ({ aheadMs, coolDown }) => {
    const state = left();
    delete state.coolDown;
    stepArbiter(state, { kind: 'tick' }, T + aheadMs);
    expect(state.coolDown !== undefined).toBe(coolDown);
  });
});
