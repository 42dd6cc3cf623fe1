import type { ApiPathSign, CheckResult, KubeletSign } from '../../../protocol/beat.ts';
import type { NodeSight } from '../../../protocol/report.ts';

/*
 * What people and machines are shown of a cluster. Built by the arbiter from its state and served through a short
 * cache, so that no reader ever reaches an object that hears beats. Times are the arbiter's own clock, epoch ms.
 */

/**
 * - `new`: enrolled, not heard yet. `alive`: beats come. `suspect`: a quorum does not hear it, no verdict yet.
 * - `down`: a verdict stands (written, or in observe mode noted). `leaving`: it said that it goes.
 * - `paused`: an operator asked to leave it alone. `watched`: no beats, but its kubelet shows life.
 * - `unenrolled`: a Node without a beacon's key.
 */
export const PHASES = [
  'new',
  'alive',
  'suspect',
  'down',
  'leaving',
  'paused',
  'watched',
  'unenrolled',
] as const;
export type Phase = (typeof PHASES)[number];

/** Why a node is not simply alive. The first three are verdicts that write; the others are shown and alerted. */
export const CAUSES = [
  'host-silent',
  'kubelet-down',
  'leaving',
  'beacon-lost',
  'api-path-cut',
  'edge-path-cut',
  'contradicted',
  'refused-beats',
  'duplicate-identity',
  'reboot',
] as const;
export type Cause = (typeof CAUSES)[number];

export interface RegionSight {
  readonly region: string;
  readonly sight: NodeSight;
  readonly heardAgoMs: number;
}

/** What was written for an episode, and what came of it. */
export interface WriteStatus {
  /** `would-write` is observe mode's record of what the other modes would have done. */
  readonly outcome: 'written' | 'would-write' | 'failed';
  readonly atMs: number;
  readonly reason: string;
  readonly message: string;
  /** Pods set to Ready=False, in compat mode. */
  readonly podsMarked?: number;
  readonly error?: string;
}

/** One continuous absence of one node instance, from first silence to confirmed return. */
export interface EpisodeStatus {
  readonly id: string;
  readonly node: string;
  readonly uid: string;
  readonly cause: Cause;
  /** The last beat before the absence, as far as any observer knows. */
  readonly lastBeatAtMs: number;
  readonly suspectAtMs: number;
  readonly verdictAtMs?: number;
  readonly write?: WriteStatus;
  readonly returnedAtMs?: number;
}

export interface NodeStatus {
  readonly name: string;
  readonly uid: string;
  readonly zone: string;
  readonly phase: Phase;
  readonly sinceMs: number;
  readonly cause?: Cause;
  /** One plain sentence: what is known, and what is waited for. */
  readonly why: string;
  readonly lastHeard: readonly RegionSight[];
  readonly kubelet?: KubeletSign;
  readonly api?: ApiPathSign;
  readonly beacon?: string;
  /** What the operator's own checks of the node came to, by its newest beat. */
  readonly checks?: readonly CheckResult[];
  /** What its beacon says it can do. */
  readonly features?: readonly string[];
  /** The running episode, or else the last one. */
  readonly episode?: EpisodeStatus;
}

export interface RegionStatus {
  readonly region: string;
  readonly reportedAgoMs?: number;
  readonly nodesHeard: number;
  readonly blind?: string;
}

export interface Alert {
  readonly code: string;
  readonly sinceMs: number;
  readonly message: string;
  readonly node?: string;
}

export interface ClusterStatus {
  readonly cluster: string;
  readonly mode: 'observe' | 'external' | 'compat';
  readonly atMs: number;
  /** Whether verdicts can be reached now, and if not, why. */
  readonly state: 'judging' | 'hold' | 'cool-down' | 'cannot-see' | 'breaker-open';
  readonly why: string;
  readonly hold?: {
    readonly id: string;
    readonly sinceMs: number;
    readonly nodes: readonly string[];
    readonly share: number;
    /**
     * - `share` (the default): too many nodes are missing at once.
     * - `mode`: a controller did not act on what was written of the named node.
     */
    readonly kind?: 'share' | 'mode';
  };
  readonly regions: readonly RegionStatus[];
  readonly api: {
    readonly state: 'ok' | 'unreachable' | 'unknown';
    readonly sinceMs: number;
    readonly why?: string;
  };
  readonly inventory: { readonly nodes: number; readonly enrolled: number; readonly listedAgoMs?: number };
  readonly alerts: readonly Alert[];
  readonly nodes: readonly NodeStatus[];
}
