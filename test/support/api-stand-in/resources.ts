import type { KubeObject } from './objects.ts';

/** One kind of object, and where the real API treats it differently from the others. */
export interface Resource {
  readonly plural: string;
  readonly kind: string;
  readonly group: string;
  readonly apiVersion: string;
  readonly namespaced: boolean;
  /**
   * What becomes of `status`: `own` has a subresource and drops it from a create, `own-kept` keeps it there (only
   * Nodes do: kubelets register with a status), `none` has no status at all.
   */
  readonly status: 'own' | 'own-kept' | 'none';
  /** Fields that may be selected by, besides the name and the namespace. */
  readonly selectable: Readonly<Record<string, (object: KubeObject) => string>>;
  /** Fields of one condition. Others are dropped, or refused under fieldValidation=Strict. */
  readonly conditionFields: readonly string[];
  /** Dotted paths of times in whole seconds, and in microseconds. */
  readonly times: readonly string[];
  readonly microTimes: readonly string[];
}

const CONDITION = ['type', 'status', 'reason', 'message', 'lastTransitionTime'];

export const NODES: Resource = {
  plural: 'nodes',
  kind: 'Node',
  group: '',
  apiVersion: 'v1',
  namespaced: false,
  status: 'own-kept',
  selectable: { 'spec.unschedulable': (node) => String(node.spec?.['unschedulable'] === true) },
  conditionFields: [...CONDITION, 'lastHeartbeatTime'],
  times: [],
  microTimes: [],
};

export const PODS: Resource = {
  plural: 'pods',
  kind: 'Pod',
  group: '',
  apiVersion: 'v1',
  namespaced: true,
  status: 'own',
  selectable: {
    'spec.nodeName': (pod) => textOf(pod.spec?.['nodeName']),
    'status.phase': (pod) => textOf(pod.status?.['phase']),
  },
  conditionFields: [...CONDITION, 'lastProbeTime', 'observedGeneration'],
  times: [],
  microTimes: [],
};

export const LEASES: Resource = {
  plural: 'leases',
  kind: 'Lease',
  group: 'coordination.k8s.io',
  apiVersion: 'coordination.k8s.io/v1',
  namespaced: true,
  status: 'none',
  selectable: {},
  conditionFields: [],
  times: [],
  microTimes: ['spec.renewTime', 'spec.acquireTime'],
};

export const EVENTS: Resource = {
  plural: 'events',
  kind: 'Event',
  group: '',
  apiVersion: 'v1',
  namespaced: true,
  status: 'none',
  selectable: {
    'involvedObject.kind': (event) => involved(event, 'kind'),
    'involvedObject.name': (event) => involved(event, 'name'),
    'involvedObject.uid': (event) => involved(event, 'uid'),
    reason: (event) => textOf(event['reason']),
    type: (event) => textOf(event['type']),
  },
  conditionFields: [],
  times: ['firstTimestamp', 'lastTimestamp'],
  microTimes: ['eventTime'],
};

export const RESOURCES: readonly Resource[] = [NODES, PODS, LEASES, EVENTS];

/** The namespace of node Leases. */
export const NODE_LEASE_NAMESPACE = 'kube-node-lease';

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function involved(event: KubeObject, field: string): string {
  const object = event['involvedObject'];
  return textOf((object as Readonly<Record<string, unknown>> | undefined)?.[field]);
}
