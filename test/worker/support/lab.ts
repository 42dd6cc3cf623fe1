import { env } from 'cloudflare:workers';
import { runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { expect, vi } from 'vitest';
import { formatKeyAnnotation, KEY_ANNOTATION } from '../../../protocol/keys.ts';
import type { Env } from '../../../worker/env.ts';
import { arbiterStub, observerStub } from '../../../worker/objects/names.ts';
import { Api } from '../../support/api-stand-in/api.ts';
import { REAL_CLOCK } from '../../support/api-stand-in/clock.ts';
import { TestBeacon } from '../../support/test-beacon.ts';

/** The bindings of `test/worker/wrangler.toml`. */
export const bindings = env as unknown as Env;

export const REGIONS = ['weur', 'enam', 'apac'] as const;

export function observer(region: (typeof REGIONS)[number]) {
  return observerStub(bindings, { cluster: 'lab', region, shard: 0 });
}

export function arbiter() {
  return arbiterStub(bindings, 'lab');
}

/** The stand-in API in place of `fetch`; what was asked of it is kept. */
export interface Lab {
  readonly api: Api;
  readonly requests: { method: string; path: string; status: number }[];
  /** Statuses for the next requests whose `METHOD path` begins so, instead of the stand-in's own answer. */
  readonly failNext: { prefix: string; status: number }[];
}

/** Puts a fresh API behind `https://kube.test`, in this isolate, which is also the objects'. */
export function startLab(): Lab {
  const api = new Api(REAL_CLOCK);
  const lab: Lab = { api, requests: [], failNext: [] };
  vi.spyOn(globalThis, 'fetch').mockImplementation(async (input, init) => {
    const request = new Request(input, init);
    const url = new URL(request.url);
    if (url.hostname !== 'kube.test') throw new TypeError(`no network in tests: ${url.hostname}`);
    const text = await request.text();
    const index = lab.failNext.findIndex(({ prefix }) =>
      `${request.method} ${url.pathname}`.startsWith(prefix),
    );
    const failure = index < 0 ? undefined : lab.failNext.splice(index, 1)[0];
    const answer =
      failure === undefined
        ? api.handle({
            method: request.method,
            path: url.pathname,
            query: url.searchParams,
            contentType: request.headers.get('content-type')?.split(';')[0] ?? 'application/json',
            accept: request.headers.get('accept') ?? '',
            body: text === '' ? undefined : JSON.parse(text),
            user: 'admin',
            manager: 'farpulse',
          })
        : { status: failure.status, body: statusBody(failure.status, url.pathname) };
    lab.requests.push({ method: request.method, path: url.pathname, status: answer.status });
    return Response.json(answer.body ?? {}, { status: answer.status });
  });
  return lab;
}

/** Failures carry a Status, as the API server's do: one without is taken for somebody else's answer. */
function statusBody(code: number, path: string): unknown {
  const reason = code === 409 ? 'Conflict' : code === 404 ? 'NotFound' : 'InternalError';
  const details = { name: path.split('/').at(-1), kind: 'nodes' };
  return {
    kind: 'Status',
    apiVersion: 'v1',
    status: 'Failure',
    code,
    reason,
    message: 'asked for by the test',
    details,
  };
}

/** A Ready Node in the API, with the key of a beacon of its own. */
export async function addNode(lab: Lab, name: string): Promise<TestBeacon> {
  const node = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels: { 'topology.kubernetes.io/zone': 'zone-a' } },
    status: {},
  };
  const created = call(lab, 'POST', '/api/v1/nodes', node) as { metadata: { uid: string } };
  const beacon = await TestBeacon.create(name, { uid: created.metadata.uid });
  const annotations = { [KEY_ANNOTATION]: formatKeyAnnotation([beacon.key]) };
  call(lab, 'PATCH', `/api/v1/nodes/${name}`, { metadata: { annotations } }, 'application/merge-patch+json');
  const stamp = new Date(Date.now()).toISOString().replace(/\.\d+Z/, 'Z');
  const ready = {
    type: 'Ready',
    status: 'True',
    reason: 'KubeletReady',
    message: '',
    lastTransitionTime: stamp,
    lastHeartbeatTime: stamp,
  };
  call(lab, 'PATCH', `/api/v1/nodes/${name}/status`, { status: { conditions: [ready] } });
  return beacon;
}

export function call(
  lab: Lab,
  method: string,
  path: string,
  body?: unknown,
  contentType = 'application/strategic-merge-patch+json',
): unknown {
  const answer = lab.api.handle({
    method,
    path,
    query: new URLSearchParams(),
    contentType: method === 'POST' ? 'application/json' : contentType,
    accept: '',
    body,
    user: 'admin',
    manager: 'kubelet',
  });
  if (answer.status >= 300)
    throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
}

export function readyOf(
  lab: Lab,
  name: string,
): { status: string; reason: string; lastHeartbeatTime: string } | undefined {
  const node = call(lab, 'GET', `/api/v1/nodes/${name}`) as {
    status: { conditions?: { type: string; status: string; reason: string; lastHeartbeatTime: string }[] };
  };
  return node.status.conditions?.find((condition) => condition.type === 'Ready');
}

/** Nodes with beacons that every observer knows. */
export async function enrol(lab: Lab, names: readonly string[]): Promise<readonly TestBeacon[]> {
  const beacons = await Promise.all(names.map((name) => addNode(lab, name)));
  await arbiter().poke();
  await vi.waitFor(
    async () => {
      for (const beacon of beacons) {
        const jws = await beacon.beat();
        for (const region of REGIONS) expect((await observer(region).beat(jws)).kind).toBe('recorded');
      }
    },
    { timeout: 10_000, interval: 20 },
  );
  return beacons;
}

/**
 * Lets seconds of the faked time pass one by one; every alarm rings when it is due.
 *
 * @param each done at the beginning of every second, counted from 1
 */
export async function passSeconds(
  seconds: number,
  each: (second: number) => Promise<void> = async () => {},
): Promise<void> {
  for (let second = 1; second <= seconds; second += 1) {
    vi.setSystemTime(Date.now() + 1_000);
    await each(second);
    for (const stub of [...REGIONS.map((region) => observer(region)), arbiter()]) {
      const dueAtMs = await runInDurableObject(stub, (_instance, state) => state.storage.getAlarm());
      if (dueAtMs !== null && dueAtMs <= Date.now()) await runDurableObjectAlarm(stub);
    }
  }
}

/** One beat of each, to every observer. */
export async function beatAll(beacons: readonly TestBeacon[]): Promise<void> {
  for (const beacon of beacons) {
    const jws = await beacon.beat();
    for (const region of REGIONS) await observer(region).beat(jws);
  }
}

/**
 * Loads the Kubernetes client once: unbundled it is thousands of modules. In production it is one bundle, and the
 * import is lazy all the same.
 */
export async function warmUp(): Promise<void> {
  await import('../../../worker/cluster/kubernetes-client.ts');
}
