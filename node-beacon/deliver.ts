import type { Ack } from '../protocol/ack.ts';
import { isTransient } from '../protocol/ack.ts';
import { REFUSAL_CODES, type RefusalCode } from '../protocol/beat.ts';
import { type Clock, withDeadline } from './clock.ts';
import type { Failure, SignedBeat, Transport, TryResult } from './transport/transport.ts';
import type { PlannedTry } from './tries.ts';

/** What became of a beat after all its tries. */
export type Outcome =
  | { readonly kind: 'delivered'; readonly endpoint: string; readonly roundTripMs: number }
  /** Some observers have it, fewer than a quorum. */
  | { readonly kind: 'short'; readonly quorum: number; readonly missing: Ack['missing'] }
  | { readonly kind: 'refused'; readonly code: string; readonly why: string; readonly highestSeq?: number }
  | { readonly kind: 'failed'; readonly failure: Failure; readonly why: string }
  /** The next beat or the end came first. */
  | { readonly kind: 'interrupted' };

export interface Delivery {
  readonly outcome: Outcome;
  readonly tries: number;
  readonly recordedBy: readonly string[];
  /** Every reason that some observer gave for not recording it, in this or that try. */
  readonly objections: ReadonlySet<string>;
}

interface DeliveryParts {
  readonly beat: SignedBeat;
  readonly plan: readonly PlannedTry[];
  /** Monotonic time that the plan's offsets count from. */
  readonly startedAtMs: number;
  /** No try outlasts this. */
  readonly endsAtMs: number;
  /** In order of preference; tries alternate. */
  readonly endpoints: readonly string[];
  /** Until when, in monotonic time, an endpoint asked to be left alone. Outlives the beat. */
  readonly pausedUntilMs: Map<string, number>;
  /** No endpoint is left alone for longer than this, whatever it asks. */
  readonly maxPauseMs: number;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Tries one signed beat, always the same one, by the plan until a quorum of observers has recorded it. */
export async function deliver(parts: DeliveryParts): Promise<Delivery> {
  const { beat, plan, startedAtMs, endsAtMs, endpoints, pausedUntilMs, transport, clock, signal } = parts;
  const recordedBy = new Set<string>();
  const objections = new Set<string>();
  /** Endpoints whose refusal of this beat will not change. */
  const closed = new Set<string>();
  let outcome: Outcome = { kind: 'interrupted' };
  let tries = 0;
  let turn = 0;

  for (const { startMs, endMs } of plan) {
    await clock.sleep(startedAtMs + startMs - clock.monotonicMs(), signal);
    if (signal.aborted)
      return { outcome: { kind: 'interrupted' }, tries, recordedBy: [...recordedBy], objections };

    const nowMs = clock.monotonicMs();
    const deadlineMs = Math.min(startedAtMs + endMs, endsAtMs) - nowMs;
    if (deadlineMs <= 0) continue; // the process was paused, or this row began late

    const open = endpoints.filter((each) => !closed.has(each) && (pausedUntilMs.get(each) ?? 0) <= nowMs);
    const endpoint = open[turn % open.length];
    if (endpoint === undefined) continue; // none may be asked at this offset, perhaps at the next one
    turn += 1;
    tries += 1;
    const result = await withDeadline(clock, deadlineMs, signal, (within) =>
      transport.send(endpoint, beat, [...recordedBy], within),
    );

    if (result.kind === 'acked') {
      for (const observer of result.ack.recordedBy) recordedBy.add(observer);
      for (const { code } of result.ack.missing) objections.add(code);
      if (recordedBy.size >= result.ack.quorum) {
        outcome = { kind: 'delivered', endpoint, roundTripMs: clock.monotonicMs() - nowMs };
        break;
      }
      outcome = { kind: 'short', quorum: result.ack.quorum, missing: result.ack.missing };
      continue;
    }
    if (result.kind === 'refused') objections.add(result.code);
    if (!signal.aborted) outcome = moreTelling(outcome, result);
    if (result.retryAfterMs !== undefined) {
      const pauseMs = Math.min(result.retryAfterMs, parts.maxPauseMs);
      pausedUntilMs.set(endpoint, clock.monotonicMs() + pauseMs);
    }
    if (result.kind === 'refused' && !mayPass(result.code, result.status)) closed.add(endpoint);
    if (result.kind === 'refused' && result.code === 'replayed') break; // the next try needs another beat
    if (closed.size === endpoints.length) break;
  }
  return { outcome, tries, recordedBy: [...recordedBy], objections };
}

/** What to say when not all tries ended alike: what the service itself said outweighs what the way to it did. */
function moreTelling(before: Outcome, result: Exclude<TryResult, { kind: 'acked' }>): Outcome {
  if (result.kind === 'failed') {
    const { failure, why } = result;
    return before.kind === 'short' || before.kind === 'refused' ? before : { kind: 'failed', failure, why };
  }
  const { code, why, highestSeq } = result;
  return { kind: 'refused', code, why, ...(highestSeq === undefined ? {} : { highestSeq }) };
}

/** A code from a newer service is judged by its status. */
function mayPass(code: string, status: number): boolean {
  return isRefusalCode(code) ? isTransient(code) : status >= 500 || status === 429;
}

function isRefusalCode(code: string): code is RefusalCode {
  return (REFUSAL_CODES as readonly string[]).includes(code);
}
