import { evictDurableObject, reset, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { TestBeacon } from '../support/test-beacon.ts';
import { afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { bindings, enrol, observer, passSeconds, startLab, warmUp, type Lab } from './support/lab.ts';
import { pokeAll } from '../../worker/scheduled.ts';

/* What an observer object stores, survives and arms. Time is faked; alarms ring when a test says so. */

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

function armedAtMs(region: 'weur'): Promise<number | null> {
  return runInDurableObject(observer(region), (_instance, state) => state.storage.getAlarm());
}

/** When the stored snapshot was taken: it changes with every row that is written. */
function snapshotAtMs(): Promise<number> {
  return runInDurableObject(observer('weur'), (_instance, state) => {
    const { json } = state.storage.sql.exec<{ json: string }>('SELECT json FROM snapshot').one();
    return (JSON.parse(json) as { atMs: number }).atMs;
  });
}

/** Lets beats come one a second, by turns, and counts the rows they cost. */
async function rowsWhileBeating(
  seconds: number,
  beacons: readonly (TestBeacon | undefined)[],
): Promise<number> {
  const snapshots = new Set([await snapshotAtMs()]);
  await passSeconds(seconds, async (second) => {
    const beacon = beacons[second % beacons.length];
    if (beacon !== undefined) await observer('weur').beat(await beacon.beat());
    snapshots.add(await snapshotAtMs());
  });
  return snapshots.size - 1;
}

test('the beats of many nodes write no row but a snapshot a minute', async () => {
  const beacons = await enrol(
    lab,
    Array.from({ length: 10 }, (_, index) => `node-${index + 1}`),
  );
  await rowsWhileBeating(20, beacons);
  expect(await rowsWhileBeating(120, beacons)).toBeLessThanOrEqual(2);
});

test('a lone node costs one row a beat, because the object may sleep after each', async () => {
  const [beacon] = await enrol(lab, ['node-1']);
  // One beat in ten seconds.
  const turns = [beacon, ...Array.from({ length: 9 }, () => undefined)];
  await rowsWhileBeating(20, turns);
  expect(await rowsWhileBeating(60, turns)).toBeLessThanOrEqual(6);
});

test('sleep is not deafness: woken on time, it knows every beat and goes on listening', async () => {
  const [beacon] = await enrol(lab, ['node-1']);
  await rowsWhileBeating(21, [beacon, ...Array.from({ length: 9 }, () => undefined)]);
  const before = await observer('weur').ask([]);
  await evictDurableObject(observer('weur'));
  await passSeconds(9);
  const after = await observer('weur').ask([]);
  expect(after.listeningForMs).toBe(before.listeningForMs + 9_000);
  expect(after.nodes[0]?.heardAgoMs).toBe((before.nodes[0]?.heardAgoMs ?? 0) + 9_000);
});

test('a crash between beats is deafness: it listens anew before it calls anybody silent', async () => {
  const beacons = await enrol(lab, ['node-1', 'node-2', 'node-3']);
  for (const beacon of beacons) {
    vi.setSystemTime(Date.now() + 3_000);
    await observer('weur').beat(await beacon.beat());
  }
  await evictDurableObject(observer('weur'));
  vi.setSystemTime(Date.now() + 30_000);
  const woken = await observer('weur').ask([]);
  expect(woken.listeningForMs).toBe(0);
  expect(woken.nodes.map(({ sight }) => sight)).toEqual(['listening', 'listening', 'listening']);
});

test('an evicted observer still verifies: the keys are in its snapshot', async () => {
  const [beacon] = await enrol(lab, ['node-1']);
  await evictDurableObject(observer('weur'));
  if (beacon === undefined) throw new Error('no beacon');
  expect((await observer('weur').beat(await beacon.beat())).kind).toBe('recorded');
});

test('an alarm that is stuck in the past is armed again by the next beat and by cron', async () => {
  const [beacon] = await enrol(lab, ['node-1']);
  if (beacon === undefined) throw new Error('no beacon');
  const lose = (): Promise<void> =>
    runInDurableObject(observer('weur'), async (_instance, state) => {
      await state.storage.deleteAlarm();
    });
  await lose();
  await evictDurableObject(observer('weur'));
  vi.setSystemTime(Date.now() + 5_000);
  await observer('weur').beat(await beacon.beat());
  expect(await armedAtMs('weur')).toBeGreaterThan(Date.now());

  await lose();
  await evictDurableObject(observer('weur'));
  await pokeAll(bindings);
  expect(await armedAtMs('weur')).toBeGreaterThan(Date.now());
});

test('an alarm that rings twice, or early, changes nothing', async () => {
  await enrol(lab, ['node-1']);
  await runDurableObjectAlarm(observer('weur'));
  const once = await observer('weur').ask([]);
  await runDurableObjectAlarm(observer('weur'));
  await runDurableObjectAlarm(observer('weur'));
  expect(await observer('weur').ask([])).toEqual(once);
});

test('the very same beat again is acked and moves nothing', async () => {
  const [beacon] = await enrol(lab, ['node-1']);
  if (beacon === undefined) throw new Error('no beacon');
  const jws = await beacon.beat();
  expect((await observer('weur').beat(jws)).kind).toBe('recorded');
  vi.setSystemTime(Date.now() + 4_000);
  expect((await observer('weur').beat(jws)).kind).toBe('recorded');
  const { nodes } = await observer('weur').ask([]);
  expect(nodes[0]?.heardAgoMs).toBe(4_000);
});

test('a refusal names the mistake: an unknown node, an unknown key, a broken signature, another uid, an old sequence', async () => {
  const [beacon] = await enrol(lab, ['node-1']);
  if (beacon === undefined) throw new Error('no beacon');
  const codeOf = async (jws: string): Promise<string> => {
    const answer = await observer('weur').beat(jws);
    return answer.kind === 'refused' ? answer.code : answer.kind;
  };
  const stranger = await TestBeacon.create('node-9');
  expect(await codeOf(await stranger.beat())).toBe('stranger');
  const impostor = await TestBeacon.create('node-1', { uid: beacon.payload().uid });
  expect(await codeOf(await impostor.beat())).toBe('stranger');
  const [header, payload, signature] = (await beacon.beat()).split('.');
  expect(
    await codeOf(
      `${header}.${payload}.${signature?.startsWith('A') === true ? 'B' : 'A'}${signature?.slice(1)}`,
    ),
  ).toBe('bad-signature');
  expect(await codeOf(await beacon.beat({ uid: 'another' }))).toBe('wrong-uid');
  expect(await codeOf(await beacon.beat({ seq: 1 }))).toBe('replayed');
  expect(await codeOf(await beacon.beat({ aud: 'test/other' }))).toBe('wrong-audience');
  expect(await codeOf(await beacon.beat({ intervalMs: 120_000 }))).toBe('bad-interval');
  const { nodes } = await observer('weur').ask([]);
  expect(nodes.map(({ name, refused }) => [name, refused?.code])).toEqual([['node-1', 'bad-interval']]);
});
