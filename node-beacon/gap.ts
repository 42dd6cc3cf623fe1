/** Three clocks of one machine at one moment. */
export interface ClockReading {
  /** Counts suspend. */
  readonly uptimeMs: number;
  /** Does not. */
  readonly monotonicMs: number;
  /** Goes on while a virtual machine is paused, once it has been set right again. */
  readonly wallMs: number;
}

/** Time in which this process did not run, and what it looks like. */
export interface Gap {
  readonly ms: number;
  readonly why: string;
}

/**
 * Whether more time has passed between two readings than `expectedMs` and some, and why.
 *
 * @param toleranceMs what a busy machine may be late
 */
export function gapBetween(
  before: ClockReading,
  after: ClockReading,
  expectedMs: number,
  toleranceMs: number,
): Gap | undefined {
  const monotonicMs = after.monotonicMs - before.monotonicMs;
  const uptimeMs = after.uptimeMs - before.uptimeMs;
  const wallMs = after.wallMs - before.wallMs;
  const limitMs = expectedMs + toleranceMs;
  if (monotonicMs > limitMs)
    return { ms: monotonicMs, why: 'the process was stopped, or the machine stalled' };
  if (uptimeMs > limitMs) return { ms: uptimeMs, why: 'the machine was suspended' };
  if (wallMs > limitMs) return { ms: wallMs, why: 'the virtual machine was paused, or its clock was set' };
  return undefined;
}
