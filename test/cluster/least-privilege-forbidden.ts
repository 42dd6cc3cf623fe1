// Everything the account must not do, each with who refuses it.
import type { Method } from './api-client.ts';
import { MERGE, SMP } from './api-table-context.ts';
import { ACCOUNT } from './least-privilege.ts';
import {
  CONFIG_MAP,
  EVENT,
  event,
  EVENTS,
  FALSE_NODE,
  FALSE_POD,
  IGNORED_NODE,
  LATER,
  LEADER_LEASE,
  NODE,
  NODE_LEASE,
  notReady,
  OWN_LEASE,
  parent,
  POD,
  PODS,
  SECRET,
  STARTING_NODE,
  STARTING_POD,
  unknown,
  UNKNOWN_NODE,
} from './least-privilege-targets.ts';

export interface Forbidden {
  readonly name: string;
  readonly method: Method;
  readonly path: string;
  /** A function gets the object as it is. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Under `compat`: RBAC, or a policy with these words. */
  readonly by: 'RBAC' | { readonly says: string };
  /** No policy is asked: a read, a review, or a write to the policies themselves. RBAC stands alone here. */
  readonly unseen?: true;
  /** What must be unchanged, or still absent, afterwards. By default the object of the path. */
  readonly touches?: string;
}

function named(prefix: string, rows: readonly Forbidden[]): readonly Forbidden[] {
  return rows.map((row) => ({ ...row, name: `${prefix}: ${row.name}` }));
}

const METADATA = "may not change a Node's metadata";
const STATUS = "may not change anything of a Node's status but conditions";
const CONDITIONS = 'may not change any condition but Ready';
const TRANSITION = 'may only change Ready from True or False to Unknown';
const TEXTS = 'reason must be Farpulse';
const HEARTBEAT = "lastHeartbeatTime is the kubelet's";

/** A PATCH of a Node's status, refused by the policy for Nodes. */
function nodeStatus(
  name: string,
  says: string,
  body: unknown,
  { node = NODE, headers = SMP, query = '' } = {},
): Forbidden {
  return {
    name,
    method: 'PATCH',
    path: `${node}/status${query}`,
    body,
    headers,
    by: { says },
    touches: node,
  };
}

const NODE_STATUS = named('Node status', [
  nodeStatus('a label', METADATA, unknown({ metadata: { labels: { team: 'b' } } })),
  nodeStatus('a label less', METADATA, unknown({ metadata: { labels: { team: null } } })),
  nodeStatus(
    'an annotation',
    METADATA,
    unknown({ metadata: { annotations: { 'farpulse/beacon-key': 'x' } } }),
  ),
  nodeStatus('a finalizer', METADATA, unknown({ metadata: { finalizers: ['example.com/hold'] } })),
  nodeStatus(
    'an owner',
    METADATA,
    unknown({
      metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'target-false', uid: 'x' }] },
    }),
  ),
  nodeStatus(
    'a label by server-side apply',
    METADATA,
    { apiVersion: 'v1', kind: 'Node', metadata: { labels: { team: 'b' } } },
    { headers: { 'content-type': 'application/apply-patch+yaml' }, query: '?fieldManager=x&force=true' },
  ),
  nodeStatus(
    'an address',
    STATUS,
    unknown({ status: { addresses: [{ type: 'InternalIP', address: '10.6.6.6' }] } }),
  ),
  nodeStatus(
    'another address by JSON Patch',
    STATUS,
    [{ op: 'replace', path: '/status/addresses/0/address', value: '10.6.6.6' }],
    { headers: { 'content-type': 'application/json-patch+json' } },
  ),
  nodeStatus('capacity', STATUS, unknown({ status: { capacity: { cpu: '400' } } })),
  nodeStatus('allocatable', STATUS, unknown({ status: { allocatable: { cpu: '1' } } })),
  nodeStatus('an extended resource', STATUS, unknown({ status: { capacity: { 'example.com/gpu': '8' } } })),
  nodeStatus(
    "the kubelet's port",
    STATUS,
    unknown({ status: { daemonEndpoints: { kubeletEndpoint: { Port: 666 } } } }),
  ),
  nodeStatus('the node info', STATUS, unknown({ status: { nodeInfo: { kubeletVersion: 'v0.1.0' } } })),
  nodeStatus(
    'an image',
    STATUS,
    unknown({ status: { images: [{ names: ['registry.example/evil:1'], sizeBytes: 1 }] } }),
  ),
  nodeStatus('the phase', STATUS, unknown({ status: { phase: 'Terminated' } })),
  nodeStatus('volumes in use', STATUS, unknown({ status: { volumesInUse: ['v'] } })),
  nodeStatus(
    'attached volumes',
    STATUS,
    unknown({ status: { volumesAttached: [{ name: 'v', devicePath: '/dev/v' }] } }),
  ),
  nodeStatus(
    'another condition',
    CONDITIONS,
    unknown({ conditions: [{ type: 'MemoryPressure', status: 'True' }] }),
  ),
  nodeStatus('a condition more', CONDITIONS, unknown({ conditions: [{ type: 'Haunted', status: 'True' }] })),
  nodeStatus(
    'a condition less',
    CONDITIONS,
    unknown({ conditions: [{ type: 'MemoryPressure', $patch: 'delete' }] }),
  ),
  nodeStatus('all conditions, by JSON merge patch', CONDITIONS, unknown(), { headers: MERGE }),
  nodeStatus('no Ready at all', CONDITIONS, {
    status: { conditions: [{ type: 'Ready', $patch: 'delete' }] },
  }),
  nodeStatus('Ready where there is none', CONDITIONS, unknown(), { node: STARTING_NODE }),
  nodeStatus('True to False', TRANSITION, unknown({ ready: { status: 'False' } })),
  nodeStatus('False to True', TRANSITION, unknown({ ready: { status: 'True' } }), { node: FALSE_NODE }),
  nodeStatus('Unknown to True', TRANSITION, unknown({ ready: { status: 'True' } }), { node: UNKNOWN_NODE }),
  nodeStatus('Unknown to Unknown', TRANSITION, unknown(), { node: UNKNOWN_NODE }),
  nodeStatus('True again, with another message', TRANSITION, unknown({ ready: { status: 'True' } })),
  nodeStatus("the controller's reason", TEXTS, unknown({ ready: { reason: 'NodeStatusUnknown' } })),
  nodeStatus('a reason without our name', TEXTS, unknown({ ready: { reason: 'HostSilent' } })),
  nodeStatus('a reason that is a text', TEXTS, unknown({ ready: { reason: 'Farpulse says so' } })),
  nodeStatus('a reason without end', TEXTS, unknown({ ready: { reason: `Farpulse${'x'.repeat(57)}` } })),
  nodeStatus('no reason', TEXTS, unknown({ ready: { reason: null } })),
  nodeStatus("the kubelet's reason kept", TEXTS, unknown({ ready: { reason: undefined } })),
  nodeStatus('a message of 513 characters', TEXTS, unknown({ ready: { message: 'm'.repeat(513) } })),
  nodeStatus('a heartbeat', HEARTBEAT, unknown({ ready: { lastHeartbeatTime: LATER } })),
  nodeStatus('no heartbeat', HEARTBEAT, unknown({ ready: { lastHeartbeatTime: null } })),
  nodeStatus(
    'the old transition time',
    'lastTransitionTime must move',
    unknown({ ready: { lastTransitionTime: undefined } }),
  ),
  nodeStatus(
    'no transition time',
    'lastTransitionTime must move',
    unknown({ ready: { lastTransitionTime: null } }),
  ),
  nodeStatus('a node to be ignored', 'farpulse/ignore=true', unknown(), { node: IGNORED_NODE }),
  {
    name: 'a whole status by PUT',
    method: 'PUT',
    path: `${NODE}/status`,
    body: (node: object) => ({ ...node, ...unknown() }),
    by: 'RBAC',
    touches: NODE,
  },
]);

const NODES = named('Nodes', [
  {
    name: 'cordon',
    method: 'PATCH',
    path: NODE,
    body: { spec: { unschedulable: true } },
    headers: SMP,
    by: 'RBAC',
  },
  {
    name: 'taint',
    method: 'PATCH',
    path: NODE,
    body: { spec: { taints: [{ key: 'k', effect: 'NoExecute' }] } },
    headers: SMP,
    by: 'RBAC',
  },
  {
    name: 'label',
    method: 'PATCH',
    path: NODE,
    body: { metadata: { labels: { team: 'b' } } },
    headers: SMP,
    by: 'RBAC',
  },
  { name: 'replace', method: 'PUT', path: NODE, body: (node: object) => node, by: 'RBAC' },
  { name: 'delete', method: 'DELETE', path: NODE, by: 'RBAC' },
  {
    name: 'delete many',
    method: 'DELETE',
    path: '/api/v1/nodes?labelSelector=test/of=least-privilege',
    by: 'RBAC',
    touches: NODE,
  },
  {
    name: 'create',
    method: 'POST',
    path: '/api/v1/nodes',
    body: { metadata: { name: 'intruder' } },
    by: 'RBAC',
    touches: '/api/v1/nodes/intruder',
  },
  { name: 'go through to the kubelet', method: 'GET', path: `${NODE}/proxy/pods`, by: 'RBAC', touches: NODE },
  { name: 'watch', method: 'GET', path: '/api/v1/nodes?watch=true', by: 'RBAC', unseen: true, touches: NODE },
]);

const POD_READY = "may only change a pod's Ready from True to False";
const POD_STATUS = "may not change anything of a pod's status but conditions";
const POD_METADATA = "may not change a pod's metadata";

function podStatus(name: string, says: string, body: unknown, pod = POD): Forbidden {
  return { name, method: 'PATCH', path: `${pod}/status`, body, headers: SMP, by: { says }, touches: pod };
}

const POD_STATUSES = named('pod status', [
  podStatus('False to True', POD_READY, notReady({ ready: { status: 'True' } }), FALSE_POD),
  podStatus('False to False', POD_READY, notReady(), FALSE_POD),
  podStatus('True to Unknown', POD_READY, notReady({ ready: { status: 'Unknown' } })),
  podStatus('Ready where there is none', CONDITIONS, notReady(), STARTING_POD),
  podStatus('a reason', POD_READY, notReady({ ready: { reason: 'NodeNotReady' } })),
  podStatus('a message', POD_READY, notReady({ ready: { message: 'gone' } })),
  podStatus('a probe time', POD_READY, notReady({ ready: { lastProbeTime: LATER } })),
  podStatus(
    'another condition',
    CONDITIONS,
    notReady({ conditions: [{ type: 'ContainersReady', status: 'False' }] }),
  ),
  podStatus(
    'a condition more',
    CONDITIONS,
    notReady({ conditions: [{ type: 'DisruptionTarget', status: 'True' }] }),
  ),
  podStatus('the phase', POD_STATUS, notReady({ status: { phase: 'Failed' } })),
  podStatus(
    'the address',
    POD_STATUS,
    notReady({ status: { podIP: '10.6.6.6', podIPs: [{ ip: '10.6.6.6', $patch: 'replace' }] } }),
  ),
  podStatus('the start time', POD_STATUS, notReady({ status: { startTime: LATER } })),
  podStatus('a reason of the pod', POD_STATUS, notReady({ status: { reason: 'NodeLost' } })),
  podStatus('a label', POD_METADATA, notReady({ metadata: { labels: { team: 'b' } } })),
  podStatus('an annotation', POD_METADATA, notReady({ metadata: { annotations: { a: 'b' } } })),
  podStatus('a finalizer', POD_METADATA, notReady({ metadata: { finalizers: ['example.com/hold'] } })),
]);

const PODS_ELSE = named('pods', [
  { name: 'read one', method: 'GET', path: POD, by: 'RBAC', unseen: true },
  { name: 'read its log', method: 'GET', path: `${POD}/log`, by: 'RBAC', unseen: true, touches: POD },
  {
    name: 'label',
    method: 'PATCH',
    path: POD,
    body: { metadata: { labels: { a: 'b' } } },
    headers: SMP,
    by: 'RBAC',
  },
  {
    name: 'another image',
    method: 'PATCH',
    path: POD,
    body: { spec: { containers: [{ name: 'main', image: 'evil' }] } },
    headers: SMP,
    by: 'RBAC',
  },
  { name: 'delete', method: 'DELETE', path: POD, by: 'RBAC' },
  {
    name: 'create',
    method: 'POST',
    path: PODS,
    body: {
      metadata: { name: 'intruder' },
      spec: { containers: [{ name: 'main', image: 'evil' }], automountServiceAccountToken: false },
    },
    by: 'RBAC',
    touches: `${PODS}/intruder`,
  },
  {
    name: 'evict',
    method: 'POST',
    path: `${POD}/eviction`,
    body: {
      apiVersion: 'policy/v1',
      kind: 'Eviction',
      metadata: { name: 'target-pod', namespace: 'default' },
    },
    by: 'RBAC',
    touches: POD,
  },
  {
    name: 'bind',
    method: 'POST',
    path: `${POD}/binding`,
    body: {
      metadata: { name: 'target-pod' },
      target: { apiVersion: 'v1', kind: 'Node', name: 'target-false' },
    },
    by: 'RBAC',
    touches: POD,
  },
  {
    name: 'a debug container',
    method: 'PATCH',
    path: `${POD}/ephemeralcontainers`,
    body: { spec: { ephemeralContainers: [{ name: 'debug', image: 'evil' }] } },
    headers: SMP,
    by: 'RBAC',
    touches: POD,
  },
  {
    name: 'run a command',
    method: 'POST',
    path: `${POD}/exec?command=id&container=main&stdout=true`,
    by: 'RBAC',
    touches: POD,
  },
]);

function lease(name: string, path: string, body: object, by: Forbidden['by']): Forbidden {
  return { name, method: 'PATCH', path, body, headers: MERGE, by };
}

const ITS_METADATA = { says: "its Lease's metadata" };

const LEASES = named('Leases', [
  lease("renew a kubelet's", NODE_LEASE, { spec: { holderIdentity: 'x' } }, 'RBAC'),
  lease("take a controller's leadership", LEADER_LEASE, { spec: { holderIdentity: 'x' } }, 'RBAC'),
  lease('label its own', OWN_LEASE, { metadata: { labels: { a: 'b' } } }, ITS_METADATA),
  lease(
    'a finalizer for its own',
    OWN_LEASE,
    { metadata: { finalizers: ['example.com/hold'] } },
    ITS_METADATA,
  ),
  { name: 'delete its own', method: 'DELETE', path: OWN_LEASE, by: 'RBAC' },
  { name: "delete a kubelet's", method: 'DELETE', path: NODE_LEASE, by: 'RBAC' },
  { name: 'list those of its namespace', method: 'GET', path: parent(OWN_LEASE), by: 'RBAC', unseen: true },
  { name: "read a controller's", method: 'GET', path: LEADER_LEASE, by: 'RBAC', unseen: true },
  {
    name: 'create one',
    method: 'POST',
    path: parent(OWN_LEASE),
    body: { metadata: { name: 'intruder' } },
    by: 'RBAC',
    touches: `${parent(OWN_LEASE)}/intruder`,
  },
]);

function newEvent(name: string, body: object, by: Forbidden['by'], path = EVENTS): Forbidden {
  return { name, method: 'POST', path, body, by, touches: `${path}/intruder` };
}

const ONLY_OWN_EVENTS = { says: 'may only create Events about Nodes, in its own name' };

const EVENT_ROWS = named('Events', [
  newEvent(
    'in another namespace',
    event(
      { name: 'intruder', namespace: 'kube-system' },
      { involvedObject: { apiVersion: 'v1', kind: 'Pod', name: 'p', namespace: 'kube-system' } },
    ),
    'RBAC',
    '/api/v1/namespaces/kube-system/events',
  ),
  newEvent(
    'about a pod',
    event(
      { name: 'intruder' },
      { involvedObject: { apiVersion: 'v1', kind: 'Pod', name: 'target-pod', namespace: 'default' } },
    ),
    ONLY_OWN_EVENTS,
  ),
  newEvent(
    "in a kubelet's name",
    event({ name: 'intruder' }, { source: { component: 'kubelet' } }),
    ONLY_OWN_EVENTS,
  ),
  newEvent(
    'reported by another',
    event({ name: 'intruder' }, { reportingComponent: 'node-controller' }),
    ONLY_OWN_EVENTS,
  ),
  newEvent(
    'with a message of 1025 characters',
    event({ name: 'intruder' }, { message: 'm'.repeat(1025) }),
    ONLY_OWN_EVENTS,
  ),
  newEvent(
    'by the newer API',
    {
      metadata: { name: 'intruder', namespace: 'default' },
      regarding: { apiVersion: 'v1', kind: 'Node', name: 'target' },
      eventTime: '2026-01-01T00:00:00.000000Z',
      type: 'Warning',
      reason: 'FarpulseHostSilent',
      action: 'Judged',
      reportingController: 'farpulse',
      reportingInstance: 'farpulse',
    },
    'RBAC',
    '/apis/events.k8s.io/v1/namespaces/default/events',
  ),
  { name: 'change one', method: 'PATCH', path: EVENT, body: { message: 'x' }, headers: MERGE, by: 'RBAC' },
  { name: 'delete one', method: 'DELETE', path: EVENT, by: 'RBAC' },
  { name: 'read them', method: 'GET', path: EVENTS, by: 'RBAC', unseen: true },
]);

const POLICIES = '/apis/admissionregistration.k8s.io/v1';
const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const POLICY = `${POLICIES}/validatingadmissionpolicies/farpulse-nodes`;
const BINDING = `${POLICIES}/validatingadmissionpolicybindings/farpulse-switch`;
const ROLE = `${RBAC}/clusterroles/farpulse-detector`;
const FLOW_SCHEMA = '/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/farpulse-detector';

const ITS_OWN_BOUNDS = named('its own bounds', [
  { name: 'read the kill switch', method: 'GET', path: ACCOUNT, by: 'RBAC', unseen: true },
  {
    name: 'throw the kill switch',
    method: 'PATCH',
    path: ACCOUNT,
    body: { metadata: { annotations: { 'farpulse/disarmed': null, 'farpulse/mode': 'external' } } },
    headers: MERGE,
    by: 'RBAC',
  },
  { name: 'delete the kill switch', method: 'DELETE', path: ACCOUNT, by: 'RBAC' },
  {
    name: 'a token for itself',
    method: 'POST',
    path: `${ACCOUNT}/token`,
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
    by: 'RBAC',
    touches: ACCOUNT,
  },
  {
    name: 'loosen a policy',
    method: 'PATCH',
    path: POLICY,
    body: { spec: { failurePolicy: 'Ignore' } },
    headers: MERGE,
    by: 'RBAC',
    unseen: true,
  },
  { name: 'delete a policy', method: 'DELETE', path: POLICY, by: 'RBAC', unseen: true },
  { name: 'unbind a policy', method: 'DELETE', path: BINDING, by: 'RBAC', unseen: true },
  {
    name: 'a policy more',
    method: 'POST',
    path: parent(POLICY),
    body: { metadata: { name: 'intruder' }, spec: { validations: [{ expression: 'false' }] } },
    by: 'RBAC',
    unseen: true,
    touches: `${parent(POLICY)}/intruder`,
  },
  {
    name: 'widen its role',
    method: 'PATCH',
    path: ROLE,
    body: { rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }] },
    headers: MERGE,
    by: 'RBAC',
  },
  {
    name: 'another role for itself',
    method: 'POST',
    path: `${RBAC}/clusterrolebindings`,
    body: {
      metadata: { name: 'intruder' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ kind: 'ServiceAccount', name: 'detector', namespace: 'farpulse' }],
    },
    by: 'RBAC',
    touches: `${RBAC}/clusterrolebindings/intruder`,
  },
  {
    name: 'a better place in the queue',
    method: 'PATCH',
    path: FLOW_SCHEMA,
    body: { spec: { matchingPrecedence: 2 } },
    headers: MERGE,
    by: 'RBAC',
  },
  { name: 'delete its namespace', method: 'DELETE', path: '/api/v1/namespaces/farpulse', by: 'RBAC' },
  {
    name: 'speak as somebody else',
    method: 'PATCH',
    path: NODE,
    body: { spec: { unschedulable: true } },
    headers: { ...SMP, 'impersonate-user': 'admin' },
    by: 'RBAC',
    unseen: true,
  },
]);

const DEFAULT = '/api/v1/namespaces/default';

const OTHERS = named('others', [
  { name: 'read a Secret', method: 'GET', path: SECRET, by: 'RBAC', unseen: true },
  { name: 'list Secrets', method: 'GET', path: '/api/v1/secrets', by: 'RBAC', unseen: true },
  {
    name: 'read the Secrets of its namespace',
    method: 'GET',
    path: '/api/v1/namespaces/farpulse/secrets',
    by: 'RBAC',
    unseen: true,
  },
  { name: 'read a ConfigMap', method: 'GET', path: CONFIG_MAP, by: 'RBAC', unseen: true },
  { name: 'read Services', method: 'GET', path: '/api/v1/services', by: 'RBAC', unseen: true },
  {
    name: 'change a Secret',
    method: 'PATCH',
    path: SECRET,
    body: { stringData: { a: 'c' } },
    headers: MERGE,
    by: 'RBAC',
  },
  {
    name: 'change a ConfigMap',
    method: 'PATCH',
    path: CONFIG_MAP,
    body: { data: { a: 'c' } },
    headers: MERGE,
    by: 'RBAC',
  },
  {
    name: 'create a Secret',
    method: 'POST',
    path: `${DEFAULT}/secrets`,
    body: { metadata: { name: 'intruder' } },
    by: 'RBAC',
    touches: `${DEFAULT}/secrets/intruder`,
  },
  {
    name: 'create a ConfigMap in its namespace',
    method: 'POST',
    path: '/api/v1/namespaces/farpulse/configmaps',
    body: { metadata: { name: 'intruder' } },
    by: 'RBAC',
    touches: '/api/v1/namespaces/farpulse/configmaps/intruder',
  },
  { name: 'delete a namespace', method: 'DELETE', path: '/api/v1/namespaces/kube-node-lease', by: 'RBAC' },
  {
    name: 'run a DaemonSet',
    method: 'POST',
    path: '/apis/apps/v1/namespaces/default/daemonsets',
    body: {
      metadata: { name: 'intruder' },
      spec: {
        selector: { matchLabels: { a: 'b' } },
        template: {
          metadata: { labels: { a: 'b' } },
          spec: { containers: [{ name: 'main', image: 'evil' }] },
        },
      },
    },
    by: 'RBAC',
    touches: '/apis/apps/v1/namespaces/default/daemonsets/intruder',
  },
  {
    name: 'ask what others may',
    method: 'POST',
    path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
    body: { spec: { user: 'admin', resourceAttributes: { verb: 'get', resource: 'secrets' } } },
    by: 'RBAC',
    unseen: true,
    touches: NODE,
  },
  {
    name: "review somebody's token",
    method: 'POST',
    path: '/apis/authentication.k8s.io/v1/tokenreviews',
    body: { spec: { token: 'x' } },
    by: 'RBAC',
    unseen: true,
    touches: NODE,
  },
]);

export const FORBIDDEN: readonly Forbidden[] = [
  ...NODE_STATUS,
  ...NODES,
  ...POD_STATUSES,
  ...PODS_ELSE,
  ...LEASES,
  ...EVENT_ROWS,
  ...ITS_OWN_BOUNDS,
  ...OTHERS,
];

/** The policy that answers for a path. */
export function policyOf(path: string): string {
  if (/^\/api\/v1\/nodes\b/.test(path)) return 'farpulse-nodes';
  if (/^\/api\/v1\/namespaces\/[^/]+\/pods\b/.test(path)) return 'farpulse-pods';
  return 'farpulse-everything-else';
}
