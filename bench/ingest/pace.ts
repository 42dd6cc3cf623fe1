import type { Delivery } from './delivery.ts';
import type { SignedBeat } from './fleet.ts';
import { Tally, type LoadResult } from './tally.ts';

/** Looks at the clock this often: beats that are due by then go out together. */
const TICK_MS = 2;

/**
 * Sends beats at a fixed pace, whether or not earlier ones have been answered, so that a slow server is not spared.
 * The pace never stops between stretches: nodes that fall silent would be news, and news is not what is measured.
 */
export class Pace {
  readonly #delivery: Delivery;
  readonly #beats: Iterator<SignedBeat>;
  #tally = new Tally();
  #perSecond: number;
  #dueAtMs = performance.now();
  #timer: NodeJS.Timeout | undefined;

  constructor(delivery: Delivery, beats: Iterable<SignedBeat>, perSecond: number) {
    this.#delivery = delivery;
    this.#beats = beats[Symbol.iterator]();
    this.#perSecond = perSecond;
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  /** Ends the stretch and begins the next one, at another pace perhaps. Resolves with what came of the old one. */
  next(perSecond: number): Promise<LoadResult> {
    const ended = this.#tally;
    this.#tally = new Tally();
    this.#perSecond = perSecond;
    this.#dueAtMs = performance.now();
    return ended.close();
  }

  async stop(): Promise<LoadResult> {
    clearInterval(this.#timer);
    return this.#tally.close();
  }

  #tick(): void {
    const gapMs = 1000 / this.#perSecond;
    for (const nowMs = performance.now(); this.#dueAtMs <= nowMs; this.#dueAtMs += gapMs) {
      const beat = this.#beats.next();
      if (beat.done === true) throw new Error('no signed beats are left');
      void this.#send(beat.value, this.#dueAtMs);
    }
  }

  async #send(beat: SignedBeat, dueAtMs: number): Promise<void> {
    const tally = this.#tally;
    const sentAtMs = performance.now();
    tally.sent(sentAtMs - dueAtMs);
    tally.answered(await this.#delivery.send(beat), sentAtMs, dueAtMs);
  }
}
