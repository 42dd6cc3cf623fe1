import type { Random } from './random.ts';

/** Burst loss after Gilbert: a link is good or bad for exponential times, and loses by the state it is in. */
export interface GilbertModel {
  readonly goodMs: number;
  readonly badMs: number;
  /** Loss while bad. While good, the link's own loss applies. */
  readonly badLoss: number;
}

export interface LinkModel {
  readonly delayMs: number;
  /** Up to this much more, evenly. */
  readonly jitterMs: number;
  /** Share of transmissions lost, each by itself. */
  readonly loss: number;
  readonly gilbert?: GilbertModel;
}

/** A transmission that never arrives. */
export const LOST = Number.POSITIVE_INFINITY;

/** One direction of one path. What it does may be changed while the simulation runs. */
export class Link {
  delayMs: number;
  jitterMs: number;
  loss: number;
  /** Nothing passes. */
  isCut = false;
  readonly #gilbert: GilbertModel | undefined;
  readonly #random: Random;
  #bad = false;
  #changesAtMs = 0;

  constructor(model: LinkModel, random: Random) {
    this.delayMs = model.delayMs;
    this.jitterMs = model.jitterMs;
    this.loss = model.loss;
    this.#gilbert = model.gilbert;
    this.#random = random;
  }

  /** How long one transmission begun now takes, or `LOST`. */
  transmit(nowMs: number): number {
    if (this.isCut) return LOST;
    const loss = this.#gilbert === undefined ? this.loss : this.#gilbertLoss(this.#gilbert, nowMs);
    if (loss > 0 && this.#random.next() < loss) return LOST;
    return this.jitterMs > 0 ? this.delayMs + this.#random.next() * this.jitterMs : this.delayMs;
  }

  #gilbertLoss(gilbert: GilbertModel, nowMs: number): number {
    // The first period begins in the middle of a good one.
    if (this.#changesAtMs === 0) this.#changesAtMs = nowMs + this.#random.exponential(gilbert.goodMs);
    while (nowMs >= this.#changesAtMs) {
      this.#bad = !this.#bad;
      this.#changesAtMs += this.#random.exponential(this.#bad ? gilbert.badMs : gilbert.goodMs);
    }
    return this.#bad ? gilbert.badLoss : this.loss;
  }
}

/** Both directions of a path. */
export class Path {
  readonly there: Link;
  readonly back: Link;

  constructor(model: LinkModel, random: Random) {
    this.there = new Link(model, random);
    this.back = new Link(model, random);
  }

  get isOpen(): boolean {
    return !this.there.isCut && !this.back.isCut;
  }

  cut(): void {
    this.there.isCut = true;
    this.back.isCut = true;
  }

  mend(): void {
    this.there.isCut = false;
    this.back.isCut = false;
  }

  setLoss(loss: number): void {
    this.there.loss = loss;
    this.back.loss = loss;
  }

  setDelay(delayMs: number, jitterMs: number): void {
    this.there.delayMs = delayMs;
    this.there.jitterMs = jitterMs;
    this.back.delayMs = delayMs;
    this.back.jitterMs = jitterMs;
  }
}
