import { expect, test } from 'vitest';
import { gapBetween } from '../../node-beacon/gap.ts';

const BEFORE = { uptimeMs: 1_000_000, monotonicMs: 5_000, wallMs: 1_700_000_000_000 };

test.for<{ name: string; passed: readonly [uptime: number, monotonic: number, wall: number]; gap?: object }>([
  { name: 'time as usual', passed: [2_500, 2_500, 2_500] },
  { name: 'a busy machine', passed: [9_000, 9_000, 9_000] },
  {
    name: 'SIGSTOP for five minutes',
    passed: [300_000, 300_000, 300_000],
    gap: { ms: 300_000, why: 'the process was stopped, or the machine stalled' },
  },
  {
    name: 'a suspend of an hour',
    passed: [3_602_500, 2_500, 3_602_500],
    gap: { ms: 3_602_500, why: 'the machine was suspended' },
  },
  {
    name: 'a virtual machine paused for a minute',
    passed: [2_500, 2_500, 62_500],
    gap: { ms: 62_500, why: 'the virtual machine was paused, or its clock was set' },
  },
  { name: 'a clock set back', passed: [2_500, 2_500, -3_600_000] },
])('$name', ({ passed: [uptime, monotonic, wall], gap }) => {
  const after = {
    uptimeMs: BEFORE.uptimeMs + uptime,
    monotonicMs: BEFORE.monotonicMs + monotonic,
    wallMs: BEFORE.wallMs + wall,
  };
  expect(gapBetween(BEFORE, after, 2_500, 10_000)).toEqual(gap);
});
