import type { NodeCopy } from '../cluster-port.ts';
import { LATE_GRACE_MS } from '../policy.ts';
import { CONTRADICTION_WINDOW_MS, FIRST_CHECK_MS } from './episode.ts';
import { HOLD_POLL_MS, WAVE_QUIET_MS } from './hold.ts';
import { leaseForbids } from './own-lease.ts';
import {
  doubtMs,
  heardOf,
  HOLD_ABOVE,
  longestIntervalMs,
  shareAround,
  type Heard,
  type Share,
} from './share.ts';
import {
  kubeletEvidence,
  leaseSpeaks,
  moved,
  nextLookMs,
  RENEWAL_MS,
  signsOf,
  stillAtMs,
  stillLeaseEvidence,
} from './signs.ts';
import { FRESH_MS, type ArbiterNode, type ArbiterState, type FreshRead } from './state.ts';
import type { Cause } from './view.ts';
import {
  claimsOn,
  confirmSilence,
  judgesAtMs,
  lastHeardMs,
  newestClaim,
  quorumListensSinceMs,
  silentCount,
  silentSinceMs,
  type Claim,
} from './witness.ts';
import type { ReportedNode } from '../../../protocol/report.ts';

/**
 * What is to be done about one node now. A verdict is never remembered half-way: whatever it rests on is looked at
 * afresh at every step, and what has grown old is asked for again. So nothing needs to be resumed after a crash.
 */
export type Judgement =
  | { readonly kind: 'well' }
  /** Ask all observers, or read the Node and its Lease; then judge again. */
  | { readonly kind: 'need'; readonly what: 'poll' | 'read'; readonly why: string }
  | { readonly kind: 'wait'; readonly untilMs: number; readonly why: string; readonly veto?: ReportedNode }
  /** Its kubelet shows life: no verdict, a second pulse instead. */
  | { readonly kind: 'watch'; readonly cause: Cause; readonly why: string; readonly read: FreshRead }
  /** Too many went at once. */
  | { readonly kind: 'hold'; readonly share: Share }
  /** The Node is no longer there, or is another instance. */
  | { readonly kind: 'gone'; readonly replacedBy?: NodeCopy }
  /** Somebody else says Unknown already: there is nothing to write. */
  | { readonly kind: 'already-unknown'; readonly copy: NodeCopy; readonly cause: Cause }
  | {
      readonly kind: 'write';
      readonly cause: Cause;
      readonly why: string;
      readonly copy: NodeCopy | undefined;
    };

/** A restart or upgrade of the beacon suppresses a verdict for at most this long. */
const BEACON_LEAVE_MAX_MS = 120_000;

/**
 * Without kubelet evidence, the second node of a zone waits for what the first one's kubelet says: until that was looked
 * at, `FIRST_CHECK_MS` after the write. So long where nobody looks, in observe mode or while the write is under way.
 */
const CANARY_MS = 15_000;

/** A write that was refused or called invalid is not sent again before; whoever mends that is a person. */
const REFUSED_RETRY_MS = 30_000;

/** How soon a doubt that no report has resolved is looked at again. */
const LOOK_AGAIN_MS = 10_000;

/** What the newest reports, pushed or polled, suggest. Suspicion only: nothing is written on it. */
export function suspicionOf(state: ArbiterState, claims: readonly Claim[]): Suspicion | undefined {
  const { quorum } = state.settings;
  const silent = silentCount(claims);
  if (silent >= quorum) return 'host-silent';
  const refused = claims.filter((claim) => claim.kind === 'refused').length;
  if (refused > 0 && silent + refused >= quorum) return 'refused-beats';
  return kubeletDownCount(claims) >= quorum ? 'kubelet-down' : undefined;
}

/**
 * - `host-silent`: no beats. `kubelet-down`: beats that say so.
 * - `refused-beats`: only beats that are well signed and cannot be taken. Never silence, so no verdict by itself.
 */
export type Suspicion = 'host-silent' | 'kubelet-down' | 'refused-beats';

/** What a verdict is asked on. `lease-still`: no beacon to beat, and its Lease stands still; see `unenrolled.ts`. */
type Ground = Suspicion | 'lease-still';

/** Regions that hear the node say that its kubelet is down, believed only after an `ok` in the same boot. */
function kubeletDownCount(claims: readonly Claim[]): number {
  return claims.filter(
    ({ kind, reported }) =>
      (kind === 'heard' || kind === 'late') &&
      reported?.kubelet.state === 'down' &&
      reported.kubelet.okThisBoot,
  ).length;
}

/** Judges one suspect node by all the rules. */
export function judge(
  state: ArbiterState,
  node: ArbiterNode,
  all: readonly Heard[],
  nowMs: number,
): Judgement {
  const known = claimsOn(state, node);
  const suspicion = suspicionOf(state, known);
  const suspect = heardOf(all, node);
  if (suspect === undefined) return { kind: 'well' };
  if (suspicion === undefined) return judgeUnsettled(state, node, known, nowMs);

  const { pollBegunAtMs, polledAtMs } = state.memory;
  if (nowMs - polledAtMs > FRESH_MS) return { kind: 'need', what: 'poll', why: 'asking every observer' };
  const claims = claimsOn(state, node, pollBegunAtMs);

  let around = suspect;
  switch (suspicion) {
    case 'host-silent': {
      const standing = judgeSilence(state, node, claims, nowMs);
      if (standing !== undefined) return standing;
      break;
    }
    case 'refused-beats':
      if (!state.settings.hasApi) {
        return { kind: 'wait', untilMs: nowMs + LOOK_AGAIN_MS, why: 'only beats that cannot be taken' };
      }
      // Its kubelet is looked at instead, from now on.
      if (node.phase !== 'watched') return judgeCluster(state, node, claims, around, suspicion, nowMs);
      break;
    case 'kubelet-down':
      if (kubeletDownCount(claims) < state.settings.quorum) {
        return {
          kind: 'wait',
          untilMs: nowMs + LOOK_AGAIN_MS,
          why: 'too few regions say that its kubelet is down',
        };
      }
      // The kubelet is what went missing, when a quorum first said so.
      around = { ...suspect, heardAtMs: (node.kubeletDown?.sinceMs ?? nowMs) - suspect.intervalMs };
      // The first look at its kubelet's signs is taken at once: the second one comes 11 s later.
      if (state.settings.hasApi && node.kubeletDown?.lookedAtMs === undefined) {
        return judgeCluster(state, node, claims, around, suspicion, nowMs);
      }
      break;
  }
  const doubted = judgeDoubt(state, node, all, around, suspicion, nowMs);
  if (doubted !== undefined) return doubted;
  return judgeCluster(state, node, claims, around, suspicion, nowMs);
}

/**
 * A suspect that is neither silent nor back. What a region answered a poll for another node, before this one's deadline,
 * may have replaced what it reported after it, and it would not say so again for a minute: so it is asked, when those
 * that were late can tell.
 */
function judgeUnsettled(
  state: ArbiterState,
  node: ArbiterNode,
  claims: readonly Claim[],
  nowMs: number,
): Judgement {
  const heard = claims.filter(({ kind }) => kind === 'heard').length;
  if (node.phase !== 'suspect' || heard >= state.settings.quorum) return { kind: 'well' };
  const { polledAtMs } = state.memory;
  const tellAtMs = claims
    .filter(({ kind }) => kind === 'late' || kind === 'listening')
    .map((claim) => judgesAtMs(claim));
  const dueMs = Math.max(polledAtMs + 100, Math.min(polledAtMs + LOOK_AGAIN_MS, ...tellAtMs));
  return nowMs < dueMs
    ? { kind: 'wait', untilMs: dueMs, why: 'asking again who hears it' }
    : { kind: 'need', what: 'poll', why: 'asking every observer' };
}

/** Rules 1 and 9: is it silent, by those who can tell, and not only restarting its beacon? */
function judgeSilence(
  state: ArbiterState,
  node: ArbiterNode,
  claims: readonly Claim[],
  nowMs: number,
): Judgement | undefined {
  const newest = newestClaim(claims);
  const leaving = newest?.reported.leaving;
  if (newest !== undefined && leaving?.what === 'beacon') {
    const backAtMs = Math.min(newest.receivedAtMs + leaving.forMs, newest.heardAtMs + BEACON_LEAVE_MAX_MS);
    if (nowMs < backAtMs)
      return { kind: 'wait', untilMs: backAtMs, why: `its beacon said: ${leaving.reason}` };
  }
  const suspectSinceMs = node.episode?.suspectAtMs ?? nowMs;
  const confirmation = confirmSilence(state, node, claims, suspectSinceMs, nowMs);
  switch (confirmation.kind) {
    case 'confirmed':
      return undefined;
    case 'wait':
      return confirmation;
    case 'too-few':
      return { kind: 'wait', untilMs: nowMs + LOOK_AGAIN_MS, why: confirmation.why };
  }
}

/** Rules 4, 5 and 7: is it only this node, and are we in a state to say so? */
export function judgeDoubt(
  state: ArbiterState,
  node: ArbiterNode,
  all: readonly Heard[],
  suspect: Heard,
  suspicion: Ground,
  nowMs: number,
): Judgement | undefined {
  if (state.breakerOpenUntilMs !== undefined && nowMs < state.breakerOpenUntilMs) {
    return { kind: 'wait', untilMs: state.breakerOpenUntilMs, why: 'live kubelets contradicted us twice' };
  }
  const forbidden = leaseForbids(state, nowMs);
  if (forbidden !== undefined) return { kind: 'wait', ...forbidden };
  if (state.modeHold !== undefined) {
    const { node: seen } = state.modeHold;
    return {
      kind: 'wait',
      untilMs: nowMs + LOOK_AGAIN_MS,
      why: `the controller did not act on ${seen}: it may listen to kubelets, not to us`,
    };
  }
  const released =
    state.released !== undefined &&
    nowMs < state.released.untilMs &&
    state.released.nodes.includes(node.name);
  // Asked of every missing node at every step: the share, which costs a look at all the others, is not worked out.
  if (state.hold !== undefined && !released) {
    return { kind: 'wait', untilMs: nowMs + HOLD_POLL_MS, why: 'too many nodes are missing at once' };
  }
  // Before every node has had the time to beat again, all of them would count as lost.
  const settledAtMs =
    Math.max(suspect.heardAtMs + suspect.intervalMs, quorumListensSinceMs(state)) +
    longestIntervalMs(all) +
    LATE_GRACE_MS;
  if (nowMs < settledAtMs)
    return { kind: 'wait', untilMs: settledAtMs, why: 'seeing first who else is missing' };
  if (state.memory.pollBegunAtMs < settledAtMs)
    return { kind: 'need', what: 'poll', why: 'asking who else is missing' };
  const share = shareAround(all, suspect, nowMs);
  if (share.of === 1 && !released) {
    return {
      kind: 'wait',
      untilMs: nowMs + LOOK_AGAIN_MS,
      why: 'the last node heard is never written: it may be us',
    };
  }
  if (!released && share.share > HOLD_ABOVE) return { kind: 'hold', share };
  if (state.coolDown !== undefined) {
    const { untilMs, wave, quietSinceMs } = state.coolDown;
    const freeAtMs = wave.includes(node.name) ? Math.max(untilMs, quietSinceMs + WAVE_QUIET_MS) : untilMs;
    if (nowMs < freeAtMs) return { kind: 'wait', untilMs: freeAtMs, why: 'letting the others return first' };
  }
  const ownDueMs = suspicion === 'kubelet-down' ? nowMs : suspect.heardAtMs + suspect.timeoutMs;
  const doubt = released ? 0 : doubtMs(share, suspect.timeoutMs);
  // Others of the wave are coming back: each gets the time for its next beat.
  const quietAtMs =
    doubt === 0 || share.returnedAtMs === undefined
      ? Number.NEGATIVE_INFINITY
      : share.returnedAtMs + longestIntervalMs(all) + LATE_GRACE_MS;
  const dueAtMs = Math.max(Math.max(ownDueMs, settledAtMs) + doubt, quietAtMs);
  if (nowMs < dueAtMs) {
    const percent = Math.round(share.wave * 100);
    return {
      kind: 'wait',
      untilMs: dueAtMs,
      why: `${percent} % of ${share.of} nodes are missing with it: waiting longer`,
    };
  }
  return undefined;
}

/** Rules 2, 3, 6, 8 and 10: what does the cluster itself say? */
export function judgeCluster(
  state: ArbiterState,
  node: ArbiterNode,
  claims: readonly Claim[],
  suspect: Heard,
  suspicion: Ground,
  nowMs: number,
): Judgement {
  const newest = newestClaim(claims);
  const isLeaving = suspicion !== 'kubelet-down' && newest?.reported.leaving?.what === 'host';
  const cause: Cause = isLeaving ? 'leaving' : suspicion === 'kubelet-down' ? suspicion : 'host-silent';
  const why = explain(claims, suspicion, suspect, nowMs);
  if (!state.settings.hasApi) return { kind: 'write', cause, why, copy: undefined };
  if (nowMs < state.api.retryAtMs && state.api.state === 'unreachable') {
    return {
      kind: 'wait',
      untilMs: state.api.retryAtMs,
      why: `the API server cannot be asked: ${state.api.why ?? 'unknown'}`,
    };
  }
  const refused = node.episode?.write;
  if (refused?.outcome === 'failed' && nowMs < refused.atMs + REFUSED_RETRY_MS) {
    const untilMs = refused.atMs + REFUSED_RETRY_MS;
    return { kind: 'wait', untilMs, why: `the write was not taken: ${refused.error ?? 'unknown'}` };
  }
  const read = state.memory.reads.get(node.name);
  if (read === undefined || nowMs - read.atMs > FRESH_MS) {
    const lookDueMs = node.phase === 'watched' && node.watch !== undefined ? nextLookMs(node.watch) : nowMs;
    if (nowMs < lookDueMs) return { kind: 'wait', untilMs: lookDueMs, why: 'its kubelet shows life' };
    const baseline = node.kubeletDown?.lookedAtMs;
    if (suspicion === 'kubelet-down' && baseline !== undefined && nowMs < baseline + RENEWAL_MS) {
      return { kind: 'wait', untilMs: baseline + RENEWAL_MS, why: 'its kubelet may still renew its Lease' };
    }
    return { kind: 'need', what: 'read', why: 'reading the Node and its Lease' };
  }
  if (read.node.kind === 'not-found') return { kind: 'gone' };
  if (read.node.kind !== 'ok')
    return { kind: 'wait', untilMs: nowMs + FRESH_MS, why: 'the Node cannot be read' };
  const copy = read.node.value;
  if (copy.uid !== node.uid) return { kind: 'gone', replacedBy: copy };
  if (copy.ready === undefined) {
    return {
      kind: 'wait',
      untilMs: nowMs + LOOK_AGAIN_MS,
      why: 'it never had a Ready condition: it is still starting',
    };
  }

  if (suspicion === 'refused-beats' && node.phase !== 'watched') {
    return { kind: 'watch', cause: suspicion, why: 'only beats that cannot be taken', read };
  }
  const evidence =
    suspicion === 'lease-still'
      ? stillLeaseEvidence(read, state.memory.leases.get(node.name)?.renewTimeMs, nowMs)
      : suspicion === 'kubelet-down'
        ? kubeletDownEvidence(node, read, suspect.timeoutMs, nowMs)
        : node.phase === 'watched' && node.watch !== undefined
          ? watchedEvidence(node, read, nowMs)
          : silentNodeEvidence(state, claims, suspect, read);
  switch (evidence.kind) {
    case 'outlived':
      return { kind: 'watch', cause: 'beacon-lost', why: 'its kubelet outlived its last beat', read };
    case 'wait':
      return { kind: 'wait', untilMs: evidence.untilMs, why: 'its kubelet may still renew its Lease' };
    case 'unavailable':
      return { kind: 'wait', untilMs: nowMs + FRESH_MS, why: evidence.why };
    case 'still': {
      if (copy.ready.status === 'Unknown') return { kind: 'already-unknown', copy, cause };
      if (!evidence.hasLease && contradictedLately(state, nowMs)) {
        return {
          kind: 'watch',
          cause: 'edge-path-cut',
          why: 'a live kubelet took back what we wrote of another',
          read,
        };
      }
      const canaryMs = evidence.hasLease ? undefined : canaryUntilMs(state, node, suspect, nowMs);
      if (canaryMs !== undefined) {
        return {
          kind: 'wait',
          untilMs: canaryMs,
          why: 'another node of its zone is written first, without Leases',
        };
      }
      return { kind: 'write', cause, why, copy };
    }
  }
}

/**
 * A live kubelet has contradicted a write: where nothing but silence speaks against the others, they are as likely
 * alive, and it is the path from the nodes to the edge that is cut.
 */
function contradictedLately(state: ArbiterState, nowMs: number): boolean {
  return state.contradictionsAtMs.some((atMs) => nowMs - atMs < CONTRADICTION_WINDOW_MS);
}

type Evidence = ReturnType<typeof kubeletEvidence>;

/** Both clocks are moved on by the same duration when beats after the last known one may have come unheard. */
function silentNodeEvidence(
  state: ArbiterState,
  claims: readonly Claim[],
  suspect: Heard,
  read: FreshRead,
): Evidence {
  const sinceMs = silentSinceMs(claims);
  // The last beat that any of the silent ones heard: they do not gain by a newer one.
  const last = claims
    .filter((claim) => claim.kind === 'silent')
    .reduce<Claim | undefined>((a, b) => (a !== undefined && a.heardAtMs >= b.heardAtMs ? a : b), undefined);
  const lastSentAtMs = (last?.reported?.sentAtMs ?? 0) + sinceMs - (last?.heardAtMs ?? sinceMs);
  return kubeletEvidence(
    state.settings.policy,
    read,
    lastSentAtMs,
    suspect.intervalMs,
    sinceMs + suspect.intervalMs,
  );
}

function kubeletDownEvidence(node: ArbiterNode, read: FreshRead, timeoutMs: number, nowMs: number): Evidence {
  const { sinceMs, signs, lookedAtMs } = node.kubeletDown ?? { sinceMs: nowMs };
  if (signs === undefined || lookedAtMs === undefined) return { kind: 'wait', untilMs: nowMs + RENEWAL_MS };
  if (read.lease.kind !== 'ok' && read.lease.kind !== 'not-found' && read.lease.kind !== 'off') {
    return { kind: 'unavailable', why: 'its Lease cannot be read' };
  }
  // Compared with the first look, whose signs are renewed by `step` when they moved.
  if (moved(signs, signsOf(read))) return { kind: 'wait', untilMs: nowMs + RENEWAL_MS };
  const hasLease = leaseSpeaks(signsOf(read));
  const untilMs = hasLease ? lookedAtMs + RENEWAL_MS : sinceMs + Math.max(timeoutMs, RENEWAL_MS);
  return nowMs < untilMs ? { kind: 'wait', untilMs } : { kind: 'still', hasLease };
}

function watchedEvidence(node: ArbiterNode, read: FreshRead, nowMs: number): Evidence {
  const { watch } = node;
  if (watch === undefined) return { kind: 'unavailable', why: 'not looked at yet' };
  const still = watch.lookedAtMs >= stillAtMs(watch) && read.atMs === watch.lookedAtMs;
  return still
    ? { kind: 'still', hasLease: watch.hasLease }
    : { kind: 'wait', untilMs: Math.max(nowMs + 1_000, nextLookMs(watch)) };
}

/**
 * Until when a node waits for its zone's canary; undefined when it may be the canary itself, or when a canary that fell
 * silent with it was not contradicted in its time: then all the rest may be written together.
 */
function canaryUntilMs(
  state: ArbiterState,
  node: ArbiterNode,
  suspect: Heard,
  nowMs: number,
): number | undefined {
  let untilMs: number | undefined;
  for (const other of state.nodes.values()) {
    if (other === node || other.zone !== node.zone) continue;
    const writtenAtMs =
      other.intent?.atMs ?? (other.phase === 'down' ? other.episode?.write?.atMs : undefined);
    if (writtenAtMs === undefined) continue;
    const followUp = other.phase === 'down' ? other.episode?.followUp : undefined;
    const isLookedAt =
      followUp === undefined
        ? nowMs >= writtenAtMs + CANARY_MS
        : followUp.checks > 0 && nowMs >= writtenAtMs + FIRST_CHECK_MS;
    if (!isLookedAt) {
      // The look itself is an event, so this only has to be late enough for it.
      untilMs = Math.max(untilMs ?? 0, writtenAtMs + CANARY_MS, nowMs + 1_000);
    } else if ((other.episode?.lastBeatAtMs ?? 0) >= suspect.heardAtMs - suspect.timeoutMs) {
      return undefined;
    }
  }
  return untilMs;
}

/** The evidence in one sentence, for the condition's message and the status. */
function explain(claims: readonly Claim[], suspicion: Ground, suspect: Heard, nowMs: number): string {
  if (suspicion === 'lease-still') {
    const stillFor = ((nowMs - suspect.heardAtMs) / 1000).toFixed(1);
    return `it has no beacon, and its kubelet has not renewed its Lease for ${stillFor} s, while others did`;
  }
  const newest = newestClaim(claims);
  if (suspicion === 'kubelet-down') {
    const why = newest?.reported.kubelet.why;
    return `its beacon is heard and says that the kubelet is down${why === undefined ? '' : `: ${why}`}`;
  }
  const silentFor = ((nowMs - lastHeardMs(claims)) / 1000).toFixed(1);
  const regions = claims.filter((claim) => claim.kind === 'silent').map((claim) => claim.region);
  return `no beat for ${silentFor} s in ${regions.join(', ')} (${regions.length} of ${claims.length} regions)`;
}
