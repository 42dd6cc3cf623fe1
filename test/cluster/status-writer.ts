// Whoever writes statuses in tests, as admin: an external detector that is not farpulse, a kubelet that is not there.
import { STRATEGIC_MERGE, type ApiClient } from './api-client.ts';
import type { Condition, List, Node, Pod } from './objects.ts';
import { createPod } from './workloads.ts';

/** Changes fields of a Node's Ready condition; those left out stay. */
export function writeReady(client: ApiClient, node: string, fields: Partial<Condition>): Promise<Node> {
  return writeNodeCondition(client, node, { type: 'Ready', ...fields });
}

export function writeNodeCondition(
  client: ApiClient,
  node: string,
  condition: Partial<Condition> & Pick<Condition, 'type'>,
): Promise<Node> {
  const body = { status: { conditions: [condition] } };
  return client.request<Node>('PATCH', `/api/v1/nodes/${node}/status`, body, STRATEGIC_MERGE);
}

/** As a detector by the KEP's contract does it. */
export function writeUnknown(client: ApiClient, node: string, more: Partial<Condition> = {}): Promise<Node> {
  return writeReady(client, node, {
    status: 'Unknown',
    reason: 'TestDetector',
    message: 'no sign of life',
    lastTransitionTime: nowInSeconds(),
    ...more,
  });
}

/** A pod that is Running and Ready on a node whose kubelet does not care. */
export async function createReadyPod(client: ApiClient, name: string, node: string): Promise<Pod> {
  await createPod(client, name, node);
  const lastTransitionTime = nowInSeconds();
  const conditions = ['PodScheduled', 'Initialized', 'ContainersReady', 'Ready'].map((type) => ({
    type,
    status: 'True',
    lastTransitionTime,
  }));
  const body = { status: { phase: 'Running', conditions } };
  return client.request<Pod>(
    'PATCH',
    `/api/v1/namespaces/default/pods/${name}/status`,
    body,
    STRATEGIC_MERGE,
  );
}

interface Event {
  readonly count?: number;
}

/** How often a NodeNotReady event was recorded for this very Node. */
export async function nodeNotReadyEvents(client: ApiClient, node: Node): Promise<number> {
  const { name, uid } = node.metadata;
  const selector = `involvedObject.kind=Node,involvedObject.name=${name},involvedObject.uid=${uid},reason=NodeNotReady`;
  const path = `/api/v1/namespaces/default/events?fieldSelector=${encodeURIComponent(selector)}`;
  const { items } = await client.request<List<Event>>('GET', path);
  return items.reduce((sum, { count = 1 }) => sum + count, 0);
}

/** As the API keeps times. */
export function nowInSeconds(): string {
  return new Date().toISOString().replace(/\.\d+/, '');
}
