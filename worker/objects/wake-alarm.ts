/**
 * An alarm that is due this short a time is about to ring; later it must have been lost, or stuck in the past
 * (cloudflare-docs#18324), and is set anew.
 */
const ABOUT_TO_RING_MS = 1_000;

/**
 * An object's one alarm. Every `setAlarm` is a row written: one that rings too early is kept, and moved when it has
 * rung. One that is due is not moved either: another event that comes just before it would take its place, and at many
 * events a second it would hardly ever ring.
 */
export class WakeAlarm {
  readonly #storage: DurableObjectStorage;
  #atMs: number | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** What is set, after memory was lost. @returns ms since the epoch */
  async restore(): Promise<number | undefined> {
    this.#atMs = (await this.#storage.getAlarm()) ?? undefined;
    return this.#atMs;
  }

  /** It has rung. To be called before anything else is done in `alarm()`. */
  rang(): void {
    this.#atMs = undefined;
  }

  async set(wakeAtMs: number): Promise<void> {
    const nowMs = Date.now();
    if (this.#atMs !== undefined && this.#atMs <= wakeAtMs && this.#atMs > nowMs - ABOUT_TO_RING_MS) return;
    // An alarm set to now, from inside an alarm, can stall (workerd#6866).
    this.#atMs = Math.max(wakeAtMs, nowMs + 10);
    await this.#storage.setAlarm(this.#atMs);
  }
}
