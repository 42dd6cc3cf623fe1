import type { ApiPathSign, CheckResult, KubeletSign, LeavingSign, RefusalCode } from './beat.ts';
import type { PublicKey } from './keys.ts';

/*
 * What observers and arbiters tell each other over RPC. Old and new code talk during a deploy, so these shapes only
 * grow: every field added later is optional. Only durations cross between objects, never wall-clock times, because
 * no two objects share a clock.
 */

/** One observer's name within its cluster: its region, and its shard where a region has several. */
export type ObserverId = string;

/**
 * One node as one observer sees it.
 * - `heard`: the next beat is not due, or is due and not yet late.
 * - `late`: the next beat has not come in time, the silent deadline has not passed.
 * - `silent`: no beat by the deadline, listened to for as long as that takes.
 * - `listening`: no beat, but this observer has not listened long enough to say whether that means anything.
 */
export type NodeSight = 'heard' | 'late' | 'silent' | 'listening';

export interface ReportedNode {
  readonly name: string;
  readonly uid: string;
  /** Boot id and sequence of the newest beat, and the sender's own wall clock in it. */
  readonly boot: string;
  readonly seq: number;
  readonly sentAtMs: number;
  readonly sight: NodeSight;
  /** Since the newest beat was received. */
  readonly heardAgoMs: number;
  readonly intervalMs: number;
  /** From the last beat to the silent deadline, as this observer reckons it. */
  readonly timeoutMs: number;
  /**
   * How much of `heardAgoMs` this observer has really listened to, when it is less: beats may have come unheard before,
   * so what the node did since its last known beat says nothing about a missed one.
   */
  readonly listenedForMs?: number;
  /** With `listening`: until this observer can say `silent`. */
  readonly judgesInMs?: number;
  readonly kubelet: KubeletSign;
  readonly api: ApiPathSign;
  /** `forMs` counts from now, not from the beat. */
  readonly leaving?: LeavingSign;
  /** The newest well-signed beat that was refused: proof of life that must not count as a beat. */
  readonly refused?: { readonly code: RefusalCode; readonly agoMs: number };
  /** Two boots advance at once: two machines use one identity. */
  readonly duplicate?: boolean;
  readonly beacon?: string;
  /** What the operator's own checks of the node came to. */
  readonly checks?: readonly CheckResult[];
  /** What the node's beacon says it can do. */
  readonly features?: readonly string[];
  /** The newest beat itself, in the answer to a poll that names this node. */
  readonly proof?: string;
}

/**
 * Why an observer cannot judge any node.
 * - `hears-nobody`: every node it knows is silent; its own ears are the likelier cause.
 * - `restarting`: it cannot stay up for one interval.
 * - `refusing`: it refuses more than a tenth of its well-signed beats.
 */
export type Blindness = 'hears-nobody' | 'restarting' | 'refusing';

/** What an observer tells its arbiter: always everything it sees, so that a lost report loses nothing. */
export interface Report {
  readonly observer: ObserverId;
  readonly region: string;
  readonly shard: number;
  /** Since this observer listens without a gap. */
  readonly listeningForMs: number;
  /** Why it cannot judge at all, when it cannot. */
  readonly blind?: Blindness;
  readonly nodes: readonly ReportedNode[];
  /** Names that beat with a key the registry does not have. */
  readonly strangers: readonly string[];
  /** The registry this observer verifies with; 0 when it has none. */
  readonly registryVersion: number;
}

/** One enrolled node, as the arbiter hands it to observers. */
export interface RegisteredNode {
  readonly name: string;
  readonly uid: string;
  readonly keys: readonly PublicKey[];
  /** Keys void since less than a day: a beat signed with one is `heard, refused`, not noise. */
  readonly oldKeys?: readonly PublicKey[];
}

export interface Registry {
  readonly version: number;
  readonly nodes: readonly RegisteredNode[];
}

/** The arbiter answers a report at once and calls nobody back inside it. */
export interface ReportReply {
  /** Present when the observer's registry is not the current one. */
  readonly registry?: Registry;
}

/** What one observer says to one beat. */
export type BeatAnswer =
  | { readonly kind: 'recorded'; readonly observer: ObserverId }
  | {
      readonly kind: 'refused';
      readonly observer: ObserverId;
      readonly code: RefusalCode;
      readonly why: string;
      readonly highestSeq?: number;
    };
