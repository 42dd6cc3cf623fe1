import type { RefusalCode } from '../../protocol/beat.ts';

/**
 * How one beat ended: recorded by a quorum, by fewer, by the one observer that it opened a socket to, or refused with
 * the code that was answered. Beats over an open socket do not come by here.
 */
export type BeatOutcome = 'recorded' | 'partial' | 'opened' | 'misconfigured' | RefusalCode;

/** Why one observer gave no answer to one beat. */
export type ObserverFault = 'timed-out' | 'overloaded' | 'failed';

export interface CounterSnapshot {
  readonly beats: Readonly<Partial<Record<BeatOutcome, number>>>;
  /** By observer (`cluster/id`), then by fault. */
  readonly observerFaults: Readonly<Record<string, Readonly<Partial<Record<ObserverFault, number>>>>>;
}

/**
 * What this isolate has counted since it started. Plain numbers, no I/O, one addition a beat; whoever exports them
 * must sum over isolates and expect restarts at 0. Labels are codes and configured names, so their number is bounded.
 */
export interface Counters {
  beat(outcome: BeatOutcome): void;
  observerFault(cluster: string, observer: string, fault: ObserverFault): void;
  snapshot(): CounterSnapshot;
}

export function createCounters(): Counters {
  const beats: Partial<Record<BeatOutcome, number>> = {};
  const observerFaults: Record<string, Partial<Record<ObserverFault, number>>> = {};
  return {
    beat(outcome) {
      beats[outcome] = (beats[outcome] ?? 0) + 1;
    },
    observerFault(cluster, observer, fault) {
      const faults = (observerFaults[`${cluster}/${observer}`] ??= {});
      faults[fault] = (faults[fault] ?? 0) + 1;
    },
    snapshot: () => structuredClone({ beats, observerFaults }),
  };
}
