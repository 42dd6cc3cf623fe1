import type { ModeFinding } from '../../../worker/core/arbiter/mode.ts';
import type {
  ClusterFailure,
  ClusterResult,
  ConditionStatus,
  InventoryNode,
  LeaseCopy,
  NodeCopy,
  NodeEvent,
  OwnLeaseCopy,
  OwnLeaseRenewal,
  ReadyCondition,
  UnknownPatch,
} from '../../../worker/core/cluster-port.ts';
import { toRfc3339Seconds } from '../../../worker/core/rfc3339.ts';
import type { KubeletModel } from './kubelet-model.ts';
import type { EventQueue } from './queue.ts';

/** One Node object, and the kubelet that speaks for it. */
export interface ApiNode {
  readonly name: string;
  uid: string;
  resourceVersion: number;
  readonly labels: Record<string, string>;
  readonly annotations: Record<string, string>;
  ready: Omit<ReadyCondition, 'lastHeartbeatTime'> | undefined;
  readonly kubelet: KubeletModel;
  /** What the node's own clock is ahead of ours. */
  clockOffsetMs: number;
  /** Pods bound to it that say they are Ready. */
  readyPods: number;
}

export type ApiTrouble = 'none' | 'unreachable' | 'busy' | 'leases-forbidden';

/** Told of what changes a Node's Ready condition. */
export interface ApiListener {
  onUnknown(name: string, patch: UnknownPatch): void;
  onReady(name: string): void;
}

/** The API server: Nodes with uid and resourceVersion, Leases, conflicts, and times in which it does not answer. */
export class ApiModel {
  readonly nodes = new Map<string, ApiNode>();
  trouble: ApiTrouble = 'none';
  /** Whose word the node lifecycle controller takes: `us` is external mode. */
  controllerListensTo: 'us' | 'kubelets' = 'us';
  /** farpulse's own, as `deploy/` ships it. */
  ownLease: { version: number; holder: string | undefined; renewTimeMs: number | undefined } = {
    version: 1,
    holder: undefined,
    renewTimeMs: undefined,
  };
  /** `node-1 FarpulseHostSilent`, in order. */
  readonly events: string[] = [];
  /** Requests answered so far, but for those about our own Lease. */
  reads = 0;
  lists = 0;
  writes = 0;
  podWrites = 0;
  conflicts = 0;
  listener: ApiListener | undefined;
  readonly #queue: EventQueue;

  constructor(queue: EventQueue) {
    this.#queue = queue;
  }

  add(node: ApiNode): void {
    this.nodes.set(node.name, node);
  }

  delete(name: string): void {
    this.nodes.delete(name);
  }

  listNodes(): ClusterResult<readonly InventoryNode[]> {
    const failure = this.#failure();
    if (failure !== undefined) return failure;
    this.lists += 1;
    const value = Array.from(this.nodes.values(), ({ name, uid, labels, annotations }) => ({
      name,
      uid,
      labels,
      annotations: { ...annotations },
    }));
    return { kind: 'ok', value };
  }

  readNode(name: string): ClusterResult<NodeCopy> {
    const failure = this.#failure();
    if (failure !== undefined) return failure;
    this.reads += 1;
    const node = this.nodes.get(name);
    if (node === undefined) return { kind: 'not-found' };
    const { kubelet, clockOffsetMs } = node;
    kubelet.advance(this.#queue.nowMs);
    return {
      kind: 'ok',
      value: {
        name,
        uid: node.uid,
        resourceVersion: `${node.resourceVersion}`,
        ready: node.ready && {
          ...node.ready,
          lastHeartbeatTime: toRfc3339Seconds((kubelet.reportedAtMs ?? 0) + clockOffsetMs),
        },
        labels: node.labels,
        annotations: { ...node.annotations },
        unschedulable: false,
        ...(kubelet.reportedAtMs !== undefined && { kubeletWroteAtMs: kubelet.reportedAtMs }),
      },
    };
  }

  readLease(name: string): ClusterResult<LeaseCopy> {
    const failure = this.#leaseFailure();
    if (failure !== undefined) return failure;
    this.reads += 1;
    const lease = this.#leaseOf(name);
    return lease === undefined ? { kind: 'not-found' } : { kind: 'ok', value: lease };
  }

  /** One read, however many Leases: a page holds 500. */
  listLeases(): ClusterResult<readonly LeaseCopy[]> {
    const failure = this.#leaseFailure();
    if (failure !== undefined) return failure;
    this.reads += 1;
    const value = [...this.nodes.keys()].flatMap((name) => this.#leaseOf(name) ?? []);
    return { kind: 'ok', value };
  }

  #leaseFailure(): ClusterFailure | undefined {
    const failure = this.#failure();
    if (failure !== undefined || this.trouble !== 'leases-forbidden') return failure;
    return { kind: 'refused', status: 403, why: 'leases are forbidden' };
  }

  #leaseOf(name: string): LeaseCopy | undefined {
    const node = this.nodes.get(name);
    if (node === undefined) return undefined;
    node.kubelet.advance(this.#queue.nowMs);
    const { renewedAtMs } = node.kubelet;
    return renewedAtMs === undefined
      ? undefined
      : { node: name, renewTimeMs: Math.floor(renewedAtMs + node.clockOffsetMs) };
  }

  patchReadyUnknown(patch: UnknownPatch): ClusterResult<{ readonly resourceVersion: string }> {
    const failure = this.#failure();
    if (failure !== undefined) return failure;
    const node = this.nodes.get(patch.node);
    if (node === undefined) return { kind: 'not-found' };
    if (node.uid !== patch.uid || `${node.resourceVersion}` !== patch.resourceVersion) {
      this.conflicts += 1;
      return { kind: 'conflict', why: 'the object has been modified' };
    }
    this.writes += 1;
    const { reason, message, lastTransitionTime } = patch;
    this.#setReady(node, { status: 'Unknown', reason, message, lastTransitionTime });
    this.listener?.onUnknown(patch.node, patch);
    this.#kubeletNotices(node);
    return { kind: 'ok', value: { resourceVersion: `${node.resourceVersion}` } };
  }

  /** What `markPods` does with its reads and patches, in one. */
  markPods(name: string, uid: string, lastTransitionTime: string): { marked: number; ok: boolean } {
    if (this.#failure() !== undefined) return { marked: 0, ok: false };
    this.reads += 2;
    const node = this.nodes.get(name);
    const isOurs = node?.ready?.status === 'Unknown' && node.ready.lastTransitionTime === lastTransitionTime;
    if (node === undefined || node.uid !== uid || !isOurs) return { marked: 0, ok: true };
    const marked = node.readyPods;
    node.readyPods = 0;
    this.podWrites += marked;
    return { marked, ok: true };
  }

  createEvent({ node, reason }: NodeEvent): void {
    if (this.#failure() === undefined) this.events.push(`${node} ${reason}`);
  }

  readOwnLease(): ClusterResult<OwnLeaseCopy> {
    const failure = this.#failure();
    if (failure !== undefined) return failure;
    const { version, holder, renewTimeMs } = this.ownLease;
    return { kind: 'ok', value: { resourceVersion: `${version}`, holder, renewTimeMs } };
  }

  renewOwnLease(renewal: OwnLeaseRenewal): ClusterResult<{ readonly resourceVersion: string }> {
    const failure = this.#failure();
    if (failure !== undefined) return failure;
    const { version } = this.ownLease;
    if (renewal.resourceVersion !== `${version}`)
      return { kind: 'conflict', why: 'the object has been modified' };
    const { holder, renewTimeMs } = renewal;
    this.ownLease = { version: version + 1, holder, renewTimeMs };
    return { kind: 'ok', value: { resourceVersion: `${version + 1}` } };
  }

  /** What `checkMode` makes of its list and its read, in one. A controller in external mode has marked all by then. */
  checkMode(name: string, uid: string, lastTransitionTime: string): ModeFinding {
    const failure = this.#failure();
    if (failure !== undefined) return { kind: 'failed', why: failure.kind };
    this.reads += 1;
    const node = this.nodes.get(name);
    const isOurs = node?.ready?.status === 'Unknown' && node.ready.lastTransitionTime === lastTransitionTime;
    if (node?.uid !== uid || !isOurs || node.readyPods === 0) return { kind: 'nothing-to-tell' };
    return { kind: this.controllerListensTo === 'us' ? 'marked' : 'untouched' };
  }

  /** Another controller, or an operator, writes the Ready condition. */
  writeReady(name: string, status: ConditionStatus, reason: string): void {
    const node = this.nodes.get(name);
    if (node === undefined) return;
    const lastTransitionTime = toRfc3339Seconds(this.#queue.nowMs);
    this.#setReady(node, { status, reason, message: '', lastTransitionTime });
    if (status !== 'True') this.#kubeletNotices(node);
  }

  /** A kubelet that has started, or can speak again, puts its Ready right. */
  kubeletSpeaks(name: string): void {
    const node = this.nodes.get(name);
    if (node === undefined || !node.kubelet.isAlive) return;
    if (!node.kubelet.canReachApi || this.trouble === 'unreachable') {
      this.#queue.after(node.kubelet.statusLoopMs, () => this.kubeletSpeaks(name));
      return;
    }
    if (node.ready?.status === 'True') return;
    const nowMs = this.#queue.nowMs;
    node.kubelet.advance(nowMs);
    node.kubelet.reported(nowMs);
    this.#setReady(node, {
      status: 'True',
      reason: 'KubeletReady',
      message: 'kubelet is posting ready status',
      lastTransitionTime: toRfc3339Seconds(nowMs + node.clockOffsetMs),
    });
    this.listener?.onReady(name);
  }

  #kubeletNotices(node: ApiNode): void {
    if (!node.kubelet.isAlive) return;
    this.#queue.after(node.kubelet.noticesInMs(this.#queue.nowMs), () => this.kubeletSpeaks(node.name));
  }

  #setReady(node: ApiNode, ready: Omit<ReadyCondition, 'lastHeartbeatTime'>): void {
    node.ready = ready;
    node.resourceVersion += 1;
  }

  #failure(): ClusterFailure | undefined {
    switch (this.trouble) {
      case 'unreachable':
        return { kind: 'unreachable', why: 'no answer within 4 s' };
      case 'busy':
        return { kind: 'busy', retryAfterMs: 1_000, why: 'too many requests' };
      case 'leases-forbidden':
      case 'none':
        return undefined;
    }
  }
}
