import type { ClusterResult, NodeCopy } from '../cluster-port.ts';
import { toRfc3339Seconds } from '../rfc3339.ts';
import { MODE_CHECK_MS } from './mode.ts';
import { leaseSpeaks, moved, signsOf } from './signs.ts';
import type { ArbiterNode, ArbiterState, Episode, FreshRead, Intent, KubeletSigns, Watch } from './state.ts';
import type { Cause, Phase } from './view.ts';

/*
 * What a node goes through in one absence: suspect, verdict, write, what came of it, return. Every change is a new
 * node object, so that the shell stores exactly the nodes that changed.
 */

/** The condition's reason per cause. All begin with `Farpulse`, which the admission policy insists on. */
const REASONS: Readonly<Partial<Record<Cause, string>>> = {
  'host-silent': 'FarpulseHostSilent',
  'kubelet-down': 'FarpulseKubeletDown',
  leaving: 'FarpulseLeaving',
};

/** The admission policy's bound for the condition's message. */
const MAX_MESSAGE = 512;

/** A live kubelet takes our Unknown back within 10.4 s of seeing it. */
export const FIRST_CHECK_MS = 12_000;
const NEXT_CHECK_MS = 60_000;

/** A node with three verdicts within this long is flapping: people are told, verdicts go on. */
export const FLAPPING_WINDOW_MS = 3_600_000;
export const FLAPPING_RETURNS = 3;

/** Pods bound to the node while we wrote are marked by a second pass. */
const SECOND_PASS_MS = 30_000;
const PODS_RETRY_MS = 5_000;

/** Two live kubelets contradicting us within this long open the breaker. */
export const CONTRADICTION_WINDOW_MS = 600_000;
const BREAKER_OPEN_MS = 3_600_000;

export function toPhase(node: ArbiterNode, phase: Phase, nowMs: number, cause?: Cause): ArbiterNode {
  const { cause: _, ...rest } = node;
  return {
    ...rest,
    phase,
    sinceMs: phase === node.phase ? node.sinceMs : nowMs,
    ...(cause !== undefined && { cause }),
  };
}

function newEpisode(
  state: ArbiterState,
  node: ArbiterNode,
  cause: Cause,
  lastBeatAtMs: number,
  nowMs: number,
): Episode {
  const id = `${node.name}-${state.nextId}`;
  state.nextId += 1;
  return { id, node: node.name, uid: node.uid, cause, lastBeatAtMs, suspectAtMs: nowMs };
}

/** First silence: the episode begins. */
export function suspect(
  state: ArbiterState,
  node: ArbiterNode,
  cause: Cause,
  lastBeatAtMs: number,
  nowMs: number,
): ArbiterNode {
  const episode = newEpisode(state, node, cause, lastBeatAtMs, nowMs);
  return { ...toPhase(node, 'suspect', nowMs, cause), episode };
}

/** Beats, or the kubelet's word, are back: the episode ends. Of one without a verdict only the times are left. */
export function returned(node: ArbiterNode, nowMs: number): ArbiterNode {
  const { episode, watch: _w, veto: _v, kubeletDown: _k, ...alive } = toPhase(node, 'alive', nowMs);
  const { lastAbsence: _a, ...rest } = alive;
  if (episode === undefined) return rest;
  if (episode.verdictAtMs === undefined)
    return { ...rest, lastAbsence: { lastBeatAtMs: episode.lastBeatAtMs, returnedAtMs: nowMs } };
  const { followUp: _, ...ended } = episode;
  const returnsAtMs = [
    ...(node.returnsAtMs ?? []).filter((atMs) => nowMs - atMs < FLAPPING_WINDOW_MS),
    nowMs,
  ];
  return { ...rest, lastEpisode: { ...ended, returnedAtMs: nowMs }, returnsAtMs };
}

/**
 * Its kubelet shows life: no verdict, and from now on a second pulse.
 *
 * @param before signs of more than one renewal ago, where there are any: a Lease that stands still since, while its
 *   kubelet writes, is no second pulse
 */
export function watch(
  node: ArbiterNode,
  cause: Cause,
  read: FreshRead,
  nowMs: number,
  before?: KubeletSigns,
): ArbiterNode {
  const signs = signsOf(read);
  const second: Watch = {
    signs,
    movedAtMs: read.atMs,
    lookedAtMs: read.atMs,
    hasLease: leaseSpeaks(signs) && signs.renewTimeMs !== before?.renewTimeMs,
    isNew: true,
  };
  return { ...toPhase(node, 'watched', nowMs, cause), watch: second };
}

/** Stores what is about to be written. The PATCH is sent only after this is committed. */
export function intend(
  state: ArbiterState,
  node: ArbiterNode,
  cause: Cause,
  why: string,
  copy: NodeCopy,
  signs: KubeletSigns,
  nowMs: number,
): ArbiterNode {
  const intent: Intent = {
    id: `intent-${state.nextId}`,
    atMs: nowMs,
    cause,
    reason: REASONS[cause] ?? 'FarpulseUnknown',
    message: why.slice(0, MAX_MESSAGE),
    lastTransitionTime: toRfc3339Seconds(nowMs),
    uid: copy.uid,
    resourceVersion: copy.resourceVersion,
    signs,
  };
  state.nextId += 1;
  return { ...node, intent };
}

function verdict(node: ArbiterNode, cause: Cause, episode: Episode, nowMs: number): ArbiterNode {
  const { intent: _i, watch: _w, ...rest } = toPhase(node, 'down', nowMs, cause);
  return { ...rest, episode };
}

/** Observe mode, or no API: the verdict stands, and what would have been written is on record. */
export function wouldWrite(node: ArbiterNode, cause: Cause, why: string, nowMs: number): ArbiterNode {
  if (node.episode === undefined) return node;
  const write = {
    outcome: 'would-write',
    atMs: nowMs,
    reason: REASONS[cause] ?? 'FarpulseUnknown',
    message: why,
  } as const;
  return verdict(node, cause, { ...node.episode, cause, verdictAtMs: nowMs, write }, nowMs);
}

/** Ready is Unknown by somebody else's hand: the verdict stands, there is nothing to write. */
export function alreadyUnknown(node: ArbiterNode, cause: Cause, nowMs: number): ArbiterNode {
  if (node.episode === undefined) return node;
  return verdict(node, cause, { ...node.episode, cause, verdictAtMs: nowMs }, nowMs);
}

/** The PATCH is known to be applied. */
export function written(state: ArbiterState, node: ArbiterNode, intent: Intent, nowMs: number): ArbiterNode {
  if (node.episode === undefined) return node;
  const episode: Episode = {
    ...node.episode,
    cause: intent.cause,
    verdictAtMs: intent.atMs,
    write: { outcome: 'written', atMs: nowMs, reason: intent.reason, message: intent.message },
    followUp: {
      podPassesLeft: state.settings.mode === 'compat' ? 2 : 0,
      podsDueAtMs: nowMs,
      podsMarked: 0,
      lastTransitionTime: intent.lastTransitionTime,
      ...(intent.signs !== undefined && { signs: intent.signs }),
      checkDueAtMs: nowMs + FIRST_CHECK_MS,
      checks: 0,
      ...(state.settings.mode === 'external' && { modeCheckDueAtMs: nowMs + MODE_CHECK_MS }),
    },
  };
  return verdict(node, intent.cause, episode, nowMs);
}

/** Whether a Node's Ready condition is the one this intent asked for. */
export function isOurs(intent: Pick<Intent, 'reason' | 'lastTransitionTime'>, copy: NodeCopy): boolean {
  const { ready } = copy;
  return (
    ready?.status === 'Unknown' &&
    ready.reason === intent.reason &&
    ready.lastTransitionTime === intent.lastTransitionTime
  );
}

/** The answer to a PATCH. Whatever was not clearly applied is read and judged again, never repeated. */
export function onWritten(
  state: ArbiterState,
  node: ArbiterNode,
  result: ClusterResult<unknown>,
  nowMs: number,
): ArbiterNode {
  const { intent, ...rest } = node;
  if (intent === undefined) return node;
  switch (result.kind) {
    case 'ok':
      return written(state, node, intent, nowMs);
    case 'unreachable':
    case 'busy':
      // It may have been applied after all: the intent stays until a read tells.
      return node;
    case 'conflict':
    case 'not-found':
      return rest;
    case 'refused':
    case 'invalid': {
      if (node.episode === undefined) return rest;
      const write = {
        outcome: 'failed',
        atMs: nowMs,
        reason: intent.reason,
        message: intent.message,
        error: result.why,
      } as const;
      return { ...rest, episode: { ...node.episode, write } };
    }
  }
}

/** One pass over the node's pods is done, or failed. */
export function onPodsMarked(node: ArbiterNode, marked: number, ok: boolean, nowMs: number): ArbiterNode {
  const { episode } = node;
  if (episode?.followUp === undefined || episode.write === undefined) return node;
  const { followUp, write } = episode;
  const podsMarked = followUp.podsMarked + marked;
  return {
    ...node,
    episode: {
      ...episode,
      write: { ...write, podsMarked },
      followUp: {
        ...followUp,
        podsMarked,
        podPassesLeft: ok ? followUp.podPassesLeft - 1 : followUp.podPassesLeft,
        podsDueAtMs: nowMs + (ok ? SECOND_PASS_MS : PODS_RETRY_MS),
      },
    },
  };
}

/**
 * The Node of a written verdict, read again. `True` means that the kubelet is alive, and so does a sign that moved: one
 * whose watch is broken does not know that we wrote, and moves only its heartbeat time. It is never written against again
 * before a new sign of life has been seen and lost. At the first look that is a contradiction, and two of them open the
 * breaker for the whole cluster.
 */
export function onCheck(state: ArbiterState, node: ArbiterNode, read: FreshRead, nowMs: number): ArbiterNode {
  const { episode } = node;
  if (episode?.followUp === undefined || read.node.kind !== 'ok') return node;
  const { followUp, ...ended } = episode;
  const signs = signsOf(read);
  const before = followUp.signs;
  const isTrue = read.node.value.ready?.status === 'True';
  // A sign that could not be read before the write cannot be said to have moved since.
  if (!isTrue && (before === undefined || !moved({ ...signs, ...before }, signs))) {
    const next = { ...followUp, checkDueAtMs: nowMs + NEXT_CHECK_MS, checks: followUp.checks + 1 };
    return { ...node, episode: { ...episode, followUp: next } };
  }
  const { episode: _, ...rest } = node;
  const past = { ...rest, lastEpisode: { ...ended, returnedAtMs: nowMs } };
  if (before !== undefined && !moved(before, signs)) {
    // No kubelet wrote that: it would have moved its heartbeat time. An API server restored from a backup brings back
    // what was true then, and the node is as silent as before.
    const silent = suspect(state, past, ended.cause, ended.lastBeatAtMs, nowMs);
    if (ended.unenrolled !== true || silent.episode === undefined) return silent;
    return { ...silent, episode: { ...silent.episode, unenrolled: true } };
  }
  if (ended.unenrolled === true && followUp.checks > 0) {
    return toPhase(returned(node, nowMs), 'unenrolled', nowMs);
  }
  if (followUp.checks === 0) {
    const recent = state.contradictionsAtMs.filter((atMs) => nowMs - atMs < CONTRADICTION_WINDOW_MS);
    state.contradictionsAtMs = [...recent, nowMs];
    if (state.contradictionsAtMs.length >= 2) state.breakerOpenUntilMs = nowMs + BREAKER_OPEN_MS;
  }
  const cause: Cause = followUp.checks === 0 ? 'contradicted' : 'beacon-lost';
  const newest = newEpisode(state, node, cause, ended.lastBeatAtMs, nowMs);
  const again = ended.unenrolled === true ? { ...newest, unenrolled: ended.unenrolled } : newest;
  return watch({ ...past, episode: again }, cause, read, nowMs, before);
}
