/** Lets at most so many tasks run at once; the others wait in order. */
export class Gate {
  readonly #width: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(width: number) {
    this.#width = width;
  }

  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.#running < this.#width) this.#running += 1;
    // Whoever leaves hands its place over, so that nobody who comes just then gets in between.
    else await new Promise<void>((enter) => this.#waiting.push(enter));
    try {
      return await task();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }
}
