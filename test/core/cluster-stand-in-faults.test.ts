// Making the stand-in fail on purpose, as the adapter sees it.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createKubernetesCluster } from '../../worker/cluster/kubernetes.ts';
import type { ClusterPort, ClusterResult, NodeCopy } from '../../worker/core/cluster-port.ts';
import {
  ADMIN,
  type ApiStandIn,
  KubeletModel,
  ManualClock,
  startApiStandIn,
} from '../support/api-stand-in/index.ts';

let clock: ManualClock;
let api: ApiStandIn;
let kubelet: KubeletModel;
let cluster: ClusterPort;

beforeEach(async () => {
  clock = new ManualClock(Date.parse('2026-12-01T00:00:00Z'));
  api = await startApiStandIn({ tokens: { root: ADMIN }, clock });
  kubelet = new KubeletModel({ api: api.api, clock, node: 'node-1' });
  await kubelet.start();
  cluster = createKubernetesCluster({ apiUrl: api.url, token: 'root', fetch, nodeSelector: '' });
});

afterEach(async () => {
  await kubelet.kill();
  await api.stop();
});

function patch({
  uid,
  resourceVersion,
}: NodeCopy): Promise<ClusterResult<{ readonly resourceVersion: string }>> {
  const lastTransitionTime = '2026-12-01T00:00:00Z';
  return cluster.patchReadyUnknown({
    node: 'node-1',
    uid,
    resourceVersion,
    reason: 'FarpulseHostSilent',
    message: 'silent',
    lastTransitionTime,
  });
}

async function copy(): Promise<NodeCopy> {
  const node = await cluster.readNode('node-1');
  if (node.kind !== 'ok') throw new Error(JSON.stringify(node));
  return node.value;
}

test('a fault is used up by the request that meets it', async () => {
  api.faults.next({ answer: { status: 429, headers: { 'retry-after': '3' } } });
  expect(await cluster.readNode('node-1')).toMatchObject({ kind: 'busy', retryAfterMs: 3_000 });
  expect(await cluster.readNode('node-1')).toMatchObject({ kind: 'ok' });
});

test('a fault waits for the requests that it concerns', async () => {
  api.faults.next({ answer: { status: 526 } }, 2, ({ method }) => method === 'PATCH');
  const node = await copy();
  expect(await patch(node)).toMatchObject({ kind: 'unreachable', why: expect.stringMatching(/^TLS/) });
  expect(await patch(node)).toMatchObject({ kind: 'unreachable' });
  expect(await patch(node)).toMatchObject({ kind: 'ok' });
});

test('a connection cut before the write leaves nothing written', async () => {
  const node = await copy();
  api.faults.next({ reset: 'before' });
  expect(await patch(node)).toMatchObject({
    kind: 'unreachable',
    why: expect.stringMatching(/^connection lost/),
  });
  expect(await copy()).toEqual(node);
});

test('a connection cut after the write leaves it written, and the same write again is a conflict', async () => {
  const node = await copy();
  api.faults.next({ reset: 'after' });
  expect(await patch(node)).toMatchObject({ kind: 'unreachable' });
  expect((await copy()).ready).toMatchObject({ status: 'Unknown', reason: 'FarpulseHostSilent' });
  expect(await patch(node)).toMatchObject({ kind: 'conflict' });
});

test('a delayed answer waits for the clock', async () => {
  const met = Promise.withResolvers<void>();
  api.faults.next({ delayMs: 2_000 }, 1, () => {
    // The delay is armed in the same turn, before anything that is awaited here goes on.
    setImmediate(met.resolve);
    return true;
  });
  const reading = cluster.readNode('node-1');
  await met.promise;
  expect(api.requests).toEqual([]);
  clock.advance(2_000);
  expect(await reading).toMatchObject({ kind: 'ok' });
});

test('a list that was compacted between two pages has expired', async () => {
  const second = new KubeletModel({ api: api.api, clock, node: 'node-2' });
  await second.start();
  await second.kill();
  const page = async (position: string): Promise<Response> =>
    fetch(`${api.url}/api/v1/nodes?limit=1&continue=${position}`, {
      headers: { authorization: 'Bearer root' },
    });
  const { metadata } = (await (await page('')).json()) as { metadata: { continue: string } };
  api.api.lists.compact();
  const expired = await page(metadata.continue);
  expect([expired.status, await expired.json()]).toMatchObject([410, { reason: 'Expired' }]);
});

test('every request is on record, with who asked and what came of it', async () => {
  const node = await copy();
  await patch(node);
  await patch(node);
  expect(api.requests).toEqual([
    { method: 'GET', path: '/api/v1/nodes/node-1', user: ADMIN, status: 200 },
    { method: 'PATCH', path: '/api/v1/nodes/node-1/status', user: ADMIN, status: 200 },
    { method: 'PATCH', path: '/api/v1/nodes/node-1/status', user: ADMIN, status: 409 },
  ]);
});

test('a stopped stand-in refuses connections, and stopping it again is no error', async () => {
  await api.stop();
  await api.stop();
  expect(await cluster.readNode('node-1')).toMatchObject({
    kind: 'unreachable',
    why: expect.stringMatching(/^connection refused/),
  });
});
