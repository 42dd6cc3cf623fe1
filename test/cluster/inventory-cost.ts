// What a cluster's inventory costs the Worker: bytes on the wire and the memory that one list needs, on a real API
// server with Nodes as they are in use. Prints the table of docs/design/cluster.md.
//
//   node test/cluster/inventory-cost.ts [nodes]
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createKubernetesCluster } from '../../worker/cluster/kubernetes.ts';
import { STRATEGIC_MERGE } from './api-client.ts';
import { startControlPlane } from './control-plane.ts';
import type { ControlPlane } from './plane.ts';

/** How the list is asked for. As the adapter does it, and the other ways. */
const WAYS = {
  'none, for comparison': (url: string): string => `${url}&labelSelector=none`,
  'as the adapter asks': (url: string): string => url,
  'resourceVersion=0, in one piece': (url: string): string =>
    url.includes('continue=') ? url : url.replace(/&?resourceVersion=\d*/, '') + '&resourceVersion=0',
  'in pages of 500': (url: string): string => url.replace(/&?resourceVersion=0/, ''),
} as const;
type Way = keyof typeof WAYS;

/** V8 heaps to try, MB. An isolate has 128 MB for this and everything else that its objects hold. */
const HEAPS_MB = [16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128];
/** A heap is enough when it was so every time. */
const RUNS = 3;

if (import.meta.main) {
  if (process.argv[2] === 'list') await listOnce();
  else await measure(Number(process.argv[2] ?? 5_000));
}

async function measure(nodes: number): Promise<void> {
  const plane = await startControlPlane({ kcm: false });
  try {
    await createNodes(plane, nodes);
    const rows: string[] = [];
    for (const way of Object.keys(WAYS) as Way[]) {
      const seen = await run(plane, way, 512);
      if (seen === undefined) throw new Error(`the list failed with 512 MB: ${way}`);
      const heapMb = await smallestHeap(plane, way);
      const mb = (bytes: number): string => (bytes / 1e6).toFixed(1);
      rows.push(
        `| ${way} | ${seen.answers} | ${mb(seen.bytes)} MB | ${mb(seen.largestBytes)} MB | ${heapMb} MB |`,
      );
    }
    const head = '| list of Nodes | answers | bytes in all | the largest | V8 heap it needs |';
    process.stdout.write([head, '| --- | --- | --- | --- | --- |', ...rows, ''].join('\n'));
  } finally {
    await plane.stop();
  }
}

interface Seen {
  readonly answers: number;
  readonly bytes: number;
  readonly largestBytes: number;
}

/** In a process of its own with that much heap; undefined when that was not enough. */
async function run(plane: ControlPlane, way: Way, heapMb: number): Promise<Seen | undefined> {
  const child = spawn(
    process.execPath,
    [`--max-old-space-size=${heapMb}`, '--max-semi-space-size=1', import.meta.filename, 'list', way],
    {
      stdio: ['ignore', 'pipe', 'ignore'],
      env: {
        ...process.env,
        NODE_EXTRA_CA_CERTS: plane.caFile,
        API_URL: plane.url,
        API_TOKEN: plane.adminToken,
      },
    },
  );
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  const [code] = (await once(child, 'close')) as [number | null];
  // SAFETY: written by listOnce below.
  return code === 0 ? (JSON.parse(output) as Seen) : undefined;
}

async function smallestHeap(plane: ControlPlane, way: Way): Promise<number> {
  for (const heapMb of HEAPS_MB) {
    let passed = 0;
    while (passed < RUNS && (await run(plane, way, heapMb)) !== undefined) passed += 1;
    if (passed === RUNS) return heapMb;
  }
  throw new Error(`more than ${HEAPS_MB.at(-1)} MB: ${way}`);
}

/** The child: one list by the production adapter. */
async function listOnce(): Promise<void> {
  const way = WAYS[process.argv[3] as Way];
  let answers = 0;
  let bytes = 0;
  let largestBytes = 0;
  const counting: typeof fetch = async (input, init) => {
    const url = input instanceof Request ? input.url : input.toString();
    const answer = await fetch(way(url), init);
    answers += 1;
    let size = 0;
    const counted = answer.body?.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          size += chunk.byteLength;
          controller.enqueue(chunk);
        },
        flush() {
          bytes += size;
          largestBytes = Math.max(largestBytes, size);
        },
      }),
    );
    return new Response(counted ?? null, answer);
  };
  const { API_URL: apiUrl = '', API_TOKEN: token = '' } = process.env;
  const cluster = createKubernetesCluster({
    apiUrl,
    token,
    fetch: counting,
    nodeSelector: '',
    timeoutMs: 60_000,
  });
  const listed = await cluster.listNodes();
  if (listed.kind !== 'ok') throw new Error(JSON.stringify(listed));
  process.stdout.write(JSON.stringify({ nodes: listed.value.length, answers, bytes, largestBytes }));
}

/** Nodes whose metadata is what a cloud's Nodes have: labels, annotations, and three owners of fields. */
async function createNodes(plane: ControlPlane, count: number): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      const name = `ip-10-0-${Math.floor(next / 250)}-${next % 250}.eu-west-1.compute.internal`;
      next += 1;
      await createNode(plane, name);
    }
  };
  await Promise.all(Array.from({ length: 16 }, worker));
}

async function createNode(plane: ControlPlane, name: string): Promise<void> {
  const path = `/api/v1/nodes/${name}`;
  await plane.request('POST', '/api/v1/nodes?fieldManager=kubelet', {
    metadata: {
      name,
      labels: {
        'beta.kubernetes.io/arch': 'amd64',
        'beta.kubernetes.io/instance-type': 'm7i.2xlarge',
        'beta.kubernetes.io/os': 'linux',
        'failure-domain.beta.kubernetes.io/region': 'eu-west-1',
        'failure-domain.beta.kubernetes.io/zone': 'eu-west-1a',
        'kubernetes.io/arch': 'amd64',
        'kubernetes.io/hostname': name,
        'kubernetes.io/os': 'linux',
        'node.kubernetes.io/instance-type': 'm7i.2xlarge',
        'topology.kubernetes.io/region': 'eu-west-1',
        'topology.kubernetes.io/zone': 'eu-west-1a',
      },
      annotations: {
        'csi.volume.kubernetes.io/nodeid': '{"ebs.csi.aws.com":"i-0123456789abcdef0"}',
        'node.alpha.kubernetes.io/ttl': '0',
        'volumes.kubernetes.io/controller-managed-attach-detach': 'true',
      },
    },
    spec: { providerID: `aws:///eu-west-1a/i-${name}` },
  });
  const resources = { cpu: '8', memory: '32Gi', pods: '58', 'ephemeral-storage': '80Gi' };
  const now = new Date().toISOString();
  const conditions = ['MemoryPressure', 'DiskPressure', 'PIDPressure', 'Ready'].map((type) => ({
    type,
    status: type === 'Ready' ? 'True' : 'False',
    reason: 'Test',
    message: 'as a kubelet says it',
    lastHeartbeatTime: now,
    lastTransitionTime: now,
  }));
  const status = { capacity: resources, allocatable: resources, conditions };
  await plane.request('PATCH', `${path}/status?fieldManager=kubelet`, { status }, STRATEGIC_MERGE);
  const annotations = { 'farpulse/beacon-key': 'A'.repeat(43) };
  const merge = { 'content-type': 'application/merge-patch+json' };
  await plane.request('PATCH', `${path}?fieldManager=farpulse-beacon`, { metadata: { annotations } }, merge);
}
