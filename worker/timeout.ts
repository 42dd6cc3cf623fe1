/** What a wait that was given up resolves with. */
export const TIMED_OUT = Symbol('timed out');

/**
 * Waits for `work`, but no longer than `limitMs`. The work itself goes on; a rejection after the limit is swallowed.
 * Injected wherever something waits, so that tests decide when time is up.
 */
export type WithTimeout = <T>(work: Promise<T>, limitMs: number) => Promise<T | typeof TIMED_OUT>;

/** {@link WithTimeout} on the runtime's own timers. Leaves none behind: a pending timer keeps an isolate billed. */
export const withTimeout: WithTimeout = async (work, limitMs) => {
  let stop = (): void => {};
  const limit = new Promise<typeof TIMED_OUT>((resolve) => {
    const timer = setTimeout(() => resolve(TIMED_OUT), limitMs);
    stop = () => clearTimeout(timer);
  });
  try {
    return await Promise.race([work, limit]);
  } finally {
    stop();
  }
};
