import type { PublicKey } from '../../../protocol/keys.ts';
import type { Report } from '../../../protocol/report.ts';
import type { ClusterFailure, LeaseCopy, NodeCopy } from '../cluster-port.ts';
import type { Policy } from '../policy.ts';
import type { OwnLease } from './own-lease.ts';
import type { Cause, EpisodeStatus, Phase } from './view.ts';

/** What the arbiter is told by its configuration. */
export interface ArbiterSettings {
  readonly cluster: string;
  readonly mode: 'observe' | 'external' | 'compat';
  readonly regions: readonly string[];
  readonly shards: number;
  readonly quorum: number;
  readonly policy: Policy;
  /** False for a cluster that is judged by configured keys only: there is no API to read or write. */
  readonly hasApi: boolean;
  /**
   * Whether nodes without a beacon are judged by their Leases. Default: in external mode, where nobody else looks at
   * them. Costs the API server a list of all Leases every 20 s, while there are such nodes.
   */
  readonly watchUnenrolled?: boolean;
  /** Our own Lease, and who we are in it. Without it none is kept. */
  readonly lease?: { readonly name: string; readonly holder: string };
}

/** The kubelet's own traces in the cluster. All by the node's clock; compared for change, or with that same clock. */
export interface KubeletSigns {
  readonly renewTimeMs?: number;
  readonly heartbeatTime?: string;
}

/** A slower second pulse for a node whose beats are missing while its kubelet shows life. */
export interface Watch {
  readonly signs: KubeletSigns;
  /** When the signs were last seen to differ from the ones before. */
  readonly movedAtMs: number;
  readonly lookedAtMs: number;
  /** Whether the node has a Lease that can be believed (`leaseSpeaks`). Without one, only the slow heartbeat time is left. */
  readonly hasLease: boolean;
  /** Not compared yet: the first look comes sooner. */
  readonly isNew?: true;
}

/** A PATCH that is about to be sent, or was and whose answer is not known. Stored before it is sent. */
export interface Intent {
  readonly id: string;
  readonly atMs: number;
  readonly cause: Cause;
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** The kubelet's signs when this was decided. */
  readonly signs?: KubeletSigns;
}

/** Work that follows a write and survives a crash between any two steps of it. */
export interface FollowUp {
  /** Pods of the node to be marked (compat mode): the first pass at once, a second for pods bound meanwhile. */
  readonly podPassesLeft: number;
  readonly podsDueAtMs: number;
  readonly podsMarked: number;
  readonly lastTransitionTime: string;
  readonly signs?: KubeletSigns;
  /** When the Node is read again: did a live kubelet contradict? */
  readonly checkDueAtMs: number;
  readonly checks: number;
  /** When the node's pods are looked at, in external mode: does the controller listen to us? See `mode.ts`. */
  readonly modeCheckDueAtMs?: number;
  readonly modeChecks?: number;
}

/** One absence of one node instance. */
export interface Episode extends EpisodeStatus {
  readonly followUp?: FollowUp;
  /** What was told of it by Events on the Node; see `announce.ts`. */
  readonly announced?: readonly string[];
  /** The node has no beacon: its Lease stood still. `lastBeatAtMs` is when that was last seen to move. */
  readonly unenrolled?: true;
}

/**
 * One Node of the cluster.
 *
 * 1. `uid` names the instance; everything else is forgotten when it changes.
 * 2. `intent` is set from before a PATCH until its outcome is known; there is at most one.
 * 3. `episode` runs while phase is suspect, watched, leaving or down; when the node returns it becomes `lastEpisode`.
 * 4. An episode has at most one write.
 */
export interface ArbiterNode {
  readonly name: string;
  readonly uid: string;
  readonly zone: string;
  readonly keys: readonly PublicKey[];
  /** Keys that the Node named before, and until when a beat signed with one counts as proof of life. */
  readonly oldKeys: readonly { readonly key: PublicKey; readonly untilMs: number }[];
  /** From the Node's annotations: leave it alone until then (infinite: always), and why. */
  readonly paused?: { readonly untilMs: number | null; readonly reason: string };
  readonly phase: Phase;
  readonly sinceMs: number;
  readonly cause?: Cause;
  readonly episode?: Episode;
  readonly lastEpisode?: Episode;
  /** The last absence, when it ended without a verdict: the network is coming back to others too. See `share.ts`. */
  readonly lastAbsence?: { readonly lastBeatAtMs: number; readonly returnedAtMs: number };
  /** Since when two machines are known to beat with its key: told by an Event then. */
  readonly duplicateSinceMs?: number;
  /** When it came back from its verdicts of the last hour. */
  readonly returnsAtMs?: readonly number[];
  readonly watch?: Watch;
  readonly intent?: Intent;
  /** The kubelet's signs as they were when `kubelet-down` was first said by a quorum. */
  readonly kubeletDown?: {
    readonly sinceMs: number;
    readonly signs?: KubeletSigns;
    readonly lookedAtMs?: number;
  };
  /** The last beat that vetoed a silence: the same beat vetoes for one timeout only. */
  readonly veto?: { readonly boot: string; readonly seq: number; readonly sinceMs: number };
}

/** The breaker is open: more nodes fell silent together than can be believed. */
export interface Hold {
  readonly id: string;
  readonly sinceMs: number;
  readonly nodes: readonly string[];
  readonly share: number;
  /** Since when the share has been low enough to end the hold. */
  readonly lowSinceMs?: number;
}

/** Time to let everybody come back before any verdict. */
export interface CoolDown {
  readonly untilMs: number;
  /** Nodes that fell silent together: none is written until none of them has returned for a while. */
  readonly wave: readonly string[];
  readonly quietSinceMs: number;
}

export interface ApiState {
  readonly state: 'ok' | 'unreachable' | 'unknown';
  readonly sinceMs: number;
  readonly why?: string;
  /** Not called again before, after a failure or a Retry-After. */
  readonly retryAtMs: number;
}

/** An observer's newest report, and when it came. Ages in it count from then. */
export interface StoredReport {
  readonly report: Report;
  readonly receivedAtMs: number;
}

/** What a fresh read of one Node brought. */
export interface FreshRead {
  readonly atMs: number;
  readonly node: { readonly kind: 'ok'; readonly value: NodeCopy } | ClusterFailure;
  readonly lease:
    | { readonly kind: 'ok'; readonly value: LeaseCopy }
    | ClusterFailure
    | { readonly kind: 'off' };
}

/** One Lease as the newest list had it, and when it was last seen to move. */
export interface LeasePulse {
  readonly renewTimeMs: number | undefined;
  readonly movedAtMs: number;
  readonly firstSeenAtMs: number;
  /** How long it has stood still in lists in which most others moved. */
  readonly stillForMs?: number;
}

/** Facts that are asked for again rather than stored. */
export interface Memory {
  /** When the last poll was begun and done; observers that did not answer in between abstain. */
  pollBegunAtMs: number;
  polledAtMs: number;
  polling: boolean;
  listing: boolean;
  /** Somebody beats whom the registry does not know: a look at the Nodes is wanted. */
  strangers: boolean;
  /** Regions that the last poll showed to be deaf; see `witness.ts`. */
  deaf: ReadonlySet<string>;
  readonly reads: Map<string, FreshRead>;
  /** All Leases, while they are listed: for many watched nodes, and to end a hold. */
  leases: ReadonlyMap<string, LeasePulse>;
  /** When they were last asked for. */
  leasesListedAtMs: number;
  /** When the newest list was taken in. With the Leases it is stored as long as unenrolled nodes are watched by it. */
  leasesTakenAtMs: number;
  listingLeases: boolean;
  /** Nodes whose own GET is wanted, because a list lacks them. */
  readonly toRead: Set<string>;
  /** The last judgement's sentence per suspect, for people. */
  readonly whys: Map<string, string>;
  readonly reading: Set<string>;
  readonly writing: Set<string>;
  readonly marking: Set<string>;
  checkingMode: boolean;
  askingOwnLease: boolean;
}

export interface ArbiterState {
  readonly settings: ArbiterSettings;
  readonly nodes: Map<string, ArbiterNode>;
  readonly reports: Map<string, StoredReport>;
  registryVersion: number;
  lastRanAtMs: number;
  hold?: Hold;
  coolDown?: CoolDown;
  /** Nodes an operator released from a hold: neither share nor doubt keeps them from being judged until then. */
  released?: { readonly nodes: readonly string[]; readonly untilMs: number };
  /** Moments at which a live kubelet contradicted a write. */
  contradictionsAtMs: readonly number[];
  breakerOpenUntilMs?: number;
  /** A controller was seen not to act on what we wrote: nothing is written until it does, or somebody releases. */
  modeHold?: { readonly id: string; readonly sinceMs: number; readonly node: string };
  /** The pods that would tell cannot be listed. */
  modeUnchecked?: { readonly sinceMs: number; readonly why: string };
  ownLease?: OwnLease;
  api: ApiState;
  /** When the inventory was last taken in, and last asked for. */
  listedAtMs?: number;
  askedListAtMs?: number;
  /** Why the newest list was not believed. */
  listRefused?: string;
  nextId: number;
  readonly memory: Memory;
}

export function newMemory(): Memory {
  return {
    pollBegunAtMs: Number.NEGATIVE_INFINITY,
    polledAtMs: Number.NEGATIVE_INFINITY,
    polling: false,
    listing: false,
    strangers: false,
    deaf: new Set(),
    reads: new Map(),
    leases: new Map(),
    leasesListedAtMs: Number.NEGATIVE_INFINITY,
    leasesTakenAtMs: Number.NEGATIVE_INFINITY,
    listingLeases: false,
    toRead: new Set(),
    whys: new Map(),
    reading: new Set(),
    writing: new Set(),
    marking: new Set(),
    checkingMode: false,
    askingOwnLease: false,
  };
}

export function newArbiter(settings: ArbiterSettings, nowMs: number): ArbiterState {
  return {
    settings,
    nodes: new Map(),
    reports: new Map(),
    registryVersion: 0,
    lastRanAtMs: nowMs,
    contradictionsAtMs: [],
    api: { state: 'unknown', sinceMs: nowMs, retryAtMs: nowMs },
    nextId: 1,
    memory: newMemory(),
  };
}

/** An answer to a poll, and a read of a Node, are good for this long; then they are asked for again. */
export const FRESH_MS = 5_000;
