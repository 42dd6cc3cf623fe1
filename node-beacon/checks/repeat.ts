import { type Clock, withDeadline } from '../clock.ts';

/** How often a check runs, and how soon again after a first failure: one failure is a hiccup, two are a finding. */
export interface Rhythm {
  readonly periodMs: number;
  readonly recheckMs: number;
  readonly timeoutMs: number;
}

/** The rhythm of a check that is to be fresh in every beat of this interval. */
export function rhythmFor(intervalMs: number, leastPeriodMs = 0): Rhythm {
  const periodMs = Math.max(leastPeriodMs, Math.min(intervalMs / 2, 5_000));
  return { periodMs, recheckMs: Math.min(1_000, periodMs / 2), timeoutMs: Math.min(2_000, periodMs) };
}

/**
 * Runs a check until the signal fires, beside the beats: what it found last is what the next beat says, so that a
 * check which hangs delays nothing.
 *
 * @param check answers whether it wants to look again soon
 */
export async function repeatCheck(
  clock: Clock,
  { periodMs, recheckMs, timeoutMs }: Rhythm,
  signal: AbortSignal,
  check: (deadline: AbortSignal) => Promise<'again-soon' | 'settled'>,
): Promise<void> {
  while (!signal.aborted) {
    const startedAtMs = clock.monotonicMs();
    const next = await withDeadline(clock, timeoutMs, signal, check);
    const spentMs = clock.monotonicMs() - startedAtMs;
    await clock.sleep(next === 'again-soon' ? recheckMs : Math.max(recheckMs, periodMs - spentMs), signal);
  }
}
