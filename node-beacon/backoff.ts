import type { Outcome } from './deliver.ts';

/*
 * How a beacon that is not heard for long holds back. Pure, as tries.ts.
 *
 * A healthy beacon tries a beat five times, since a lost beat may cost a verdict. Once so many beats are lost that the
 * node is silent anyway, more tries save nothing: they only multiply the load of a service that is in trouble already,
 * and fall upon it together when it returns. So the tries beyond the first of each beat are drawn from a window that
 * doubles (full jitter), until hardly any falls into the interval. The first one stays: it is what the service bears
 * on any good day, and its moment was drawn when the beacon started.
 */

/**
 * By then a node is silent under every preset: three missed beats at most, and one for the margin. Where more missed
 * beats are configured, as many first tries stand between it and a verdict.
 */
const BEATS_BEFORE = 4;

/** A window of eight intervals: every ninth beat is tried a second time. */
const MAX_LEVEL = 4;

/** So many delivered beats in a row end it: a single one may be luck. */
const SUSTAINED_BEATS = 3;

export interface Backoff {
  /** Beats since the last good time. */
  readonly undelivered: number;
  readonly deliveredInARow: number;
}

export const NO_BACKOFF: Backoff = { undelivered: 0, deliveredInARow: 0 };

/** The state after one more beat. */
export function afterBeat(before: Backoff, outcome: Outcome['kind']): Backoff {
  switch (outcome) {
    case 'interrupted':
      return before;
    case 'short':
    case 'refused':
    case 'failed':
      return { undelivered: before.undelivered + 1, deliveredInARow: 0 };
    case 'delivered': {
      const deliveredInARow = before.deliveredInARow + 1;
      if (before.undelivered < BEATS_BEFORE || deliveredInARow >= SUSTAINED_BEATS) return NO_BACKOFF;
      // At once back to the mildest level: a node that has just returned must not be lost to one lost packet.
      return { undelivered: BEATS_BEFORE, deliveredInARow };
    }
  }
}

/** 0: every beat has all its tries. Above it, each level doubles the window that retries are drawn from. */
export function backoffLevel({ undelivered }: Backoff): number {
  return Math.min(MAX_LEVEL, Math.max(0, undelivered - BEATS_BEFORE + 1));
}
