// Pods and Services for tests. Pods are bound when they are made: there is no scheduler.
import { ApiError, type ApiClient } from './api-client.ts';
import type { EndpointSlice, List, Pod } from './objects.ts';

export interface PodOptions {
  readonly labels?: Readonly<Record<string, string>>;
  readonly namespace?: string;
}

/** A pod on that node: a hollow kubelet has it Running and Ready within a second. */
export function createPod(
  client: ApiClient,
  name: string,
  nodeName: string,
  options: PodOptions = {},
): Promise<Pod> {
  const { labels = {}, namespace = 'default' } = options;
  return client.request<Pod>('POST', `/api/v1/namespaces/${namespace}/pods`, {
    metadata: { name, labels },
    spec: {
      nodeName,
      // A hollow kubelet mounts nothing, and the token's volume would wait for a ConfigMap.
      automountServiceAccountToken: false,
      containers: [{ name: 'main', image: 'pause' }],
    },
  });
}

/** A Service over the pods with these labels: its EndpointSlices are what traffic would follow. */
export async function createService(
  client: ApiClient,
  name: string,
  selector: Readonly<Record<string, string>>,
  namespace = 'default',
): Promise<void> {
  await client.request('POST', `/api/v1/namespaces/${namespace}/services`, {
    metadata: { name },
    spec: { selector, ports: [{ port: 80 }] },
  });
}

/** Names of the pods that the Service's EndpointSlices call ready, sorted. */
export async function readyEndpoints(
  client: ApiClient,
  service: string,
  namespace = 'default',
): Promise<string[]> {
  const selector = encodeURIComponent(`kubernetes.io/service-name=${service}`);
  const slices = await client.request<List<EndpointSlice>>(
    'GET',
    `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices?labelSelector=${selector}`,
  );
  return readyPodsOf(slices.items);
}

export function readyPodsOf(slices: Iterable<EndpointSlice>): string[] {
  return [...slices]
    .flatMap(({ endpoints = [] }) => endpoints)
    .filter(({ conditions }) => conditions.ready === true)
    .map(({ targetRef }) => targetRef?.name ?? '')
    .toSorted();
}

/** Pods cannot be made before their namespace has its default ServiceAccount, the work of a controller. */
export async function hasDefaultServiceAccount(client: ApiClient, namespace: string): Promise<boolean> {
  const answer = await client.respond('GET', `/api/v1/namespaces/${namespace}/serviceaccounts/default`);
  return answer.status === 200;
}

/** In place of the controller, where none runs. */
export async function createDefaultServiceAccount(client: ApiClient, namespace: string): Promise<void> {
  try {
    await client.request('POST', `/api/v1/namespaces/${namespace}/serviceaccounts`, {
      metadata: { name: 'default' },
    });
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 409)) throw error;
  }
}
