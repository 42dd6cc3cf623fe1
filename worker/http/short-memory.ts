/**
 * A set that forgets: each entry after `ttlMs`, and the oldest ones when there are more than `maxEntries`.
 *
 * It lives in one isolate and is lost with it. So it may only save work, never decide anything that must be true.
 */
export class ShortMemory {
  readonly #untilMs = new Map<string, number>();
  readonly #ttlMs: number;
  readonly #maxEntries: number;

  constructor(ttlMs: number, maxEntries: number) {
    this.#ttlMs = ttlMs;
    this.#maxEntries = maxEntries;
  }

  has(key: string, nowMs: number): boolean {
    const untilMs = this.#untilMs.get(key);
    if (untilMs === undefined) return false;
    if (nowMs < untilMs) return true;
    this.#untilMs.delete(key);
    return false;
  }

  /** Remembers from now on; an entry that is already there counts as new. */
  add(key: string, nowMs: number): void {
    // A Map iterates in order of insertion: deleting first makes this entry the youngest.
    this.#untilMs.delete(key);
    this.#untilMs.set(key, nowMs + this.#ttlMs);
    if (this.#untilMs.size <= this.#maxEntries) return;
    const oldest = this.#untilMs.keys().next();
    if (oldest.done !== true) this.#untilMs.delete(oldest.value);
  }
}
