import { percentile } from '../support/percentile.ts';

/** What came of the beats of one stretch of the load. */
export interface LoadResult {
  readonly beats: number;
  readonly delivered: number;
  readonly errors: number;
  readonly firstError?: string;
  /** From sending to the answer, as lease-load takes it. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** From the moment the beat was due: what it waited in the generator counts. */
  readonly p99FromDueMs: number;
  /** How late the pace itself ran at worst. Look here first when latencies look too good. */
  readonly behindMaxMs: number;
  /** From the first beat's turn to the last answer. */
  readonly tookMs: number;
  /** CPU of the generator meanwhile: near 1,000 it was the generator that was measured. */
  readonly generatorCpuMsPerSecond: number;
}

/** Collects one stretch. A beat belongs to the stretch in which it was due, whenever its answer comes. */
export class Tally {
  readonly #startedAtMs = performance.now();
  readonly #cpu = process.cpuUsage();
  readonly #latenciesMs: number[] = [];
  readonly #fromDueMs: number[] = [];
  readonly #complete = Promise.withResolvers<LoadResult>();
  #beats = 0;
  #open = 0;
  #closed = false;
  #errors = 0;
  #firstError: string | undefined;
  #behindMaxMs = 0;

  sent(behindMs: number): void {
    this.#beats += 1;
    this.#open += 1;
    this.#behindMaxMs = Math.max(this.#behindMaxMs, behindMs);
  }

  answered(outcome: string, sentAtMs: number, dueAtMs: number): void {
    const nowMs = performance.now();
    if (outcome === 'delivered') {
      this.#latenciesMs.push(nowMs - sentAtMs);
      this.#fromDueMs.push(nowMs - dueAtMs);
    } else {
      this.#errors += 1;
      this.#firstError ??= outcome;
    }
    this.#open -= 1;
    this.#settle();
  }

  /** No beats will be added. Resolves when those that are under way have been answered. */
  close(): Promise<LoadResult> {
    this.#closed = true;
    this.#settle();
    return this.#complete.promise;
  }

  #settle(): void {
    if (!this.#closed || this.#open > 0) return;
    const tookMs = performance.now() - this.#startedAtMs;
    const { user, system } = process.cpuUsage(this.#cpu);
    this.#complete.resolve({
      beats: this.#beats,
      delivered: this.#latenciesMs.length,
      errors: this.#errors,
      ...(this.#firstError !== undefined && { firstError: this.#firstError }),
      p50Ms: percentile(this.#latenciesMs, 50),
      p99Ms: percentile(this.#latenciesMs, 99),
      p99FromDueMs: percentile(this.#fromDueMs, 99),
      behindMaxMs: this.#behindMaxMs,
      tookMs,
      generatorCpuMsPerSecond: (user + system) / tookMs,
    });
  }
}
