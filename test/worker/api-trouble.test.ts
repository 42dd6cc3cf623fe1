import { reset } from 'cloudflare:test';
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { NODES } from '../support/api-stand-in/resources.ts';
import { arbiter, beatAll, enrol, passSeconds, readyOf, startLab, warmUp, type Lab } from './support/lab.ts';
import type { TestBeacon } from '../support/test-beacon.ts';

/*
 * A node dies while the API server is in trouble. Whatever the trouble, it is a state of its own that people are told
 * of, no node is thought worse of for it, and when it is over the facts are looked at afresh. How each kind of trouble
 * looks on a real socket is in `test/core/cluster-api-trouble.test.ts`.
 */

/** Far ahead of the real clock, by which the alarm scheduler runs: no alarm rings unless the test says so. */
const START_MS = Date.UTC(2040, 0, 1);
const NAMES = ['node-1', 'node-2', 'node-3', 'node-4'];

type Send = (input: RequestInfo | URL, init?: RequestInit) => Promise<Response>;

let lab: Lab;
/** Calls that met the trouble. */
let refusedCalls: number;

beforeAll(warmUp, 120_000);

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: START_MS });
  await reset();
  lab = startLab();
  refusedCalls = 0;
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** From now on every call to the API goes this way; `through` carries it out. Returns what mends it. */
function interfere(
  how: (through: Send, input: RequestInfo | URL, init?: RequestInit) => Promise<Response>,
): () => void {
  const fetched = vi.mocked(globalThis.fetch);
  const through = fetched.getMockImplementation();
  if (through === undefined) throw new Error('no lab');
  fetched.mockImplementation((input, init) => how(through, input, init));
  return () => fetched.mockImplementation(through);
}

function breakApi(answer: () => Response | Promise<Response>): () => void {
  return interfere(async () => {
    refusedCalls += 1;
    return answer();
  });
}

function refusal(code: number, reason: string, headers: Record<string, string> = {}): Response {
  const body = { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message: 'said the API' };
  return Response.json(body, { status: code, headers });
}

/** For `passSeconds`: a beat of each, every ten seconds by the faked clock. */
function beating(beacons: readonly TestBeacon[]): () => Promise<void> {
  return async () => {
    if (Math.floor(Date.now() / 1_000) % 10 === 0) await beatAll(beacons);
  };
}

/**
 * Lets time pass until it is so. What an alarm has started goes on while time stands still, so how many seconds of the
 * faked clock something takes depends on the machine.
 */
async function passUntil(isSo: () => Promise<boolean>, beats: () => Promise<void>): Promise<void> {
  for (let second = 1; second <= 120; second += 1) {
    await passSeconds(1, beats);
    await arbiter().poke();
    if (await isSo()) return;
  }
  throw new Error(`not so after two minutes: ${JSON.stringify(await arbiter().status())}`);
}

async function isUnknown(): Promise<boolean> {
  return readyOf(lab, 'node-4')?.status === 'Unknown';
}

function isPhase(name: string, phase: string): () => Promise<boolean> {
  return async () => (await phases())[name] === phase;
}

async function phases(): Promise<Record<string, string>> {
  return Object.fromEntries((await arbiter().status()).nodes.map(({ name, phase }) => [name, phase]));
}

/** Writes to Nodes that the API has carried out. */
function written(): string[] {
  return lab.requests
    .filter(
      ({ method, path, status }) =>
        method === 'PATCH' && /\/nodes\/[^/]+\/status$/.test(path) && status < 300,
    )
    .map(({ path }) => path.split('/')[4] ?? '');
}

const TROUBLES = [
  {
    name: 'a connection that is refused',
    answer: () => Promise.reject(new Error('Network connection lost.')),
    why: /^connection refused or lost/,
  },
  {
    name: 'a certificate that is not trusted, or an unknown name',
    answer: () => Promise.reject(new Error('internal error; reference = abc')),
    why: /^the platform does not say why/,
  },
  { name: '526 from the edge', answer: () => new Response('', { status: 526 }), why: /^TLS: / },
  { name: '401', answer: () => refusal(401, 'Unauthorized'), why: /401 Unauthorized: said the API$/ },
  { name: '403', answer: () => refusal(403, 'Forbidden'), why: /403 Forbidden: said the API$/ },
  {
    name: '429 with Retry-After',
    answer: () => refusal(429, 'TooManyRequests', { 'retry-after': '7' }),
    why: /^429 TooManyRequests/,
    quietMs: 7_000,
  },
  {
    name: '503 with Retry-After',
    answer: () => refusal(503, 'ServiceUnavailable', { 'retry-after': '20' }),
    why: /^503 ServiceUnavailable/,
    quietMs: 20_000,
  },
] as const;

describe('a node dies while the API server answers with', () => {
  test.for(TROUBLES)('$name', async ({ answer, why, ...rest }) => {
    const beacons = await enrol(lab, NAMES);
    const mend = breakApi(answer);
    const beats = beating(beacons.slice(0, 3));
    await passUntil(async () => (await arbiter().status()).api.state === 'unreachable', beats);
    refusedCalls = 0;
    await passSeconds(40, beats);

    const status = await arbiter().status();
    expect(status.api).toMatchObject({ state: 'unreachable', why: expect.stringMatching(why) as string });
    expect(status.api.sinceMs).toBeGreaterThan(START_MS);
    expect(status.api.sinceMs).toBeLessThanOrEqual(Date.now() - 40_000);
    expect(status.alerts).toContainEqual(
      expect.objectContaining({ code: 'api-unreachable', sinceMs: status.api.sinceMs }),
    );
    // The others beat: what the API server does is no evidence against them, nor that the dead one is down.
    expect(await phases()).toEqual({
      'node-1': 'alive',
      'node-2': 'alive',
      'node-3': 'alive',
      'node-4': 'suspect',
    });
    expect(written()).toEqual([]);
    // One read at a time, and no more often than it may be asked: every 5 s, or as Retry-After says; and the list.
    const quietMs = 'quietMs' in rest ? rest.quietMs : 5_000;
    expect(refusedCalls).toBeLessThanOrEqual(Math.ceil(40_000 / quietMs) + 2);

    mend();
    await passUntil(isUnknown, beats);
    await passUntil(isPhase('node-4', 'down'), beats);
    const after = await arbiter().status();
    expect(after.api.state).toBe('ok');
    expect(after.alerts.map(({ code }) => code)).not.toContain('api-unreachable');
    expect(written()).toEqual(['node-4']);
  });
});

test('a node that has come back during the trouble is not written after it: nothing is replayed', async () => {
  const beacons = await enrol(lab, NAMES);
  const mend = breakApi(() => Promise.reject(new Error('Network connection lost.')));
  await passUntil(
    async () => (await arbiter().status()).api.state === 'unreachable',
    beating(beacons.slice(0, 3)),
  );
  expect((await phases())['node-4']).toBe('suspect');
  await passUntil(isPhase('node-4', 'alive'), beating(beacons));
  mend();
  await passSeconds(40, beating(beacons));
  expect((await phases())['node-4']).toBe('alive');
  expect(written()).toEqual([]);
  expect(readyOf(lab, 'node-4')?.status).toBe('True');
});

describe('a connection that is cut', () => {
  test.for([
    { name: 'after the write was applied: the read recognises it, it is written once', applied: true },
    { name: 'before the write was applied: it is judged again, and written once', applied: false },
  ])('$name', async ({ applied }) => {
    const beacons = await enrol(lab, NAMES);
    let cuts = 0;
    interfere(async (through, input, init) => {
      const isFirstWrite = cuts === 0 && init?.method === 'PATCH';
      if (!isFirstWrite) return through(input, init);
      cuts += 1;
      if (applied) await through(input, init);
      throw new Error('Network connection lost.');
    });
    const beats = beating(beacons.slice(0, 3));
    await passUntil(isPhase('node-4', 'down'), beats);
    await passSeconds(20, beats);
    expect(cuts).toBe(1);
    expect(written()).toEqual(['node-4']);
    const node = (await arbiter().status()).nodes.find(({ name }) => name === 'node-4');
    expect(node?.episode?.write).toMatchObject({ outcome: 'written', reason: 'FarpulseHostSilent' });
  });
});

describe('a write that the API server does not take is told, and not sent again and again:', () => {
  test.for([
    { name: 'invalid', status: 422, reason: 'Invalid' },
    { name: 'forbidden, as with the kill switch, while reads go on', status: 403, reason: 'Forbidden' },
  ])('$name', async ({ status, reason }) => {
    const beacons = await enrol(lab, NAMES);
    let writes = 0;
    const mend = interfere(async (through, input, init) => {
      if (init?.method !== 'PATCH') return through(input, init);
      writes += 1;
      return refusal(status, reason);
    });
    const beats = beating(beacons.slice(0, 3));
    const isTold = async (): Promise<boolean> => {
      const { alerts } = await arbiter().status();
      return alerts.some(
        ({ code, node, message }) =>
          code === 'write-refused' && node === 'node-4' && message === `${status} ${reason}: said the API`,
      );
    };
    await passUntil(isTold, beats);
    expect((await phases())['node-4']).toBe('suspect');
    expect(writes).toBe(1);
    for (let second = 0; second < 60; second += 5) {
      await passSeconds(5, beats);
      expect(await isTold()).toBe(true);
    }
    // Every 30 s.
    expect(writes).toBeGreaterThan(1);
    expect(writes).toBeLessThanOrEqual(3);

    mend();
    await passUntil(isPhase('node-4', 'down'), beats);
    expect(written()).toEqual(['node-4']);
    expect(await isTold()).toBe(false);
  });
});

test('an API server restored from an old backup: a verdict that it has forgotten is written again, once', async () => {
  const beacons = await enrol(lab, NAMES);
  const backup = structuredClone(lab.api.store.get(NODES, '', 'node-4'));
  if (backup === undefined) throw new Error('no node-4');
  const beats = beating(beacons.slice(0, 3));
  await passUntil(isPhase('node-4', 'down'), beats);
  lab.api.store.put(NODES, backup);
  expect(readyOf(lab, 'node-4')?.status).toBe('True');

  await passUntil(isUnknown, beats);
  await passSeconds(40, beats);
  expect(written()).toEqual(['node-4', 'node-4']);
  // No kubelet spoke, so nobody was contradicted.
  expect((await arbiter().status()).alerts.map(({ code }) => code)).not.toContain('contradicted');
});
