import type { Machine } from '../../test/support/simulator/machine.ts';
import { WARM_UP_MS } from '../../test/support/simulator/scenario.ts';
import type { Simulation } from '../../test/support/simulator/simulation.ts';

/** One row of the published table. Undefined: nothing to measure it on. */
export interface Row {
  readonly detector: string;
  readonly scenario: string;
  readonly nodeDays: number;
  /** Deaths that were noticed: what the percentiles are of. */
  readonly deaths: number;
  readonly p50Seconds?: number;
  readonly p99Seconds?: number;
  readonly maxSeconds?: number;
  /** Accusations of a node whose kubelet could reach the API server. */
  readonly mistakes: number;
  /** Accusations of a node that was alive and could not. */
  readonly partitions: number;
  readonly meanMistakeSeconds?: number;
  /** That the answer about a node is right at a random time; partitions count as right. */
  readonly rightProbability: number;
  readonly writes: number;
  readonly apiReads: number;
}

/** What one run gave. Several runs of one scenario, each with its own seed, make one row. */
export interface Tally {
  readonly nodeMs: number;
  readonly detectionsMs: readonly number[];
  readonly mistakes: number;
  readonly mistakesMs: readonly number[];
  readonly partitions: number;
  readonly writes: number;
  readonly apiReads: number;
  /** How long the answer was wrong, summed over nodes. */
  readonly wrongMs: number;
}

export function rowOf(detector: string, scenario: string, tallies: readonly Tally[]): Row {
  const sum = (of: (tally: Tally) => number): number =>
    tallies.reduce((total, tally) => total + of(tally), 0);
  const sorted = tallies.flatMap(({ detectionsMs }) => detectionsMs).toSorted((a, b) => a - b);
  const at = (share: number): number =>
    seconds(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]);
  const mistakesMs = tallies.flatMap((tally) => tally.mistakesMs);
  const nodeMs = sum((tally) => tally.nodeMs);
  return {
    detector,
    scenario,
    nodeDays: Math.round(nodeMs / 864_000) / 100,
    deaths: sorted.length,
    ...(sorted.length > 0 && { p50Seconds: at(0.5), p99Seconds: at(0.99), maxSeconds: at(1) }),
    mistakes: sum((tally) => tally.mistakes),
    partitions: sum((tally) => tally.partitions),
    ...(mistakesMs.length > 0 && {
      meanMistakeSeconds: seconds(mistakesMs.reduce((total, ms) => total + ms, 0) / mistakesMs.length),
    }),
    rightProbability: 1 - Math.round((sum((tally) => tally.wrongMs) / nodeMs) * 1e7) / 1e7,
    writes: sum((tally) => tally.writes),
    apiReads: sum((tally) => tally.apiReads),
  };
}

interface Accusation {
  readonly kind: 'detection' | 'mistake' | 'partition';
  readonly atMs: number;
}

/** Keeps the score of one detector: what it says of each node, beside the truth. */
export class Score {
  readonly detector: string;
  readonly detectionsMs: number[] = [];
  readonly #simulation: Simulation;
  readonly #countsFromMs: number;
  readonly #diedAtMs = new Map<string, number>();
  readonly #accused = new Map<string, Accusation>();
  readonly #mistakesMs: number[] = [];
  #mistakes = 0;
  #partitions = 0;
  #writes = 0;
  #wrongMs = 0;

  constructor(detector: string, simulation: Simulation) {
    this.detector = detector;
    this.#simulation = simulation;
    this.#countsFromMs = simulation.nowMs + WARM_UP_MS;
  }

  died(machine: Machine): void {
    const nowMs = this.#simulation.nowMs;
    const accused = this.#accused.get(machine.name);
    // Accused already, rightly or not: nothing is left to be detected.
    if (accused === undefined) this.#diedAtMs.set(machine.name, nowMs);
    else this.#endMistake(accused, nowMs);
  }

  returned(machine: Machine): void {
    const diedAtMs = this.#diedAtMs.get(machine.name);
    if (diedAtMs === undefined) return;
    this.#diedAtMs.delete(machine.name);
    this.#wrongMs += this.#simulation.nowMs - diedAtMs;
  }

  accuse(machine: Machine): void {
    const atMs = this.#simulation.nowMs;
    // Detectors that learn are given the time to.
    if (this.#accused.has(machine.name) || atMs < this.#countsFromMs) return;
    const { kubelet } = machine;
    const kind =
      !machine.isOn || !kubelet.isAlive ? 'detection' : machine.isReallyReady ? 'mistake' : 'partition';
    this.#accused.set(machine.name, { kind, atMs });
    this.#writes += 1;
    if (kind === 'mistake') this.#mistakes += 1;
    if (kind === 'partition') this.#partitions += 1;
    const diedAtMs = this.#diedAtMs.get(machine.name);
    if (diedAtMs === undefined) return;
    this.#diedAtMs.delete(machine.name);
    this.detectionsMs.push(atMs - diedAtMs);
    this.#wrongMs += atMs - diedAtMs;
  }

  trust(machine: Machine): void {
    const accused = this.#accused.get(machine.name);
    if (accused === undefined) return;
    this.#accused.delete(machine.name);
    if (machine.isOn) this.#endMistake(accused, this.#simulation.nowMs);
  }

  /** @param detectionsMs where the moment of decision is known better than that of the write */
  tally(nodeMs: number, apiReads: number, detectionsMs: readonly number[] = this.detectionsMs): Tally {
    for (const accused of this.#accused.values()) this.#endMistake(accused, this.#simulation.nowMs);
    return {
      nodeMs,
      detectionsMs,
      mistakes: this.#mistakes,
      mistakesMs: this.#mistakesMs,
      partitions: this.#partitions,
      writes: this.#writes,
      apiReads,
      wrongMs: this.#wrongMs,
    };
  }

  #endMistake(accused: Accusation, nowMs: number): void {
    if (accused.kind !== 'mistake') return;
    this.#mistakesMs.push(nowMs - accused.atMs);
    this.#wrongMs += nowMs - accused.atMs;
  }
}

function seconds(ms: number | undefined): number {
  return Math.round((ms ?? 0) / 10) / 100;
}
