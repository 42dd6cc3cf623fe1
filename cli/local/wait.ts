// Waiting for conditions: every wait has a deadline, and a wait that fails says what it was for
// and what it saw last. Tests hold no other kind of waiting.
import { setTimeout as delay } from 'node:timers/promises';
import { inspect } from 'node:util';

export interface WaitOptions {
  /** Default 30,000. */
  readonly timeoutMs?: number;
  /** Pause between two looks. Default 50. */
  readonly intervalMs?: number;
  /** Asked before every look: an error returned here ends the wait at once (a process has died). */
  readonly giveUp?: () => Error | undefined;
}

/** Told by a probe what it has seen, for the message of a wait that fails. */
export type Note = (seen: unknown) => void;

export class WaitTimeoutError extends Error {
  override readonly name = 'WaitTimeoutError';
  readonly lastSeen: unknown;

  constructor(description: string, timeoutMs: number, lastSeen: unknown) {
    const seen =
      lastSeen instanceof Error ? lastSeen.message : inspect(lastSeen, { depth: 4, breakLength: 120 });
    super(
      `waited ${timeoutMs / 1000} s for ${description}; last seen: ${seen}`,
      lastSeen instanceof Error ? { cause: lastSeen } : undefined,
    );
    this.lastSeen = lastSeen;
  }
}

/**
 * Looks until `probe` returns something other than `undefined`, `null` or `false`, and returns it.
 * What the probe throws counts as "not yet" (a server that is starting refuses connections) and is
 * named when time is up. One look may not outlast the deadline either.
 */
export async function waitFor<T>(
  description: string,
  probe: (note: Note) => Promise<T | undefined | null | false> | T | undefined | null | false,
  options: WaitOptions = {},
): Promise<T> {
  const { timeoutMs = 30_000, intervalMs = 50, giveUp } = options;
  const deadlineMs = performance.now() + timeoutMs;
  let lastSeen: unknown;
  for (;;) {
    const reason = giveUp?.();
    if (reason !== undefined) throw reason;
    const looked = await withDeadline(deadlineMs, async () => {
      try {
        const value = await probe((seen) => (lastSeen = seen));
        if (value === undefined || value === null || value === false) return undefined;
        return { value };
      } catch (error) {
        lastSeen = error;
        return undefined;
      }
    });
    if (looked !== undefined) return looked.value;
    if (performance.now() + intervalMs >= deadlineMs)
      throw new WaitTimeoutError(description, timeoutMs, lastSeen);
    await delay(intervalMs);
  }
}

async function withDeadline<T>(
  deadlineMs: number,
  look: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const timer = new AbortController();
  const timeUp = delay(Math.max(0, deadlineMs - performance.now()), undefined, {
    signal: timer.signal,
  }).catch(() => undefined);
  try {
    return await Promise.race([look(), timeUp]);
  } finally {
    timer.abort();
  }
}
