import { evictDurableObject, reset } from 'cloudflare:test';
import { afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { arbiter, beatAll, enrol, passSeconds, readyOf, startLab, warmUp, type Lab } from './support/lab.ts';
import type { TestBeacon } from '../support/test-beacon.ts';

/*
 * The whole way through the real objects in workerd: beats, registry, silence, verdict, write, return. Time is faked
 * and moved by hand; alarms run when the test says so.
 */

/** Far ahead of the real clock, by which the alarm scheduler runs: no alarm rings unless the test says so. */
const START_MS = Date.UTC(2040, 0, 1);
let lab: Lab;

beforeAll(warmUp, 120_000);

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: START_MS });
  await reset();
  lab = startLab();
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** For `passSeconds`. */
function beatEveryTen(beacons: readonly TestBeacon[]): (second: number) => Promise<void> {
  return async (second) => {
    if (second % 10 === 0) await beatAll(beacons);
  };
}

async function settle(check: () => Promise<void> | void): Promise<void> {
  await vi.waitFor(
    async () => {
      await arbiter().poke();
      await check();
    },
    { timeout: 5_000, interval: 20 },
  );
}

test('a beacon that its Node names is recorded without being configured anywhere', async () => {
  await enrol(lab, ['node-1']);
  await passSeconds(5);
  await settle(async () => {
    const status = await arbiter().status();
    expect(status.nodes.map((node) => [node.name, node.phase])).toEqual([['node-1', 'alive']]);
  });
});

test('a silent node is written Unknown, exactly once, and the others are left alone', async () => {
  const names = ['node-1', 'node-2', 'node-3', 'node-4'];
  const beacons = await enrol(lab, names);
  const before = readyOf(lab, 'node-4');

  await passSeconds(30, beatEveryTen(beacons.slice(0, 3)));
  await settle(() => expect(readyOf(lab, 'node-4')?.status).toBe('Unknown'));
  const after = readyOf(lab, 'node-4');
  expect(after?.reason).toBe('FarpulseHostSilent');
  expect(after?.lastHeartbeatTime).toBe(before?.lastHeartbeatTime);
  for (const name of names.slice(0, 3)) expect(readyOf(lab, name)?.status).toBe('True');
  const writes = lab.requests.filter(({ method, path }) => method === 'PATCH' && path.endsWith('/status'));
  expect(writes.map(({ path }) => path)).toEqual(['/api/v1/nodes/node-4/status']);
});

test('what returns is left alone, and its episode tells what happened', async () => {
  const beacons = await enrol(lab, ['node-1', 'node-2', 'node-3', 'node-4']);
  await passSeconds(30, beatEveryTen(beacons.slice(0, 3)));
  await settle(() => expect(readyOf(lab, 'node-4')?.status).toBe('Unknown'));
  const writes = (): number => lab.requests.filter(({ method }) => method === 'PATCH').length;
  const before = writes();
  await passSeconds(20, beatEveryTen(beacons));
  await settle(async () => {
    const node = (await arbiter().status()).nodes.find(({ name }) => name === 'node-4');
    expect(node?.phase).toBe('alive');
    expect(node?.episode?.write?.outcome).toBe('written');
    expect(node?.episode?.returnedAtMs).toBeGreaterThan(node?.episode?.verdictAtMs ?? 0);
  });
  expect(writes()).toBe(before);
});

test('when everybody is silent, nothing is written and the cluster is held', async () => {
  await enrol(lab, ['node-1', 'node-2', 'node-3', 'node-4']);
  await passSeconds(60);
  await settle(async () => expect((await arbiter().status()).state).toBe('hold'));
  expect(lab.requests.filter(({ method }) => method === 'PATCH')).toEqual([]);
});

test('a conflict at the write is read and judged again, and then written', async () => {
  const beacons = await enrol(lab, ['node-1', 'node-2', 'node-3', 'node-4']);
  lab.failNext.push({ prefix: 'PATCH /api/v1/nodes/node-4/status', status: 409 });
  await passSeconds(30, beatEveryTen(beacons.slice(0, 3)));
  await settle(() => expect(readyOf(lab, 'node-4')?.status).toBe('Unknown'));
  const patches = lab.requests.filter(({ method, path }) => method === 'PATCH' && path.includes('/nodes/'));
  expect(patches.map(({ status }) => status)).toEqual([409, 200]);
});

test('an arbiter that is evicted between its verdicts goes on where it was', async () => {
  const beacons = await enrol(lab, ['node-1', 'node-2', 'node-3', 'node-4']);
  await passSeconds(30, async (second) => {
    await beatEveryTen(beacons.slice(0, 3))(second);
    if (second % 4 === 0) await evictDurableObject(arbiter());
  });
  await settle(() => expect(readyOf(lab, 'node-4')?.status).toBe('Unknown'));
  await evictDurableObject(arbiter());
  await passSeconds(20, beatEveryTen(beacons.slice(0, 3)));
  const patches = lab.requests.filter(({ method, path }) => method === 'PATCH' && path.includes('/nodes/'));
  expect(patches).toHaveLength(1);
});
