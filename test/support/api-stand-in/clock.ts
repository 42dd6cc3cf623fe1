/** Time and timers, passed in so that tests move them by hand. */
export interface Clock {
  nowMs(): number;
  /** Returns how to call it off. */
  after(ms: number, run: () => void): () => void;
}

export const REAL_CLOCK: Clock = {
  nowMs: () => Date.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

/** A clock that stands still until told to go on. */
export class ManualClock implements Clock {
  #nowMs: number;
  #timers: { readonly atMs: number; readonly run: () => void }[] = [];

  constructor(startMs: number) {
    this.#nowMs = startMs;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { atMs: this.#nowMs + ms, run };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** Runs what falls due on the way, in order, including what those runs start. */
  advance(ms: number): void {
    const endMs = this.#nowMs + ms;
    for (;;) {
      const next = this.#timers.toSorted((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined || next.atMs > endMs) break;
      this.#timers = this.#timers.filter((timer) => timer !== next);
      this.#nowMs = next.atMs;
      next.run();
    }
    this.#nowMs = endMs;
  }
}
