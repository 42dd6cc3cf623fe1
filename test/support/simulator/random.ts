/**
 * A seeded source of numbers: the same seed, the same run. sfc32 (PractRand), seeded by splitmix32.
 */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: number) {
    let state = seed | 0;
    const splitmix = (): number => {
      state = (state + 0x9e3779b9) | 0;
      let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
      mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
      return (mixed ^ (mixed >>> 15)) | 0;
    };
    this.#a = splitmix();
    this.#b = splitmix();
    this.#c = splitmix();
    for (let i = 0; i < 12; i++) this.next();
  }

  /** In [0, 1). */
  next(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return (sum >>> 0) / 4_294_967_296;
  }

  /** True with the given probability; draws nothing where the answer is certain. */
  chance(probability: number): boolean {
    return probability > 0 && (probability >= 1 || this.next() < probability);
  }

  between(low: number, high: number): number {
    return low + this.next() * (high - low);
  }

  exponential(mean: number): number {
    return -mean * Math.log(1 - this.next());
  }

  /** A source of its own, so that one part's draws do not shift another's. */
  fork(): Random {
    return new Random(Math.floor(this.next() * 4_294_967_296));
  }
}
