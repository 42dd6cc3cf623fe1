import type {
  ApiPathSign,
  CheckResult,
  KubeletSign,
  LeavingSign,
  RefusalCode,
} from '../../../protocol/beat.ts';
import type { NodeSight, RegisteredNode, Registry } from '../../../protocol/report.ts';
import type { Policy } from '../policy.ts';

/** Which observer this is. Comes from the object's name, which comes from the configuration. */
export interface ObserverIdentity {
  readonly observer: string;
  readonly region: string;
  readonly shard: number;
}

/** The beats of one boot of one node. */
export interface Stream {
  readonly boot: string;
  readonly highestSeq: number;
  /** Digest of the beat that has `highestSeq`: the very same beat again is a retry, not a replay. */
  readonly digest: string;
  /** The sender's wall clock in that beat. */
  readonly sentAtMs: number;
  readonly advancedAtMs: number;
}

/** Streams kept per node. A boot loop of more than eight boots forgets its oldest. */
export const MAX_STREAMS = 8;

/**
 * One node as this observer hears it. Times are this observer's receive times.
 *
 * 1. `streams[0]` is the stream that advanced last, at `heardAtMs`.
 * 2. `heardAtMs` only grows, and only when a stream advances.
 */
export interface HeardNode {
  readonly uid: string;
  readonly streams: readonly Stream[];
  readonly heardAtMs: number;
  readonly intervalMs: number;
  readonly kubelet: KubeletSign;
  readonly api: ApiPathSign;
  readonly leaving?: LeavingSign;
  readonly refused?: { readonly code: RefusalCode; readonly atMs: number };
  readonly duplicateAtMs?: number;
  readonly beacon: string;
  readonly checks?: readonly CheckResult[];
  readonly features?: readonly string[];
  /** As last worked out; a change of it is worth telling. */
  readonly sight: NodeSight;
  /** Silence that was really listened to before an outage of this observer; see `listening.ts`. */
  readonly creditMs: number;
}

/** What a node's open socket keeps of it, outside this observer's memory: it survives sleep, and costs no row. */
export interface KeptNode {
  readonly node: HeardNode;
  /** Its newest beat as it came. */
  readonly jws: string;
}

export interface ObserverState {
  readonly identity: ObserverIdentity;
  readonly policy: Policy;
  registry: Registry;
  /** By name, for the path of a beat. */
  registered: Map<string, RegisteredNode>;
  /** In the order of `heardAtMs`, oldest first, so that the next deadline is found without a scan. */
  readonly nodes: Map<string, HeardNode>;
  /** Each node's newest beat as it came. In memory only: stored, it would triple the row; without it an observer cannot veto, only abstain. */
  readonly proofs: Map<string, string>;
  /** Nodes whose newest beat is kept by their socket, too. */
  readonly kept: Set<string>;
  /** Since when no beat can have been missed through this observer's own fault. */
  listeningSinceMs: number;
  /** Start of this life of the object's memory, and of the one before. */
  startedAtMs: number;
  previousStartedAtMs?: number;
  /** Names that beat with a key the registry does not have. */
  strangers: Set<string>;
  /** Well-signed beats since `countedSinceMs`, and how many of them were refused. */
  counts: { readonly sinceMs: number; readonly beats: number; readonly refused: number };
  /** When this observer last handled any event: until then it certainly heard what came. */
  lastEventAtMs: number;
  /** When this observer wants to look at the clock again. Long past it, it was not running. */
  wakeAtMs: number;
  /** `complete`: as stored, together with what the sockets of `keptNodes` keep. */
  snapshot: { readonly atMs: number; readonly complete: boolean; readonly keptNodes: ReadonlySet<string> };
  /** Something has changed that the snapshot does not show, and soon should. */
  unstored: boolean;
  reportDueAtMs: number;
}

/** Names of strangers kept. More is noise: whoever sends it has no key. */
export const MAX_STRANGERS = 100;

/** An event that comes this long after the moment it should have woken at shows that the object stood still, with beats in its queue. */
export const OUTAGE_MS = 2_000;

/** An idle object leaves memory after 10 s; nothing due within this long means that it may. */
export const SLEEP_AFTER_MS = 9_000;

/** Snapshots: one in five minutes when all is well. After a crash an older one costs nothing: it is listened anew. */
export const SNAPSHOT_EVERY_MS = 300_000;

/**
 * Snapshots follow every 3 s while a node is late, or when something has changed that need not be stored at once; so do
 * reports. A snapshot or report is as large as the cluster: one for each of a thousand returning nodes would be too much.
 */
export const SOON_MS = 3_000;

/** "I am well", with every node's age, about once a minute. */
export const REPORT_EVERY_MS = 60_000;
/** After a report that failed, or that named strangers. */
export const REPORT_AGAIN_MS = 3_000;

export function emptyRegistry(): Registry {
  return { version: 0, nodes: [] };
}

export function byName(registry: Registry): Map<string, RegisteredNode> {
  return new Map(registry.nodes.map((node) => [node.name, node]));
}

/** A brand-new observer: it has heard nothing and listens from now on. */
export function newObserver(identity: ObserverIdentity, policy: Policy, nowMs: number): ObserverState {
  return {
    identity,
    policy,
    registry: emptyRegistry(),
    registered: new Map(),
    nodes: new Map(),
    proofs: new Map(),
    kept: new Set(),
    listeningSinceMs: nowMs,
    startedAtMs: nowMs,
    strangers: new Set(),
    counts: { sinceMs: nowMs, beats: 0, refused: 0 },
    lastEventAtMs: nowMs,
    wakeAtMs: Number.POSITIVE_INFINITY,
    snapshot: { atMs: nowMs, complete: false, keptNodes: new Set() },
    unstored: false,
    reportDueAtMs: nowMs,
  };
}
