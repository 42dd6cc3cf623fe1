import { returned, suspect, toPhase } from './episode.ts';
import { isPaused } from './inventory.ts';
import { judgeCluster, judgeDoubt, type Judgement } from './judge.ts';
import { hasMovedEver } from './leases.ts';
import { heardOf, type Heard } from './share.ts';
import { WATCH_LOOK_MS, WATCH_STILL_MS } from './signs.ts';
import { FRESH_MS, type ArbiterNode, type ArbiterState } from './state.ts';

/*
 * Nodes without a beacon. In external mode nobody else looks at them, so they have a pulse all the same: the Lease that
 * their kubelet renews. One list of all Leases every 20 s, while there are any such nodes.
 *
 * What stands for a quorum: a Lease's standing still counts only between lists in which the Leases of at least half of
 * the other nodes moved. Else the list, the API server or its clock is the suspect. A node whose Lease was never seen to
 * move is never written: a status every five minutes is too slow a sign to prove anything by its absence.
 */

/** A Lease moves with each list; one list that comes late, or a renewal that is tried again, makes no node missing. */
const PULSE_MS = WATCH_LOOK_MS + 10_000;

export function isUnenrolled(node: ArbiterNode): boolean {
  return node.keys.length === 0;
}

/** Whether there are nodes that have no other pulse than their Lease, and are to be watched. */
export function watchesUnenrolled({ settings, nodes }: ArbiterState): boolean {
  if (settings.watchUnenrolled !== true || !settings.hasApi || settings.policy.leaseEvidence === 'off')
    return false;
  for (const node of nodes.values()) if (isUnenrolled(node)) return true;
  return false;
}

/** The phase that its Lease implies. */
export function moveUnenrolled(state: ArbiterState, node: ArbiterNode, nowMs: number): ArbiterNode {
  const { memory, settings } = state;
  const pulse = memory.leases.get(node.name);
  const isLeftAlone = settings.watchUnenrolled !== true || isPaused(node, nowMs);
  const { phase, episode } = node;
  if (phase === 'unenrolled') {
    const isStill =
      pulse !== undefined &&
      hasMovedEver(pulse) &&
      memory.leasesTakenAtMs - pulse.movedAtMs >= WATCH_STILL_MS;
    if (!isStill || isLeftAlone) return node;
    const found = suspect(state, node, 'host-silent', pulse.movedAtMs, nowMs);
    return found.episode === undefined
      ? found
      : { ...found, episode: { ...found.episode, unenrolled: true } };
  }
  if (episode?.unenrolled !== true) return node;
  const isBack =
    pulse !== undefined && pulse.movedAtMs > Math.max(episode.lastBeatAtMs, episode.verdictAtMs ?? 0);
  switch (phase) {
    case 'suspect':
      return isBack || isLeftAlone || pulse === undefined ? backToUnenrolled(node, nowMs) : node;
    case 'watched':
      return isBack || isLeftAlone ? backToUnenrolled(node, nowMs) : node;
    case 'down':
      // Not before the first look at it, which tells a contradiction from a return.
      return isBack && (episode.followUp?.checks ?? 1) > 0 ? backToUnenrolled(node, nowMs) : node;
    case 'new':
    case 'alive':
    case 'leaving':
    case 'paused':
      return node;
  }
}

function backToUnenrolled(node: ArbiterNode, nowMs: number): ArbiterNode {
  return toPhase(returned(node, nowMs), 'unenrolled', nowMs);
}

/** Unenrolled nodes whose Lease was seen to move, as if its moves were beats: for the share around others like them. */
export function pulsingNodes(state: ArbiterState): readonly Heard[] {
  if (!watchesUnenrolled(state)) return [];
  return [...state.nodes.values()].flatMap((node) => {
    const pulse = isUnenrolled(node) ? state.memory.leases.get(node.name) : undefined;
    if (pulse === undefined || !hasMovedEver(pulse)) return [];
    const heardAtMs = pulse.movedAtMs;
    return [
      { node, heardAtMs, intervalMs: PULSE_MS, timeoutMs: WATCH_STILL_MS, kubeletDown: false, byLease: true },
    ];
  });
}

/** Judges an unenrolled suspect, by all the rules that need no beats. */
export function judgeUnenrolled(
  state: ArbiterState,
  node: ArbiterNode,
  everyone: readonly Heard[],
  nowMs: number,
): Judgement {
  const { memory } = state;
  const around = heardOf(everyone, node);
  const pulse = memory.leases.get(node.name);
  if (around === undefined || pulse === undefined) return { kind: 'well' };
  const untilMs = nowMs + WATCH_LOOK_MS;
  if (node.phase === 'watched') {
    return {
      kind: 'wait',
      untilMs,
      why: 'its kubelet took Unknown back; a new sign of life has to come first',
    };
  }
  if (nowMs - memory.leasesTakenAtMs > PULSE_MS) {
    return { kind: 'wait', untilMs, why: 'its Lease cannot be listed' };
  }
  if ((pulse.stillForMs ?? 0) < WATCH_STILL_MS) {
    return { kind: 'wait', untilMs, why: 'its Lease stands still, and so do those of most others' };
  }
  if (nowMs - memory.polledAtMs > FRESH_MS) {
    return { kind: 'need', what: 'poll', why: 'asking who else is missing' };
  }
  return (
    judgeDoubt(state, node, everyone, around, 'lease-still', nowMs) ??
    judgeCluster(state, node, [], around, 'lease-still', nowMs)
  );
}
