/*
 * The few things farpulse asks of a cluster. Kubernetes' own types stop at the adapter behind this port, and every
 * expected outcome is a value.
 */

export type ConditionStatus = 'True' | 'False' | 'Unknown';

export interface ReadyCondition {
  readonly status: ConditionStatus;
  readonly reason: string;
  readonly message: string;
  /** As the API server wrote them: whole seconds, RFC 3339. Compared for equality, never ordered against our clock. */
  readonly lastTransitionTime: string;
  readonly lastHeartbeatTime: string;
}

/** One Node, freshly read. */
export interface NodeCopy {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly ready: ReadyCondition | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly unschedulable: boolean;
  /** Server time of the kubelet's last status write (managedFields), epoch ms. */
  readonly kubeletWroteAtMs?: number;
}

/** One Node of the inventory: metadata only. */
export interface InventoryNode {
  readonly name: string;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface LeaseCopy {
  readonly node: string;
  /** The kubelet's own clock, epoch ms; undefined when never renewed. */
  readonly renewTimeMs: number | undefined;
}

/** The Lease of our own, as it is in the cluster. */
export interface OwnLeaseCopy {
  readonly resourceVersion: string;
  readonly holder: string | undefined;
  /** By its holder's clock, epoch ms: compared for equality only. */
  readonly renewTimeMs: number | undefined;
}

/** Written on exactly the copy that was read. */
export interface OwnLeaseRenewal {
  readonly resourceVersion: string;
  readonly holder: string;
  readonly renewTimeMs: number;
}

export interface PodCopy {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly ready: ConditionStatus | undefined;
  /** Ready=False without a reason: what the node lifecycle controller leaves of a pod that was Ready. */
  readonly marked?: true;
}

/** Why a call brought no result. `unreachable` is the API server's state, never a node's. */
export type ClusterFailure =
  | { readonly kind: 'not-found' }
  | { readonly kind: 'conflict'; readonly why: string }
  | { readonly kind: 'refused'; readonly status: 401 | 403; readonly why: string }
  | { readonly kind: 'busy'; readonly retryAfterMs: number; readonly why: string }
  | { readonly kind: 'invalid'; readonly status: number; readonly why: string }
  | { readonly kind: 'unreachable'; readonly why: string };

export type ClusterResult<T> = { readonly kind: 'ok'; readonly value: T } | ClusterFailure;

/** The write of the KEP: Ready becomes Unknown, on exactly the copy that was read. */
export interface UnknownPatch {
  readonly node: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly reason: string;
  readonly message: string;
  /** Whole seconds, RFC 3339. */
  readonly lastTransitionTime: string;
}

export interface NodeEvent {
  readonly node: string;
  readonly uid: string;
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
  readonly atMs: number;
}

export interface ClusterPort {
  /** Metadata of all Nodes, paged inside; `not complete` is a failure, never a short list. */
  listNodes(): Promise<ClusterResult<readonly InventoryNode[]>>;
  readNode(name: string): Promise<ClusterResult<NodeCopy>>;
  readLease(node: string): Promise<ClusterResult<LeaseCopy>>;
  /** All node Leases in one paged list. */
  listLeases(): Promise<ClusterResult<readonly LeaseCopy[]>>;
  /** Resolves with the Node's new resourceVersion. */
  patchReadyUnknown(patch: UnknownPatch): Promise<ClusterResult<{ readonly resourceVersion: string }>>;
  listPods(node: string): Promise<ClusterResult<readonly PodCopy[]>>;
  /** Ready=False with a new lastTransitionTime (whole seconds, RFC 3339), on exactly the copy that was read. */
  patchPodNotReady(pod: PodCopy, lastTransitionTime: string): Promise<ClusterResult<void>>;
  readOwnLease(): Promise<ClusterResult<OwnLeaseCopy>>;
  /** Resolves with the Lease's new resourceVersion. */
  renewOwnLease(renewal: OwnLeaseRenewal): Promise<ClusterResult<{ readonly resourceVersion: string }>>;
  createEvent(event: NodeEvent): Promise<ClusterResult<void>>;
}
