// The whole way in workerd: the route, the arbiter object, its inventory, and an API in place of `fetch`.
import { exports } from 'cloudflare:workers';
import { reset } from 'cloudflare:test';
import { afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { DoctorJson } from '../../worker/http/doctor.ts';
import { doctorApi, type DoctorApi } from '../support/doctor-api.ts';
import {
  addNode,
  arbiter,
  bindings,
  call,
  enrol,
  readyOf,
  startLab,
  warmUp,
  type Lab,
} from './support/lab.ts';

// SAFETY: the Worker under test; its types are made by `wrangler types`, which are not used here.
const worker = (exports as unknown as { readonly default: Fetcher }).default;

let lab: Lab;
let cluster: DoctorApi;

beforeAll(warmUp, 120_000);

beforeEach(async () => {
  await reset();
  lab = startLab();
  await enrol(lab, ['node-1', 'node-2']);
  await vi.waitFor(
    async () => {
      await arbiter().poke();
      expect((await arbiter().status()).nodes.map(({ phase }) => phase)).toEqual(['alive', 'alive']);
    },
    { timeout: 10_000, interval: 20 },
  );
  cluster = doctorApi(lab.api, () => Date.now());
  vi.spyOn(globalThis, 'fetch').mockImplementation(cluster.fetch);
});
afterEach(() => vi.restoreAllMocks());

async function examined(): Promise<ReadonlyMap<string, { state: string; found: string }>> {
  const response = await worker.fetch(
    new Request('https://farpulse.test/v1/clusters/lab/doctor', {
      method: 'POST',
      headers: { authorization: `Bearer ${String(bindings['ADMIN_TOKEN'])}` },
    }),
  );
  expect(response.status).toBe(200);
  const { rows } = DoctorJson.parse(await response.json());
  return new Map(rows.map((row) => [row.check, row]));
}

test('a cluster that is well has no row that fails, and no Node changes', async () => {
  const before = call(lab, 'GET', '/api/v1/nodes/node-1');
  const rows = await examined();
  expect([...rows.values()].filter(({ state }) => state === 'fail' || state === 'warn')).toEqual([]);
  expect(rows.get('dry-run-write')?.found).toMatch(/^Ready=Unknown on node-\d would be taken/);
  expect(call(lab, 'GET', '/api/v1/nodes/node-1')).toEqual(before);
  expect(readyOf(lab, 'node-2')?.status).toBe('True');
});

test('what the arbiter knows shows: a Node without a beacon', async () => {
  await addNode(lab, 'node-3');
  const annotations = { 'farpulse/beacon-key': null };
  call(lab, 'PATCH', '/api/v1/nodes/node-2', { metadata: { annotations } }, 'application/merge-patch+json');
  const listed = async (): Promise<void> => {
    vi.setSystemTime(Date.now() + 301_000);
    await arbiter().poke();
    expect((await arbiter().status()).nodes.find(({ name }) => name === 'node-2')?.phase).toBe('unenrolled');
  };
  vi.useFakeTimers({ toFake: ['Date'] });
  await vi.waitFor(listed, { timeout: 5_000, interval: 20 });
  vi.useRealTimers();
  expect((await examined()).get('beacons')).toMatchObject({
    state: 'warn',
    found: expect.stringContaining('node-2') as string,
  });
});

test('two examinations at once are one', async () => {
  const [first, second] = await Promise.all([examined(), examined()]);
  expect(first).toEqual(second);
  expect(cluster.requests.filter(({ url }) => url.pathname === '/version')).toHaveLength(1);
});

test('the API server that is down fails its rows, and judging goes on', async () => {
  vi.spyOn(globalThis, 'fetch').mockRejectedValue(new Error('Network connection lost.'));
  const rows = await examined();
  expect(rows.get('api')).toMatchObject({
    state: 'fail',
    found: expect.stringMatching(/^connection refused or lost/) as string,
  });
  expect((await arbiter().status()).nodes).toHaveLength(2);
});
