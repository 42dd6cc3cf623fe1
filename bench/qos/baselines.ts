import { FailureDetector } from 'adaptive-accrual-failure-detector';

/*
 * Known failure detectors, each with one monitor that hears a node's beats. Told of every arrival, they say from when
 * on they would suspect, if nothing more came.
 */

/** One monitor's view of one node. */
export interface Baseline {
  /** A beat has arrived. */
  arrived(atMs: number): void;
  /** From when on the node is suspected, unless another beat arrives; infinite before the first. */
  suspectAtMs(): number;
  /** Asked at that moment, where the last word is another's. */
  isSuspectedAt?(nowMs: number): boolean;
}

/** A timeout since the last beat, as long as that of farpulse's `steady`. */
export class Fixed implements Baseline {
  readonly #timeoutMs: number;
  #lastMs = Number.POSITIVE_INFINITY;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  arrived(atMs: number): void {
    this.#lastMs = atMs;
  }

  suspectAtMs(): number {
    return this.#lastMs + this.#timeoutMs;
  }
}

/**
 * Chen, Toueg and Aguilera, "On the quality of service of failure detectors" (2002), NFD-E: the next arrival is
 * estimated from the last ones, and suspicion begins a constant safety margin later.
 */
export class Chen implements Baseline {
  readonly #intervalMs: number;
  readonly #alphaMs: number;
  /** Arrival times, each less its number times the interval: their mean is the estimated offset. */
  readonly #offsets = new Window(1_000);
  #count = 0;
  #lastMs = 0;

  constructor(intervalMs: number, alphaMs: number) {
    this.#intervalMs = intervalMs;
    this.#alphaMs = alphaMs;
  }

  arrived(atMs: number): void {
    // Beats carry no number here: after a gap, as many have been missed as fit into it.
    const step = this.#count === 0 ? 1 : Math.max(1, Math.round((atMs - this.#lastMs) / this.#intervalMs));
    this.#count += step;
    this.#lastMs = atMs;
    this.#offsets.add(atMs - this.#count * this.#intervalMs);
  }

  suspectAtMs(): number {
    if (this.#count === 0) return Number.POSITIVE_INFINITY;
    return this.#offsets.mean + (this.#count + 1) * this.#intervalMs + this.#alphaMs;
  }
}

/**
 * Hayashibara and others, "The phi accrual failure detector" (2004), as in Akka (PhiAccrualFailureDetector.scala) with
 * the defaults of akka.cluster.failure-detector: threshold 8, 1000 samples, least deviation 100 ms, pause 3 s.
 */
export class PhiAkka implements Baseline {
  readonly #gaps = new Window(1_000);
  #lastMs: number | undefined;

  constructor(intervalMs: number) {
    // Akka's first estimate: the interval, with a quarter of it as the deviation.
    this.#gaps.add(intervalMs * 0.75);
    this.#gaps.add(intervalMs * 1.25);
  }

  arrived(atMs: number): void {
    // Akka takes only gaps in after which the node still counted as available.
    if (this.#lastMs !== undefined && atMs < this.suspectAtMs()) this.#gaps.add(atMs - this.#lastMs);
    this.#lastMs = atMs;
  }

  suspectAtMs(): number {
    if (this.#lastMs === undefined) return Number.POSITIVE_INFINITY;
    return this.#lastMs + this.#gaps.mean + 3_000 + Math.max(100, this.#gaps.deviation) * DEVIATIONS_AT_PHI_8;
  }
}

/** How many deviations past the mean Akka's approximation of the normal distribution reaches phi = 8. */
const DEVIATIONS_AT_PHI_8 = solvePhi(8);

function solvePhi(threshold: number): number {
  const phi = (y: number): number => {
    const e = Math.exp(-y * (1.5976 + 0.070566 * y * y));
    return -Math.log10(e / (1 + e));
  };
  let low = 0;
  let high = 20;
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (phi(middle) < threshold) low = middle;
    else high = middle;
  }
  return high;
}

/**
 * Satzger, Pietzowski, Trumler and Ungerer, "A new adaptive accrual failure detector for dependable distributed
 * systems" (2007), by the npm package `adaptive-accrual-failure-detector` with its defaults: 1000 samples, scaling 0.9,
 * threshold 0.5. The probability of failure is the share of past gaps that were no longer than the scaled present one.
 *
 * The package answers "failed at this time?" only. When that answer turns is worked out here, because to ask it every
 * millisecond would take for ever; test/core/bench-baselines.test.ts holds the two together.
 */
export class Satzger implements Baseline {
  readonly detector = new FailureDetector();
  readonly #gaps = new Window(1_000);
  readonly #sorted: number[] = [];
  #lastMs: number | undefined;

  arrived(atMs: number): void {
    this.detector.registerHeartbeat(atMs);
    if (this.#lastMs !== undefined) {
      const gapMs = atMs - this.#lastMs;
      const dropped = this.#gaps.add(gapMs);
      if (dropped !== undefined) this.#sorted.splice(rankOf(this.#sorted, dropped), 1);
      this.#sorted.splice(rankOf(this.#sorted, gapMs), 0, gapMs);
    }
    this.#lastMs = atMs;
  }

  suspectAtMs(): number {
    if (this.#lastMs === undefined || this.#sorted.length === 0) return Number.POSITIVE_INFINITY;
    const median = this.#sorted[Math.ceil(0.5 * this.#sorted.length) - 1] ?? 0;
    return this.#lastMs + median / 0.9;
  }

  isSuspectedAt(nowMs: number): boolean {
    // A microsecond more: the package multiplies by 0.9 where this divides by it.
    return this.detector.checkFailure(nowMs + 0.001);
  }
}

/**
 * A fixed timeout whose margin grows with the node's own lateness: the floor, plus four deviations of its gaps, to a
 * ceiling. Not published beside the others: it is there to tell whether farpulse's margin should do the same.
 */
export class OwnLateness implements Baseline {
  readonly #timeoutMs: number;
  readonly #ceilingMs: number;
  readonly #gaps = new Window(100);
  #lastMs: number | undefined;

  constructor(timeoutMs: number, ceilingMs: number) {
    this.#timeoutMs = timeoutMs;
    this.#ceilingMs = ceilingMs;
  }

  arrived(atMs: number): void {
    if (this.#lastMs !== undefined) this.#gaps.add(atMs - this.#lastMs);
    this.#lastMs = atMs;
  }

  suspectAtMs(): number {
    if (this.#lastMs === undefined) return Number.POSITIVE_INFINITY;
    return this.#lastMs + this.#timeoutMs + Math.min(this.#ceilingMs, 4 * (this.#gaps.deviation || 0));
  }
}

/** The first index whose value is not less. */
function rankOf(sorted: readonly number[], value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? 0) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The last so many values, with mean and deviation. */
class Window {
  readonly #values: number[] = [];
  readonly #size: number;
  #next = 0;
  #sum = 0;
  #squares = 0;
  /** Sums are of the distance from the first value, or squares of large times would lose all their digits. */
  #origin = 0;

  constructor(size: number) {
    this.#size = size;
  }

  /** @returns the value that fell out */
  add(value: number): number | undefined {
    if (this.#values.length === 0) this.#origin = value;
    const distance = value - this.#origin;
    this.#sum += distance;
    this.#squares += distance * distance;
    if (this.#values.length < this.#size) {
      this.#values.push(value);
      return undefined;
    }
    const dropped = this.#values[this.#next] ?? 0;
    this.#values[this.#next] = value;
    this.#next = (this.#next + 1) % this.#size;
    const droppedDistance = dropped - this.#origin;
    this.#sum -= droppedDistance;
    this.#squares -= droppedDistance * droppedDistance;
    return dropped;
  }

  get mean(): number {
    return this.#origin + this.#sum / this.#values.length;
  }

  get deviation(): number {
    const mean = this.#sum / this.#values.length;
    return Math.sqrt(Math.max(0, this.#squares / this.#values.length - mean * mean));
  }
}
