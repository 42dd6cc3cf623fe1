import type { Beat, RefusalCode } from '../../../protocol/beat.ts';
import type { BeatAnswer } from '../../../protocol/report.ts';
import { deadlinesOf } from './sight.ts';
import type { HeardNode, ObserverState } from './state.ts';
import { admit } from './streams.ts';

/** When something is to be done: `soon` leaves a thousand nodes the time to change together, after a restart or cut. */
export type When = 'now' | 'soon' | 'in-turn';

/** What one event changed. */
export interface Change {
  /** Memory differs from the snapshot. */
  readonly heard: boolean;
  readonly store: When;
  /** A node that is back: its own row is stored before the beat is acked, the whole soon. */
  readonly returned?: readonly [name: string, node: HeardNode];
  readonly report: When;
  readonly answer?: BeatAnswer;
}

export const NO_CHANGE: Change = { heard: false, store: 'in-turn', report: 'in-turn' };

/** A beat that announces a longer interval than this many times the policy's would leave its node unwatched. */
const MAX_INTERVAL_FACTOR = 3;

/** The counts behind "refuses more than a tenth" start anew after this long. */
const COUNT_WINDOW_MS = 300_000;

function count(state: ObserverState, refused: boolean, nowMs: number): void {
  const { sinceMs, beats, refused: before } = state.counts;
  state.counts =
    nowMs - sinceMs > COUNT_WINDOW_MS
      ? { sinceMs: nowMs, beats: 1, refused: refused ? 1 : 0 }
      : { sinceMs, beats: beats + 1, refused: before + (refused ? 1 : 0) };
}

/** A beat that is well signed and yet not taken: proof of life, so it is never silence; see `refused`. */
export function refuse(
  state: ObserverState,
  beat: Beat,
  code: RefusalCode,
  why: string,
  nowMs: number,
  highestSeq?: number,
): Change {
  count(state, true, nowMs);
  const node = state.nodes.get(beat.node);
  if (node !== undefined) state.nodes.set(beat.node, { ...node, refused: { code, atMs: nowMs } });
  return {
    ...NO_CHANGE,
    report: node !== undefined && node.refused?.code !== code ? 'now' : 'in-turn',
    answer: {
      kind: 'refused',
      observer: state.identity.observer,
      code,
      why,
      ...(highestSeq !== undefined && { highestSeq }),
    },
  };
}

/**
 * Takes in one verified beat.
 *
 * @param jws the beat as it came; kept as proof for a veto
 */
export function hear(state: ObserverState, beat: Beat, jws: string, digest: string, nowMs: number): Change {
  const registered = state.registered.get(beat.node);
  if (registered !== undefined && registered.uid !== beat.uid) {
    return refuse(state, beat, 'wrong-uid', `this Node's uid is not ${beat.uid}`, nowMs);
  }
  const maxIntervalMs = state.policy.intervalMs * MAX_INTERVAL_FACTOR;
  if (beat.intervalMs > maxIntervalMs) {
    return refuse(state, beat, 'bad-interval', `${beat.intervalMs} ms, at most ${maxIntervalMs} ms`, nowMs);
  }
  const node = state.nodes.get(beat.node);
  const admission = admit(node?.streams ?? [], beat, digest, nowMs);
  const recorded: BeatAnswer = { kind: 'recorded', observer: state.identity.observer };
  switch (admission.kind) {
    case 'again':
      return { ...NO_CHANGE, answer: recorded };
    case 'replayed':
      return refuse(state, beat, 'replayed', admission.why, nowMs, admission.highestSeq);
    case 'advanced':
      break;
  }
  count(state, false, nowMs);
  const heard: HeardNode = {
    uid: beat.uid,
    streams: admission.streams,
    heardAtMs: nowMs,
    intervalMs: beat.intervalMs,
    kubelet: beat.kubelet,
    api: beat.api,
    beacon: beat.beacon,
    ...(beat.checks !== undefined && { checks: beat.checks }),
    ...(beat.features !== undefined && { features: beat.features }),
    sight: 'heard',
    creditMs: 0,
  };
  // Copied once more only for what is seldom there: this is the path of every beat.
  const duplicateAtMs = admission.duplicate ? nowMs : node?.duplicateAtMs;
  const isPlain = beat.leaving === undefined && node?.refused === undefined && duplicateAtMs === undefined;
  const next: HeardNode = isPlain
    ? heard
    : {
        ...heard,
        ...(beat.leaving !== undefined && { leaving: beat.leaving }),
        ...(node?.refused !== undefined && { refused: node.refused }),
        ...(duplicateAtMs !== undefined && { duplicateAtMs }),
      };
  // Deleted first: the map stays in the order of heardAtMs.
  state.nodes.delete(beat.node);
  state.nodes.set(beat.node, next);
  state.proofs.set(beat.node, jws);
  const hasJoined = node === undefined;
  // A return is stored before it is acked: a stored missed beat must mean "not heard", or a restart would count it on.
  const hasReturned = node !== undefined && nowMs >= deadlinesOf(state, node).vouchedLateAtMs;
  return {
    heard: true,
    store: hasReturned || hasJoined ? 'soon' : 'in-turn',
    ...(hasReturned && { returned: [beat.node, next] as const }),
    report: reportWhen(node, next),
    answer: recorded,
  };
}

function reportWhen(before: HeardNode | undefined, after: HeardNode): When {
  if (before === undefined) return 'soon';
  if (signsDiffer(before, after)) return 'now';
  return before.sight === 'heard' ? 'in-turn' : 'soon';
}

function checksDiffer(before: HeardNode['checks'], after: HeardNode['checks']): boolean {
  if (before === undefined || after === undefined) return before !== after;
  return (
    before.length !== after.length ||
    after.some(({ name, state }, at) => name !== before[at]?.name || state !== before[at].state)
  );
}

function signsDiffer(before: HeardNode, after: HeardNode): boolean {
  return (
    before.kubelet.state !== after.kubelet.state ||
    before.api.state !== after.api.state ||
    before.leaving?.what !== after.leaving?.what ||
    checksDiffer(before.checks, after.checks) ||
    before.streams[0]?.boot !== after.streams[0]?.boot ||
    (before.duplicateAtMs === undefined) !== (after.duplicateAtMs === undefined)
  );
}
