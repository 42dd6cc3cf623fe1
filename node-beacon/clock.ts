import { setTimeout as delay } from 'node:timers/promises';

/** Time and chance, handed in everywhere so that policy is tested without waiting. */
export interface Clock {
  /** Never jumps; its zero means nothing. All spans and deadlines are measured with it. */
  monotonicMs(): number;
  /** The node's wall clock. Only ever written into beats. */
  wallMs(): number;
  /** True when the time has passed, false when the signal cut it short. */
  sleep(ms: number, signal?: AbortSignal): Promise<boolean>;
  /** In [0, 1). */
  random(): number;
}

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  async sleep(ms, signal) {
    try {
      await delay(Math.max(0, ms), undefined, signal === undefined ? {} : { signal });
      return true;
    } catch (error) {
      if (signal?.aborted === true) return false;
      throw error;
    }
  },
  random: () => Math.random(),
};

/**
 * Runs `work` with a signal that fires after `ms` or together with `parent`. The work must settle soon after its
 * signal; nothing here waits for it any longer than it takes itself.
 */
export async function withDeadline<T>(
  clock: Clock,
  ms: number,
  parent: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  // Not AbortSignal.any: a parent that lives as long as the process would collect one dependent per call.
  const deadline = new AbortController();
  const settled = new AbortController();
  const abort = (): void => deadline.abort();
  if (parent.aborted) abort();
  parent.addEventListener('abort', abort);
  void clock.sleep(ms, settled.signal).then((passed) => {
    if (passed) abort();
  });
  try {
    return await work(deadline.signal);
  } finally {
    settled.abort();
    parent.removeEventListener('abort', abort);
  }
}
