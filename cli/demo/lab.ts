import { mkdtemp, writeFile } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  ADMIN,
  conditionOf,
  KubeletModel,
  kubeletUser,
  NODES,
  PODS,
  REAL_CLOCK,
  startApiStandIn,
  type ApiStandIn,
} from '../../test/support/api-stand-in/index.ts';
import { BeaconProcess } from '../local/beacon-process.ts';
import { startLocalWorker, type LocalWorker } from '../local/local-worker.ts';
import { removeAtEnd, removeNow } from '../local/processes.ts';
import { StatusClient } from '../local/status-client.ts';

export const DEPLOYMENT = 'demo';
export const CLUSTER = 'demo';

/** One node of the demo's cluster: a modelled kubelet and a real beacon. */
export interface DemoNode {
  readonly name: string;
  readonly kubelet: KubeletModel;
  readonly beacon: BeaconProcess;
}

/** Everything on this machine: an embedded Kubernetes API, the Worker in workerd, nodes with real beacons. */
export interface DemoLab {
  readonly api: ApiStandIn;
  readonly worker: LocalWorker;
  readonly status: StatusClient;
  readonly nodes: readonly DemoNode[];
  /** The Node's Ready condition in the API: its status. */
  ready(node: string): string | undefined;
  /** How many of the node's pods are Ready in the API. */
  readyPods(node: string): number;
  stop(): Promise<void>;
}

const PODS_PER_NODE = 2;

function podOf(node: string, index: number): Record<string, unknown> {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: `web-${node}-${index}`, namespace: 'default', labels: { app: 'web' } },
    spec: { nodeName: node, containers: [{ name: 'web', image: 'web' }] },
    status: {},
  };
}

export async function startLab(options: {
  readonly nodes: number;
  readonly port?: number;
}): Promise<DemoLab> {
  const folder = await mkdtemp(join(tmpdir(), 'farpulse-demo-'));
  removeAtEnd(folder);
  const names = Array.from({ length: options.nodes }, (_, index) => `node-${index + 1}`);
  const adminToken = randomBytes(24).toString('base64url');
  const nodeTokens = new Map(names.map((name) => [name, randomBytes(24).toString('base64url')]));
  const tokens = {
    [adminToken]: ADMIN,
    ...Object.fromEntries([...nodeTokens].map(([name, token]) => [token, kubeletUser(name)])),
  };
  const api = await startApiStandIn({ tokens });
  const worker = await startLocalWorker({
    storageFolder: join(folder, 'storage'),
    ...(options.port !== undefined && { port: options.port }),
    vars: {
      DEPLOYMENT_ID: DEPLOYMENT,
      // No Lease of our own: the embedded API has no manifests of ours.
      CLUSTERS: { [CLUSTER]: { apiUrl: api.url, mode: 'compat', readers: 'open', lease: '' } },
      [`KUBE_TOKEN_${CLUSTER.toUpperCase()}`]: adminToken,
    },
  });
  const nodes = await Promise.all(
    names.map(async (name): Promise<DemoNode> => {
      const kubelet = new KubeletModel({ api: api.api, clock: REAL_CLOCK, node: name });
      await kubelet.start();
      for (let index = 1; index <= PODS_PER_NODE; index += 1)
        create(api, '/api/v1/namespaces/default/pods', podOf(name, index));
      const kubeconfig = join(folder, `${name}.kubeconfig`);
      await writeFile(kubeconfig, kubeconfigOf(api.url, nodeTokens.get(name) ?? ''), { mode: 0o600 });
      const beacon = new BeaconProcess({
        endpoint: worker.url,
        deployment: DEPLOYMENT,
        cluster: CLUSTER,
        node: name,
        kubeconfig,
        kubeletHealthz: kubelet.healthzUrl,
        intervalSeconds: 10,
        folder,
      });
      await beacon.start();
      return { name, kubelet, beacon };
    }),
  );
  const readyOf = (resource: typeof NODES, namespace: string, name: string): string | undefined => {
    const object = api.store.get(resource, namespace, name);
    return object === undefined ? undefined : conditionOf(object, 'Ready')?.status;
  };
  return {
    api,
    worker,
    nodes,
    status: new StatusClient(worker.url, CLUSTER),
    ready: (node) => readyOf(NODES, '', node),
    readyPods: (node) =>
      Array.from({ length: PODS_PER_NODE }, (_, index) =>
        readyOf(PODS, 'default', `web-${node}-${index + 1}`),
      ).filter((status) => status === 'True').length,
    stop: async () => {
      await Promise.all(nodes.map(({ beacon }) => beacon.kill()));
      await Promise.all(nodes.map(({ kubelet }) => kubelet.kill()));
      await worker.stop();
      await api.stop();
      await removeNow(folder);
    },
  };
}

function create(api: ApiStandIn, path: string, body: unknown): void {
  const answer = api.api.handle({
    method: 'POST',
    path,
    query: new URLSearchParams(),
    contentType: 'application/json',
    accept: '',
    body,
    user: ADMIN,
    manager: 'demo',
  });
  if (answer.status !== 201) throw new Error(`POST ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
}

/** JSON, which every reader of a kubeconfig's YAML takes. */
function kubeconfigOf(server: string, token: string): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: CLUSTER, cluster: { server } }],
    users: [{ name: 'kubelet', user: { token } }],
    contexts: [{ name: CLUSTER, context: { cluster: CLUSTER, user: 'kubelet' } }],
    'current-context': CLUSTER,
  });
}
