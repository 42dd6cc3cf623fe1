import type { Beat } from '../../../protocol/beat.ts';
import { MAX_STREAMS, type Stream } from './state.ts';

/** A boot unknown here whose sender time lies this far behind the newest seen from the node is a replay. */
export const REPLAY_BEHIND_MS = 3_600_000;

/**
 * What one beat does to a node's streams. A beat can only add life: no outcome makes another beat invalid.
 * - `advanced`: the stream moved; `duplicate` when an older stream moved after a newer one had begun, which one
 *   machine cannot do.
 * - `again`: the very same beat, its ack was lost. Acked as before, moves nothing.
 * - `replayed`: not newer than what is known. The sender may go on above `highestSeq`.
 */
export type Admission =
  | { readonly kind: 'advanced'; readonly streams: readonly Stream[]; readonly duplicate: boolean }
  | { readonly kind: 'again' }
  | { readonly kind: 'replayed'; readonly highestSeq?: number; readonly why: string };

/**
 * Admits a verified beat to a node's streams. Order is by sequence within a boot, never by the sender's clock: that
 * clock may jump (kubernetes/kubernetes#113081). It only serves to tell an unknown old boot from a new one.
 */
export function admit(streams: readonly Stream[], beat: Beat, digest: string, nowMs: number): Admission {
  const known = streams.find((stream) => stream.boot === beat.boot);
  if (known !== undefined) {
    if (beat.seq === known.highestSeq && digest === known.digest) return { kind: 'again' };
    if (beat.seq <= known.highestSeq) {
      return {
        kind: 'replayed',
        highestSeq: known.highestSeq,
        why: `sequence ${beat.seq}, already at ${known.highestSeq}`,
      };
    }
  } else {
    const newestMs = Math.max(...streams.map((stream) => stream.sentAtMs));
    if (beat.sentAtMs < newestMs - REPLAY_BEHIND_MS) {
      return {
        kind: 'replayed',
        why: 'a boot not seen before, sent more than an hour before the newest beat',
      };
    }
  }
  const moved: Stream = {
    boot: beat.boot,
    highestSeq: beat.seq,
    digest,
    sentAtMs: beat.sentAtMs,
    advancedAtMs: nowMs,
  };
  // Nearly every beat is the newest boot's: it takes the place it has.
  if (known !== undefined && known === streams[0]) {
    return { kind: 'advanced', streams: streams.with(0, moved), duplicate: false };
  }
  const others = streams.filter((stream) => stream !== known);
  return {
    kind: 'advanced',
    streams: [moved, ...others].slice(0, MAX_STREAMS),
    duplicate: known !== undefined,
  };
}
