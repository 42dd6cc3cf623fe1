import { describe, expect, test } from 'vitest';
import { planTries, smoothRoundTripMs, tryOffsetsMs } from '../../node-beacon/tries.ts';

describe('the offsets of a beat’s tries', () => {
  test.for([
    {
      name: '10 s: the drawn row',
      intervalMs: 10_000,
      roundTripMs: 0,
      offsets: [0, 1_000, 2_000, 4_000, 7_000],
    },
    { name: '3 s: the row scaled', intervalMs: 3_000, roundTripMs: 0, offsets: [0, 300, 600, 1_200, 2_100] },
    {
      name: '1 s, the shortest interval',
      intervalMs: 1_000,
      roundTripMs: 0,
      offsets: [0, 100, 200, 400, 700],
    },
    {
      name: 'a usual round trip changes nothing',
      intervalMs: 10_000,
      roundTripMs: 300,
      offsets: [0, 1_000, 2_000, 4_000, 7_000],
    },
    {
      name: 'a slow path is waited for, three round trips',
      intervalMs: 10_000,
      roundTripMs: 500,
      offsets: [0, 1_500, 3_000, 4_500, 7_000],
    },
    {
      name: 'three round trips hold for short intervals too',
      intervalMs: 3_000,
      roundTripMs: 200,
      offsets: [0, 600, 1_200, 1_800, 2_400],
    },
    {
      name: 'a path slower than the interval still gets a second and third try',
      intervalMs: 10_000,
      roundTripMs: 60_000,
      offsets: [0, 4_000, 8_000],
    },
    {
      name: 'a longer interval goes on with doubled gaps',
      intervalMs: 60_000,
      roundTripMs: 0,
      offsets: [0, 1_000, 2_000, 4_000, 7_000, 13_000, 25_000, 49_000],
    },
  ])('$name', ({ intervalMs, roundTripMs, offsets }) => {
    const found = tryOffsetsMs(intervalMs, roundTripMs);
    expect(found).toHaveLength(offsets.length);
    for (const [index, offset] of offsets.entries()) expect(found[index]).toBeCloseTo(offset, 6);
  });

  test('for every interval and round trip the plan keeps its invariants', () => {
    for (let intervalMs = 1_000; intervalMs <= 300_000; intervalMs = Math.ceil(intervalMs * 1.07)) {
      for (const roundTripMs of [0, 1, 30, 333, 334, 1_000, 5_000, 1_000_000]) {
        const plan = planTries(intervalMs, roundTripMs);
        const what = `${intervalMs} ms, round trip ${roundTripMs} ms`;
        expect(plan[0]?.startMs, what).toBe(0);
        expect(plan.length, what).toBeGreaterThanOrEqual(2);
        const longestMs = Math.min(10_000, 0.4 * intervalMs);
        const least = Math.min(1_000, intervalMs / 10) - 1e-6;
        for (const [index, { startMs, endMs }] of plan.entries()) {
          expect(endMs - startMs, `${what}, try ${index}`).toBeGreaterThanOrEqual(least);
          const nextMs = plan[index + 1]?.startMs ?? intervalMs * 0.95;
          expect(endMs, `${what}, try ${index}`).toBe(Math.min(nextMs, startMs + longestMs));
        }
        const firstRetryMs = plan[1]?.startMs ?? 0;
        expect(firstRetryMs, what).toBeGreaterThanOrEqual(Math.min(3 * roundTripMs, 0.4 * intervalMs) - 1e-6);
      }
    }
  });
});

describe('a beacon that backs off', () => {
  test.for([
    {
      name: 'level 1: windows of one and of two intervals',
      level: 1,
      draws: [0.3, 0.25],
      offsets: [0, 3_000, 8_000],
    },
    { name: 'what lies beyond the interval falls away', level: 1, draws: [0.3, 0.5], offsets: [0, 3_000] },
    { name: 'level 2: twice as wide', level: 2, draws: [0.3, 0.01], offsets: [0, 6_000, 7_000] },
    { name: 'level 4: mostly one try', level: 4, draws: [0.3, 0.3], offsets: [0] },
    { name: 'never closer than a try needs', level: 1, draws: [0, 0], offsets: [0, 1_000, 2_000] },
  ])('$name', ({ level, draws, offsets }) => {
    const left = [...draws];
    expect(tryOffsetsMs(10_000, 0, { level, random: () => left.shift() ?? 1 })).toEqual(offsets);
  });
});

test('the round trip takes the first sample as it is and then follows slowly', () => {
  const first = smoothRoundTripMs(0, 80);
  expect(first).toBe(80);
  expect(smoothRoundTripMs(first, 880)).toBe(180);
});
