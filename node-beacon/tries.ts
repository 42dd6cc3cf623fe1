/*
 * When one beat is tried. Pure, so that the simulator judges the very schedule that runs on nodes.
 *
 * Invariants, for every interval and round trip:
 * 1. the first try is at 0;
 * 2. a try ends where the next one starts, or before: a request lost on the way costs its own time, never the beat;
 * 3. all tries end before the next beat is due, and each takes far less than an interval;
 * 4. there is always room for a second try, however slow the path; only a beacon that backs off may have none.
 */

/** The row is drawn for this interval; shorter intervals scale it, longer ones continue it. */
const DRAWN_FOR_MS = 10_000;
const DRAWN_OFFSETS_MS: readonly number[] = [0, 1_000, 2_000, 4_000, 7_000];

/** The least time a try gets, of the drawn interval: a new connection is three round trips, plus the router's fan-out. */
const LEAST_TRY_MS = 1_000;

/** A request is not given up before it had this many usual round trips. */
const ROUND_TRIPS = 3;

/** So much of the interval at most goes to waiting for a slow path, or one loss would cost the beat. */
const MOST_SPACING = 0.4;

/** The last try ends at this share of the interval. */
const END = 0.95;

/** What has not been answered by then will not be, at whatever interval. */
const LONGEST_TRY_MS = 10_000;

/** Retries of a beat while its beacon backs off. */
const BACKED_OFF_RETRIES = 2;

/** As in RFC 6298: one new sample in eight. */
const SMOOTHING = 1 / 8;

/** How far a beacon holds back, see backoff.ts. */
export interface HoldingBack {
  /** From 1 on. */
  readonly level: number;
  /** In [0, 1). */
  readonly random: () => number;
}

/** One try, as offsets from the start of the beat. */
export interface PlannedTry {
  readonly startMs: number;
  readonly endMs: number;
}

/**
 * The offsets at which a beat is tried: 0, 1, 2, 4 and 7 s at an interval of 10 s.
 *
 * @param smoothedRoundTripMs 0 when none was measured yet
 */
export function tryOffsetsMs(
  intervalMs: number,
  smoothedRoundTripMs: number,
  holdingBack?: HoldingBack,
): number[] {
  const leastMs = LEAST_TRY_MS * scaleOf(intervalMs);
  const spacingMs = Math.max(leastMs, Math.min(ROUND_TRIPS * smoothedRoundTripMs, MOST_SPACING * intervalMs));
  const latestMs = END * intervalMs - leastMs;
  const offsets = [0];
  const row = holdingBack === undefined ? drawnOffsets(intervalMs) : jitteredOffsets(intervalMs, holdingBack);
  for (const drawnMs of row) {
    const previousMs = offsets.at(-1) ?? 0;
    const offsetMs = Math.max(drawnMs, previousMs + spacingMs);
    if (offsetMs > latestMs) break;
    offsets.push(offsetMs);
  }
  return offsets;
}

/** The same with each try's end: the start of the next one, and for the last one the end of the row. */
export function planTries(
  intervalMs: number,
  smoothedRoundTripMs: number,
  holdingBack?: HoldingBack,
): PlannedTry[] {
  const offsets = tryOffsetsMs(intervalMs, smoothedRoundTripMs, holdingBack);
  const longestMs = Math.min(LONGEST_TRY_MS, MOST_SPACING * intervalMs);
  return offsets.map((startMs, index) => ({
    startMs,
    endMs: Math.min(offsets[index + 1] ?? END * intervalMs, startMs + longestMs),
  }));
}

/** The smoothed round trip after one more answered try; unanswered tries say nothing about it (Karn). */
export function smoothRoundTripMs(smoothedMs: number, sampleMs: number): number {
  return smoothedMs === 0 ? sampleMs : smoothedMs + SMOOTHING * (sampleMs - smoothedMs);
}

function scaleOf(intervalMs: number): number {
  return Math.min(1, intervalMs / DRAWN_FOR_MS);
}

/** The drawn row after its first 0, then on with doubled gaps: at a long interval an outage of 10 s costs no beat. */
function* drawnOffsets(intervalMs: number): Generator<number> {
  const scale = scaleOf(intervalMs);
  for (const offsetMs of DRAWN_OFFSETS_MS.slice(1)) yield offsetMs * scale;
  let gapMs = 3_000 * scale;
  let offsetMs = 7_000 * scale;
  while (offsetMs < intervalMs) {
    gapMs *= 2;
    offsetMs += gapMs;
    yield offsetMs;
  }
}

/** Each gap is drawn from a window twice as wide as the last (full jitter); what lies beyond the interval falls away. */
function* jitteredOffsets(intervalMs: number, { level, random }: HoldingBack): Generator<number> {
  let windowMs = intervalMs * 2 ** (level - 1);
  let offsetMs = 0;
  for (let retry = 0; retry < BACKED_OFF_RETRIES; retry++) {
    offsetMs += random() * windowMs;
    windowMs *= 2;
    yield offsetMs;
  }
}
