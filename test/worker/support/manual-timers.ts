import { TIMED_OUT, type WithTimeout } from '../../../worker/timeout.ts';

interface Wait {
  readonly limitMs: number;
  readonly giveUp: () => void;
}

/** Time limits that end when the test says so. */
export class ManualTimers {
  readonly #waits = new Set<Wait>();
  #changed: (() => void)[] = [];

  readonly withTimeout: WithTimeout = <T>(work: Promise<T>, limitMs: number) =>
    new Promise<T | typeof TIMED_OUT>((resolve, reject) => {
      const wait: Wait = { limitMs, giveUp: () => resolve(TIMED_OUT) };
      this.#waits.add(wait);
      for (const changed of this.#changed.splice(0)) changed();
      work.then(
        (value) => {
          this.#waits.delete(wait);
          resolve(value);
        },
        (error: unknown) => {
          this.#waits.delete(wait);
          reject(error);
        },
      );
    });

  /** Resolves when something waits with this limit. */
  async armed(limitMs: number): Promise<void> {
    while (!this.isArmed(limitMs)) {
      await new Promise<void>((resolve) => this.#changed.push(resolve));
    }
  }

  isArmed(limitMs: number): boolean {
    return [...this.#waits].some((wait) => wait.limitMs === limitMs);
  }

  /** Ends all waits of at most this limit. */
  pass(limitMs: number): void {
    for (const wait of this.#waits) {
      if (wait.limitMs > limitMs) continue;
      this.#waits.delete(wait);
      wait.giveUp();
    }
  }
}
