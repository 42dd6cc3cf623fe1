import { runDurableObjectAlarm } from 'cloudflare:test';
import { afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { reset } from 'cloudflare:test';
import { addNode, arbiter, observer, readyOf, REGIONS, startLab, warmUp, type Lab } from './support/lab.ts';
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

async function beatAll(beacons: readonly TestBeacon[]): Promise<void> {
  for (const beacon of beacons) {
    const jws = await beacon.beat();
    for (const region of REGIONS) await observer(region).beat(jws);
  }
}

/** Lets seconds pass one by one: alarms ring, and the given beacons beat every ten seconds. */
async function pass(seconds: number, beating: readonly TestBeacon[]): Promise<void> {
  for (let second = 1; second <= seconds; second += 1) {
    vi.setSystemTime(Date.now() + 1_000);
    if (second % 10 === 0) await beatAll(beating);
    for (const region of REGIONS) await runDurableObjectAlarm(observer(region));
    await runDurableObjectAlarm(arbiter());
  }
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

/** Enrols beacons: strangers first, then the arbiter has read their Nodes. */
async function enrol(beacons: readonly TestBeacon[]): Promise<void> {
  await arbiter().poke();
  await vi.waitFor(
    async () => {
      const answers = [];
      for (const beacon of beacons) {
        const jws = await beacon.beat();
        for (const region of REGIONS) answers.push((await observer(region).beat(jws)).kind);
      }
      expect(new Set(answers)).toEqual(new Set(['recorded']));
    },
    { timeout: 5_000, interval: 20 },
  );
}

test('a beacon that its Node names is recorded without being configured anywhere', async () => {
  const beacon = await addNode(lab, 'node-1');
  await enrol([beacon]);
  await settle(async () => {
    const status = await arbiter().status();
    expect(status.nodes.map((node) => [node.name, node.phase])).toEqual([['node-1', 'alive']]);
  });
});

test('a silent node is written Unknown, exactly once, and the others are left alone', async () => {
  const names = ['node-1', 'node-2', 'node-3', 'node-4'];
  const beacons = await Promise.all(names.map((name) => addNode(lab, name)));
  await enrol(beacons);
  const before = readyOf(lab, 'node-4');

  await pass(30, beacons.slice(0, 3));
  await settle(() => expect(readyOf(lab, 'node-4')?.status).toBe('Unknown'));
  const after = readyOf(lab, 'node-4');
  expect(after?.reason).toBe('FarpulseHostSilent');
  expect(after?.lastHeartbeatTime).toBe(before?.lastHeartbeatTime);
  for (const name of names.slice(0, 3)) expect(readyOf(lab, name)?.status).toBe('True');
  const writes = lab.requests.filter(({ method, path }) => method === 'PATCH' && path.endsWith('/status'));
  expect(writes.map(({ path }) => path)).toEqual(['/api/v1/nodes/node-4/status']);
});
