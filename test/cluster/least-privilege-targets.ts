// The objects that the deny matrix aims at. Nothing but the table writes to them: no controllers run.
import type { Condition } from './objects.ts';
import { SMP } from './api-table-context.ts';
import type { ControlPlane } from './plane.ts';

export const EARLIER = '2026-01-01T00:00:00Z';
export const LATER = '2026-01-01T00:01:40Z';

export const NODE = '/api/v1/nodes/target';
export const FALSE_NODE = '/api/v1/nodes/target-false';
export const UNKNOWN_NODE = '/api/v1/nodes/target-unknown';
export const STARTING_NODE = '/api/v1/nodes/target-starting';
export const IGNORED_NODE = '/api/v1/nodes/target-ignored';
export const PODS = '/api/v1/namespaces/default/pods';
export const POD = `${PODS}/target-pod`;
export const FALSE_POD = `${PODS}/target-pod-false`;
export const STARTING_POD = `${PODS}/target-pod-starting`;
export const COORDINATION = '/apis/coordination.k8s.io/v1';
export const NODE_LEASE = `${COORDINATION}/namespaces/kube-node-lease/leases/target`;
export const LEADER_LEASE = `${COORDINATION}/namespaces/kube-system/leases/kube-scheduler`;
export const OWN_LEASE = `${COORDINATION}/namespaces/farpulse/leases/farpulse-detector`;
export const EVENTS = '/api/v1/namespaces/default/events';
export const EVENT = `${EVENTS}/target-event`;
export const SECRET = '/api/v1/namespaces/default/secrets/target-secret';
export const CONFIG_MAP = '/api/v1/namespaces/default/configmaps/target-config';

const OLD = { lastHeartbeatTime: EARLIER, lastTransitionTime: EARLIER };

export function readyCondition(status: Condition['status'], more: object = {}): object {
  return { type: 'Ready', status, reason: 'KubeletReady', message: 'ready', ...OLD, ...more };
}

/** A Node with a bit of everything that a status holds. */
export async function createNode(
  plane: ControlPlane,
  name: string,
  ready: object | null = readyCondition('True'),
  annotations: Readonly<Record<string, string>> = {},
): Promise<string> {
  const pressure = { type: 'MemoryPressure', status: 'False', reason: 'Enough', message: 'enough', ...OLD };
  await plane.request('POST', '/api/v1/nodes', {
    metadata: { name, labels: { team: 'a', 'test/of': 'least-privilege' }, annotations },
    spec: { podCIDR: '10.1.0.0/24' },
    status: {
      capacity: { cpu: '4', memory: '8Gi', pods: '110' },
      allocatable: { cpu: '4', memory: '7Gi', pods: '110' },
      addresses: [{ type: 'InternalIP', address: '10.0.0.1' }],
      daemonEndpoints: { kubeletEndpoint: { Port: 10250 } },
      nodeInfo: { kubeletVersion: 'v1.37.2', osImage: 'test' },
      images: [{ names: ['registry.example/pause:1'], sizeBytes: 1 }],
      conditions: [pressure, ...(ready === null ? [] : [ready])],
    },
  });
  return `/api/v1/nodes/${name}`;
}

/** A pod bound to a node, with a Ready condition or without. */
export async function createPod(
  plane: ControlPlane,
  name: string,
  ready: 'True' | 'False' | null = 'True',
  namespace = 'default',
  nodeName = 'target',
): Promise<string> {
  const pods = `/api/v1/namespaces/${namespace}/pods`;
  await plane.request('POST', pods, {
    metadata: { name, labels: { team: 'a' } },
    spec: {
      nodeName,
      automountServiceAccountToken: false,
      containers: [{ name: 'main', image: 'pause' }],
    },
  });
  const conditions = [
    { type: 'ContainersReady', status: ready ?? 'False', lastTransitionTime: EARLIER },
    ...(ready === null
      ? []
      : [{ type: 'Ready', status: ready, reason: 'Was', message: 'was', lastTransitionTime: EARLIER }]),
  ];
  await plane.request(
    'PATCH',
    `${pods}/${name}/status`,
    { status: { phase: 'Running', conditions, podIP: '10.1.0.7', podIPs: [{ ip: '10.1.0.7' }] } },
    SMP,
  );
  return `${pods}/${name}`;
}

export async function createTargets(plane: ControlPlane): Promise<void> {
  await createNode(plane, 'target');
  await createNode(plane, 'target-false', readyCondition('False'));
  await createNode(plane, 'target-unknown', readyCondition('Unknown', { reason: 'FarpulseHostSilent' }));
  await createNode(plane, 'target-starting', null);
  await createNode(plane, 'target-ignored', readyCondition('True'), { 'farpulse/ignore': 'true' });
  await createPod(plane, 'target-pod');
  await createPod(plane, 'target-pod-false', 'False');
  await createPod(plane, 'target-pod-starting', null);
  const lease = { holderIdentity: 'target', renewTime: '2026-01-01T00:00:00.000000Z' };
  for (const path of [NODE_LEASE, LEADER_LEASE]) {
    await plane.request('POST', parent(path), { metadata: { name: nameOf(path) }, spec: lease });
  }
  await plane.request('POST', EVENTS, event({ name: nameOf(EVENT) }));
  await plane.request('POST', parent(SECRET), { metadata: { name: nameOf(SECRET) }, stringData: { a: 'b' } });
  await plane.request('POST', parent(CONFIG_MAP), {
    metadata: { name: nameOf(CONFIG_MAP) },
    data: { a: 'b' },
  });
}

/** As farpulse writes them. */
export function event(metadata: object, more: object = {}): object {
  return {
    metadata: { namespace: 'default', ...metadata },
    involvedObject: {
      apiVersion: 'v1',
      kind: 'Node',
      name: 'target',
      uid: 'b0000000-0000-0000-0000-000000000000',
    },
    type: 'Warning',
    reason: 'FarpulseHostSilent',
    message: 'no beat for 22 s',
    source: { component: 'farpulse' },
    reportingComponent: 'farpulse',
    reportingInstance: 'farpulse',
    count: 1,
    firstTimestamp: EARLIER,
    lastTimestamp: EARLIER,
    ...more,
  };
}

/** The collection of an object's path. */
export function parent(path: string): string {
  return path.slice(0, path.lastIndexOf('/'));
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** The one write to a Node, with whatever else is wanted in it. */
export function unknown(
  more: {
    readonly ready?: object;
    readonly status?: object;
    readonly conditions?: readonly object[];
    readonly metadata?: object;
  } = {},
): object {
  const ready = {
    type: 'Ready',
    status: 'Unknown',
    reason: 'FarpulseHostSilent',
    message: 'no beat for 22 s',
    lastTransitionTime: LATER,
    ...more.ready,
  };
  return {
    ...(more.metadata !== undefined && { metadata: more.metadata }),
    status: { ...more.status, conditions: [ready, ...(more.conditions ?? [])] },
  };
}

/** The one write to a pod, likewise. */
export function notReady(
  more: {
    readonly ready?: object;
    readonly status?: object;
    readonly conditions?: readonly object[];
    readonly metadata?: object;
  } = {},
): object {
  const ready = { type: 'Ready', status: 'False', lastTransitionTime: LATER, ...more.ready };
  return {
    ...(more.metadata !== undefined && { metadata: more.metadata }),
    status: { ...more.status, conditions: [ready, ...(more.conditions ?? [])] },
  };
}
