import { execFileSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { Chen, Fixed, OwnLateness, PhiAkka, Satzger, type Baseline } from '../../bench/qos/baselines.ts';
import { readDocument, withFigures } from '../../bench/qos/document.ts';
import { load, RESULTS, VARIANT_RESULTS } from '../../bench/qos/results.ts';
import { rowOf, type Row, type Tally } from '../../bench/qos/score.ts';
import { targetsOf } from '../../bench/qos/targets.ts';
import { Random } from '../support/simulator/random.ts';

const INTERVAL_MS = 10_000;

function beat(baseline: Baseline, times: number, jitterMs: number, seed = 1): number {
  const random = new Random(seed);
  let lastMs = 0;
  for (let i = 1; i <= times; i++) {
    lastMs = i * INTERVAL_MS + random.next() * jitterMs;
    baseline.arrived(lastMs);
  }
  return lastMs;
}

describe('a known detector suspects', () => {
  test.for([
    { name: 'fixed: after its timeout', make: () => new Fixed(22_000), leastMs: 22_000, mostMs: 22_000 },
    {
      name: 'chen: half an interval after the next beat was expected',
      make: () => new Chen(INTERVAL_MS, INTERVAL_MS / 2),
      leastMs: 14_900,
      mostMs: 15_100,
    },
    {
      name: 'phi of Akka: the pause of 3 s and some least deviations after the mean',
      make: () => new PhiAkka(INTERVAL_MS),
      leastMs: 13_500,
      mostMs: 15_500,
    },
    {
      name: 'satzger: when nine tenths of the silence exceed the median gap',
      make: () => new Satzger(),
      leastMs: 11_000,
      mostMs: 11_200,
    },
    {
      name: 'own lateness: hardly later than fixed, while beats come in time',
      make: () => new OwnLateness(22_000, 11_000),
      leastMs: 22_000,
      mostMs: 22_300,
    },
  ])('$name', ({ make, leastMs, mostMs }) => {
    const baseline = make();
    expect(baseline.suspectAtMs()).toBe(Number.POSITIVE_INFINITY);
    const lastMs = beat(baseline, 1_200, 100);
    expect(baseline.suspectAtMs() - lastMs).toBeGreaterThanOrEqual(leastMs);
    expect(baseline.suspectAtMs() - lastMs).toBeLessThanOrEqual(mostMs);
  });

  test.for([2, 3, 10, 999, 1_000, 1_001, 1_500])(
    'satzger: at the very moment at which the package says so, after %d beats',
    (beats) => {
      for (const jitterMs of [50, 5_000]) {
        const satzger = new Satzger();
        beat(satzger, beats, jitterMs, beats);
        const atMs = satzger.suspectAtMs();
        expect(satzger.isSuspectedAt(atMs)).toBe(true);
        expect(satzger.isSuspectedAt(atMs - 1)).toBe(false);
      }
    },
  );
});

const QUIET: Tally = {
  nodeMs: 86_400_000,
  detectionsMs: [],
  mistakes: 0,
  mistakesMs: [],
  partitions: 0,
  writes: 0,
  apiReads: 0,
  wrongMs: 0,
};

describe('a row', () => {
  test('puts the runs of a scenario together', () => {
    const first = {
      ...QUIET,
      detectionsMs: [20_000, 10_000],
      mistakes: 1,
      mistakesMs: [4_000],
      wrongMs: 864_000,
    };
    const second = { ...QUIET, detectionsMs: [30_000], writes: 3, apiReads: 7 };
    expect(rowOf('fixed', 'clean', [first, second])).toEqual({
      detector: 'fixed',
      scenario: 'clean',
      nodeDays: 2,
      deaths: 3,
      p50Seconds: 20,
      p99Seconds: 30,
      maxSeconds: 30,
      mistakes: 1,
      partitions: 0,
      meanMistakeSeconds: 4,
      rightProbability: 0.995,
      writes: 3,
      apiReads: 7,
    });
  });

  test('has no percentiles where nobody died', () => {
    expect(rowOf('fixed', 'clean', [QUIET])).not.toHaveProperty('p50Seconds');
  });
});

function row(detector: string, scenario: string, over: Partial<Row>): Row {
  return { ...rowOf(detector, scenario, [QUIET]), ...over };
}

describe('a target', () => {
  const verdict = (rows: readonly Row[], name: RegExp, of: string): boolean | undefined =>
    targetsOf(rows)
      .find((target) => name.test(target.name))
      ?.findings.find((finding) => finding.of === of)?.met;

  test.for([
    { name: 'met', over: { p50Seconds: 18, p99Seconds: 24 }, met: true },
    { name: 'missed by its median', over: { p50Seconds: 18.01, p99Seconds: 24 }, met: false },
    { name: 'missed by its tail', over: { p50Seconds: 17, p99Seconds: 24.01 }, met: false },
    { name: 'missed where nobody was noticed', over: {}, met: false },
  ])('of detection time, $name', ({ over, met }) => {
    const rows = [row('farpulse-steady', 'clean-3', over)];
    expect(verdict(rows, /farpulse-steady.*p50/, 'clean-3')).toBe(met);
    expect(verdict(rows, /farpulse-steady.*p50/, 'clean')).toBeUndefined();
  });

  test.for([
    { name: 'met', over: { nodeDays: 10_000 }, met: true },
    { name: 'missed by one mistake', over: { nodeDays: 10_000, mistakes: 1 }, met: false },
    { name: 'missed by a shorter run', over: { nodeDays: 9_999 }, met: false },
  ])('of ten thousand node-days, $name', ({ over, met }) => {
    expect(verdict([row('farpulse-steady', 'iid-1', over)], /10,000/, 'farpulse-steady')).toBe(met);
  });

  test.for([
    { name: 'a faster one with fewer mistakes', over: { p50Seconds: 9, mistakes: 1 }, met: false },
    { name: 'a faster one with as many', over: { p50Seconds: 9, mistakes: 2 }, met: true },
    { name: 'a slower one with fewer', over: { p50Seconds: 40, mistakes: 0 }, met: true },
  ])('of the known detectors, against $name', ({ over, met }) => {
    const rows = [row('farpulse-fast', 'burst', { p50Seconds: 10, mistakes: 2 }), row('chen', 'burst', over)];
    expect(verdict(rows, /known detector/, 'farpulse-fast')).toBe(met);
  });
});

test('docs/detection-quality.md shows what the results say', () => {
  const text = readDocument();
  expect(withFigures(text, load(RESULTS), load(VARIANT_RESULTS))).toBe(text);
});

test('a knob that is nowhere in the source is refused, and nothing is run', { timeout: 60_000 }, () => {
  const run = (): string =>
    execFileSync(process.execPath, ['bench/qos.ts', '--const=NO_SUCH_KNOB=1'], {
      cwd: new URL('../..', import.meta.url),
      encoding: 'utf8',
      stdio: 'pipe',
    });
  expect(run).toThrow('no such constant: NO_SUCH_KNOB');
});
