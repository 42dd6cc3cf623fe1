// What was measured, as rows: pure, so that a table of kills can be checked by hand.
import { percentile } from '../support/percentile.ts';

/** Moments of one death, in the order in which they usually come. */
export const MEASURES = ['unknown', 'podsNotReady', 'endpointGone', 'noSchedule', 'noExecute'] as const;
export type Measure = (typeof MEASURES)[number];

export const DETECTORS = [
  'builtin',
  'farpulse-steady',
  'farpulse-fast',
  'farpulse-steady-external',
  'farpulse-fast-external',
  'builtin-controller-restart',
  'farpulse-steady-controller-restart',
] as const;
export type Detector = (typeof DETECTORS)[number];

/** One death of a node that this detector looks after. */
export interface Kill {
  readonly detector: Detector;
  readonly node: string;
  /** From kill -9 to the moment at which a watch showed it. */
  readonly seconds: Readonly<Partial<Record<Measure, number>>>;
  /** Reason of the Ready condition when it became Unknown. */
  readonly reason: string;
}

export interface Row {
  readonly detector: Detector;
  readonly measure: Measure;
  readonly kills: number;
  readonly medianSeconds: number;
  readonly p95Seconds: number;
  readonly maxSeconds: number;
}

/** The controller's own reason for an Unknown that it wrote. */
const BUILTIN_REASON = 'NodeStatusUnknown';

/** Whether somebody else than the detector that the node was killed for wrote the Unknown. */
export function wonByOther({ detector, reason }: Kill): boolean {
  return detector.startsWith('builtin') ? reason !== BUILTIN_REASON : !reason.startsWith('Farpulse');
}

/**
 * A row for each detector and measure there are kills of. A kill that somebody else won counts with the seconds it
 * took: that is how long the cluster waited.
 */
export function rowsOf(kills: readonly Kill[]): Row[] {
  return DETECTORS.flatMap((detector) =>
    MEASURES.flatMap((measure): Row[] => {
      const seconds = kills
        .filter((kill) => kill.detector === detector)
        .flatMap((kill) => kill.seconds[measure] ?? []);
      if (seconds.length === 0) return [];
      return [
        {
          detector,
          measure,
          kills: seconds.length,
          medianSeconds: inHundredths(percentile(seconds, 50)),
          p95Seconds: inHundredths(percentile(seconds, 95)),
          maxSeconds: inHundredths(percentile(seconds, 100)),
        },
      ];
    }),
  );
}

export function rowOf(rows: readonly Row[], detector: Detector, measure: Measure): Row | undefined {
  return rows.find((row) => row.detector === detector && row.measure === measure);
}

/** When a node was dead or on its way back. */
export interface Absence {
  readonly node: string;
  readonly fromMs: number;
  /** Undefined: not back yet. */
  readonly untilMs?: number;
}

/** A node's Ready condition as a watch showed it. */
export interface ReadySeen {
  readonly node: string;
  readonly atMs: number;
  readonly status: string;
  readonly reason: string;
}

/** Every moment at which a node that nobody had killed was not Ready. */
export function wrongVerdicts(seen: readonly ReadySeen[], absences: readonly Absence[]): ReadySeen[] {
  const wasAbsent = ({ node, atMs }: ReadySeen): boolean =>
    absences.some(
      (absence) =>
        absence.node === node &&
        atMs >= absence.fromMs &&
        atMs <= (absence.untilMs ?? Number.POSITIVE_INFINITY),
    );
  return seen.filter((ready) => ready.status !== 'True' && !wasAbsent(ready));
}

/** What a watch's way and a busy machine leave of a millisecond. */
function inHundredths(seconds: number): number {
  return Math.round(seconds * 100) / 100;
}
