import type { Clock } from '../../../node-beacon/clock.ts';

interface Sleeper {
  readonly wakesAtMs: number;
  readonly wake: (passed: boolean) => void;
}

/** A clock that only a test moves. Everything that became due, and all that follows from it, has run after a move. */
export class VirtualClock implements Clock {
  /** What random() answers. */
  chance = 0;
  #nowMs = 0;
  readonly #sleepers = new Set<Sleeper>();

  monotonicMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return Date.UTC(2030, 0, 1) + this.#nowMs;
  }

  random(): number {
    return this.chance;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    if (signal?.aborted === true) return Promise.resolve(false);
    const sleeper = { wakesAtMs: this.#nowMs + Math.max(0, ms), wake: resolve };
    this.#sleepers.add(sleeper);
    signal?.addEventListener('abort', () => {
      if (this.#sleepers.delete(sleeper)) resolve(false);
    });
    return promise;
  }

  /** Lets time pass, sleeper by sleeper. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    for (;;) {
      await settle();
      const next = this.#earliest();
      if (next === undefined || next.wakesAtMs > untilMs) break;
      this.#nowMs = Math.max(this.#nowMs, next.wakesAtMs);
      this.#sleepers.delete(next);
      next.wake(true);
    }
    this.#nowMs = untilMs;
    await settle();
  }

  /** The process did not run for so long: everything that fell due meanwhile wakes at the end, late. */
  async pause(ms: number): Promise<void> {
    await settle();
    this.#nowMs += ms;
    await this.advance(0);
  }

  #earliest(): Sleeper | undefined {
    return [...this.#sleepers].reduce<Sleeper | undefined>(
      (first, each) => (first === undefined || each.wakesAtMs < first.wakesAtMs ? each : first),
      undefined,
    );
  }
}

/** Runs every continuation that is ready. Nothing under a virtual clock waits for real I/O. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
