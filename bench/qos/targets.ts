import type { Row } from './score.ts';

/** What the project set itself, and what came of it. */
export interface Target {
  readonly name: string;
  readonly findings: readonly Finding[];
}

export interface Finding {
  readonly of: string;
  readonly figure: string;
  /** Undefined: not measured. */
  readonly met: boolean | undefined;
}

const ALL = ['steady', 'fast', 'patient'].flatMap((preset) => [
  `farpulse-${preset}`,
  `farpulse-${preset}-no-lease`,
]);

/** Seconds from crash to verdict, without the API server's round trip. */
const DETECTION: readonly (readonly [string, { readonly p50: number; readonly p99?: number }])[] = [
  ['farpulse-steady', { p50: 18, p99: 24 }],
  ['farpulse-fast', { p50: 7, p99: 9.5 }],
  ['farpulse-patient', { p50: 28 }],
];

const NO_MISTAKES_DAYS = 10_000;

const SPARED = [
  'burst-one-region',
  'region-5-percent',
  'all-silent',
  'total-outage',
  'staggered-return',
  'observer-redeploy',
  'observer-redeploy-300',
];

/** Here whatever is written is wrong. */
const NOTHING_WRITTEN = new Set(['all-silent', 'total-outage', 'staggered-return']);

/** A network that is cut and mended. */
const CUT = /(^|-)cut-\d+$/;

const REDEPLOYED_WITHIN_SECONDS = 40;
const MOST_SLOWER = 1.2;

/** Every target against the rows. */
export function targetsOf(rows: readonly Row[]): readonly Target[] {
  const row = (detector: string, scenario: string): Row | undefined =>
    rows.find((each) => each.detector === detector && each.scenario === scenario);

  return [
    ...DETECTION.map(([detector, most]): Target => {
      const p99 = most.p99 === undefined ? '' : `, p99 at most ${most.p99} s`;
      return {
        name: `\`${detector}\`: p50 at most ${most.p50} s${p99}, in clusters of 3, 100 and 1,000`,
        findings: ['clean-3', 'clean', 'clean-1000'].map((scenario) =>
          finding(scenario, row(detector, scenario), percentiles, (its) =>
            isWithin(its, most.p50, most.p99 ?? Number.POSITIVE_INFINITY),
          ),
        ),
      };
    }),
    {
      name: 'no mistake in 10,000 node-days at 1 % loss, with Leases and without',
      findings: ['farpulse-steady', 'farpulse-steady-no-lease'].map((detector) =>
        finding(
          detector,
          row(detector, 'iid-1'),
          (its) => `${its.mistakes} in ${its.nodeDays.toFixed(0)} node-days`,
          (its) => its.mistakes === 0 && its.nodeDays >= NO_MISTAKES_DAYS,
        ),
      ),
    },
    ...SPARED.map((scenario): Target => ({
      name: NOTHING_WRITTEN.has(scenario)
        ? `nothing written in \`${scenario}\``
        : `no mistake in \`${scenario}\``,
      findings: ALL.map((detector) =>
        finding(
          detector,
          row(detector, scenario),
          (its) => `${wrong(its, NOTHING_WRITTEN.has(scenario))}`,
          (its) => wrong(its, NOTHING_WRITTEN.has(scenario)) === 0,
        ),
      ),
    })),
    slower('region-5-percent', 'real deaths are noticed in time while a region hears 5 %'),
    slower('iid-5', 'under 5 % loss'),
    ...['observer-redeploy', 'observer-redeploy-300'].map((scenario): Target => ({
      name: `detection within ${REDEPLOYED_WITHIN_SECONDS} s in \`${scenario}\``,
      findings: ALL.map((detector) =>
        finding(
          detector,
          row(detector, scenario),
          (its) => `max ${fixed(its.maxSeconds)} s`,
          (its) => (its.maxSeconds ?? Number.POSITIVE_INFINITY) <= REDEPLOYED_WITHIN_SECONDS,
        ),
      ),
    })),
    {
      name: '`rack-30` is noticed no later than by the built-in detector (`builtin-40`, which has Leases)',
      findings: ALL.map((detector) => {
        const builtin = row('builtin-40', 'rack-30');
        return finding(
          detector,
          row(detector, 'rack-30'),
          (its) => `${percentiles(its)} against ${builtin === undefined ? '?' : percentiles(builtin)}`,
          (its) =>
            builtin?.p50Seconds !== undefined &&
            builtin.p99Seconds !== undefined &&
            isWithin(its, builtin.p50Seconds, builtin.p99Seconds),
        );
      }),
    },
    {
      name: 'no known detector is as fast (p50) and makes fewer mistakes, in any scenario',
      findings: ALL.map((detector) => {
        const better = betterThan(rows, detector);
        const isMeasured = rows.some((each) => each.detector === detector);
        return {
          of: detector,
          figure: better.length === 0 ? 'none' : better.join(', '),
          met: isMeasured ? better.length === 0 : undefined,
        };
      }),
    },
  ];

  function slower(scenario: string, what: string): Target {
    return {
      name: `${what}: p50 and p99 at most ${MOST_SLOWER} times those of \`clean\``,
      findings: ALL.map((detector) => {
        const clean = row(detector, 'clean');
        return finding(
          detector,
          row(detector, scenario),
          (its) => `${percentiles(its)} against ${clean === undefined ? '?' : percentiles(clean)}`,
          (its) =>
            clean?.p50Seconds !== undefined &&
            clean.p99Seconds !== undefined &&
            isWithin(its, MOST_SLOWER * clean.p50Seconds, MOST_SLOWER * clean.p99Seconds),
        );
      }),
    };
  }
}

/**
 * Known detectors that were as fast as this one and wrong less often. Where nobody died, speed is that of `clean`.
 * Where a network is cut and mended, partitions count as mistakes do: which of the two a write is depends on whether it
 * comes before the mending or after.
 */
function betterThan(rows: readonly Row[], detector: string): readonly string[] {
  const speed = (its: Row): number | undefined =>
    its.p50Seconds ??
    rows.find((each) => each.detector === its.detector && each.scenario === 'clean')?.p50Seconds;
  const mistakes = (its: Row): number => wrong(its, CUT.test(its.scenario));
  return rows.flatMap((own) => {
    const ownSpeed = speed(own);
    if (own.detector !== detector || ownSpeed === undefined) return [];
    const better = rows.filter(
      (other) =>
        other.scenario === own.scenario &&
        !other.detector.startsWith('farpulse') &&
        (speed(other) ?? Number.POSITIVE_INFINITY) <= ownSpeed &&
        mistakes(other) / other.nodeDays < mistakes(own) / own.nodeDays,
    );
    return better.map((other) => `\`${other.detector}\` in \`${own.scenario}\``);
  });
}

function finding(
  of: string,
  row: Row | undefined,
  figure: (row: Row) => string,
  met: (row: Row) => boolean,
): Finding {
  return row === undefined
    ? { of, figure: 'not measured', met: undefined }
    : { of, figure: figure(row), met: met(row) };
}

function wrong(row: Row, withPartitions: boolean): number {
  return row.mistakes + (withPartitions ? row.partitions : 0);
}

function isWithin({ p50Seconds, p99Seconds }: Row, p50: number, p99: number): boolean {
  return p50Seconds !== undefined && p99Seconds !== undefined && p50Seconds <= p50 && p99Seconds <= p99;
}

function percentiles({ p50Seconds, p99Seconds }: Row): string {
  return `${fixed(p50Seconds)} / ${fixed(p99Seconds)} s`;
}

function fixed(value: number | undefined): string {
  return value === undefined ? '?' : value.toFixed(1);
}
