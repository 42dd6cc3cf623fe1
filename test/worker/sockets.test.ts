import { evictDurableObject, reset, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { digestOf } from '../../protocol/jws.ts';
import { BEAT_HEADER } from '../../protocol/socket.ts';
import { MAX_SOCKETS } from '../../worker/objects/beacon-sockets.ts';
import { TestBeacon } from '../support/test-beacon.ts';
import { enrol, observer, passSeconds, startLab, warmUp, type Lab } from './support/lab.ts';

/* Sockets to a real observer object in workerd. Time is faked; alarms ring when a test says so. */

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

/** The beacon's end of a socket. It waits for events, not by the clock, which is faked. */
class Client {
  readonly closed: Promise<{ code: number; reason: string }>;
  readonly #socket: WebSocket;
  readonly #messages: Record<string, unknown>[] = [];
  #arrived = Promise.withResolvers<void>();

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.accept();
    socket.addEventListener('message', ({ data }) => {
      this.#messages.push(JSON.parse(String(data)) as Record<string, unknown>);
      this.#arrived.resolve();
    });
    this.closed = new Promise((resolve) => {
      socket.addEventListener('close', ({ code, reason }) => resolve({ code, reason }));
    });
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  async next(): Promise<Record<string, unknown>> {
    for (;;) {
      const message = this.#messages.shift();
      if (message !== undefined) return message;
      this.#arrived = Promise.withResolvers();
      await this.#arrived.promise;
    }
  }

  ask(message: string | ArrayBuffer): Promise<Record<string, unknown>> {
    this.#socket.send(message);
    return this.next();
  }

  /** Closes, and waits until the observer has taken note. (A sleeping one's own Close frame comes ten seconds later.) */
  async close(): Promise<void> {
    this.#socket.close(1000, 'going');
    for (let left = 1; left > 0; await scheduler.wait(5)) {
      left = await runInDurableObject(
        observer('weur'),
        (_instance, state) =>
          state.getWebSockets().filter((each) => each.readyState === WebSocket.OPEN).length,
      );
    }
  }
}

function shakeHands(jws: string): Promise<Response> {
  return observer('weur').fetch(
    new Request('https://farpulse.test/v1/sockets/weur', {
      headers: { upgrade: 'websocket', [BEAT_HEADER]: jws },
    }),
  );
}

async function open(beacon: TestBeacon): Promise<Client> {
  const jws = await beacon.beat();
  const response = await shakeHands(jws);
  expect(response.status).toBe(101);
  if (response.webSocket === null) throw new Error('no socket in the answer');
  const client = new Client(response.webSocket);
  expect(await client.next()).toEqual(await ackOf(jws));
  return client;
}

async function ackOf(jws: string): Promise<object> {
  const observers = ['weur', 'enam', 'apac'];
  return { v: 1, digest: await digestOf(jws), recordedBy: ['weur'], missing: [], quorum: 2, observers };
}

async function one(name = 'node-1'): Promise<TestBeacon> {
  const [beacon] = await enrol(lab, [name]);
  if (beacon === undefined) throw new Error('no beacon');
  return beacon;
}

async function heardAgoMs(name = 'node-1'): Promise<number | undefined> {
  return (await observer('weur').ask([])).nodes.find((node) => node.name === name)?.heardAgoMs;
}

function snapshotRow(): Promise<string> {
  return runInDurableObject(
    observer('weur'),
    (_instance, state) => state.storage.sql.exec<{ json: string }>('SELECT json FROM snapshot').one().json,
  );
}

/** The object is out of memory but for what its alarm has it do: woken, it is asleep again at once. */
async function sleepFor(ms: number): Promise<void> {
  const untilMs = Date.now() + ms;
  for (;;) {
    await evictDurableObject(observer('weur'));
    const alarmMs = await runInDurableObject(observer('weur'), (_instance, state) =>
      state.storage.getAlarm(),
    );
    if (alarmMs === null || alarmMs > untilMs) break;
    vi.setSystemTime(Math.max(alarmMs, Date.now()));
    await runDurableObjectAlarm(observer('weur'));
  }
  vi.setSystemTime(untilMs);
}

/** A socket message every ten seconds; the rows that the beats wrote. */
async function rowsWhileBeating(seconds: number, beacon: TestBeacon, client: Client): Promise<number> {
  const rows = new Set([await snapshotRow()]);
  await passSeconds(seconds, async (second) => {
    if (second % 10 === 0) await client.ask(await beacon.beat());
    rows.add(await snapshotRow());
  });
  return rows.size - 1;
}

describe('a socket', () => {
  test('is opened by a beat, which is recorded and acked', async () => {
    const beacon = await one();
    vi.setSystemTime(Date.now() + 5_000);
    await open(beacon);
    expect(await heardAgoMs()).toBe(0);
  });

  test('takes beats and acks each by its digest', async () => {
    const beacon = await one();
    const client = await open(beacon);
    vi.setSystemTime(Date.now() + 10_000);
    const jws = await beacon.beat();
    expect(await client.ask(jws)).toEqual(await ackOf(jws));
    expect(await heardAgoMs()).toBe(0);
    // The very same one again: its ack was lost.
    expect(await client.ask(jws)).toEqual(await ackOf(jws));
  });

  test('answers a well-signed beat that it does not take with the problem, and stays', async () => {
    const beacon = await one();
    const client = await open(beacon);
    const jws = await beacon.beat({ seq: 1 });
    for (let turn = 0; turn < 5; turn++) {
      expect(await client.ask(jws)).toMatchObject({
        type: 'urn:farpulse:problem:replayed',
        code: 'replayed',
        status: 409,
        digest: await digestOf(jws),
        highestSeq: expect.any(Number) as number,
      });
    }
    expect(client.isOpen).toBe(true);
  });

  test.for<{ name: string; message: (beacon: TestBeacon) => Promise<string | ArrayBuffer>; code: string }>([
    { name: 'not a JWS', message: async () => 'hello', code: 'malformed' },
    { name: 'binary', message: async () => new ArrayBuffer(8), code: 'malformed' },
    { name: 'too large', message: async () => 'x'.repeat(5_000), code: 'too-large' },
    {
      name: 'for another cluster',
      message: (beacon) => beacon.beat({ aud: 'test/other' }),
      code: 'wrong-audience',
    },
    {
      name: 'tampered with',
      message: async (beacon) => (await beacon.beat()).replace(/.$/, (last) => (last === 'A' ? 'Q' : 'A')),
      code: 'bad-signature',
    },
    {
      name: 'signed with an unknown key',
      message: async () => (await TestBeacon.create('node-9')).beat(),
      code: 'stranger',
    },
  ])('explains a message that is $name, and closes at the third', async ({ message, code }) => {
    const beacon = await one();
    const client = await open(beacon);
    const garbage = await message(beacon);
    expect(await client.ask(garbage)).toMatchObject({ code });
    expect(await client.ask(garbage)).toMatchObject({ code });
    // A good beat in between wipes the slate.
    expect(await client.ask(await beacon.beat())).toMatchObject({ recordedBy: ['weur'] });
    for (let turn = 0; turn < 3; turn++) expect(await client.ask(garbage)).toMatchObject({ code });
    expect(await client.closed).toMatchObject({ code: 1008 });
  });

  test('is replaced by a second one of the same node', async () => {
    const beacon = await one();
    const first = await open(beacon);
    const second = await open(beacon);
    expect(await first.closed).toMatchObject({ code: 1000 });
    expect(await second.ask(await beacon.beat())).toMatchObject({ recordedBy: ['weur'] });
  });

  test('is refused with what a POST would be refused with', async () => {
    const beacon = await one();
    const stranger = await TestBeacon.create('node-9');
    for (const [jws, code] of [
      [await stranger.beat(), 'stranger'],
      [await beacon.beat({ uid: 'another' }), 'wrong-uid'],
      ['garbage', 'malformed'],
      ['', 'malformed'],
    ] as const) {
      const response = await shakeHands(jws);
      expect(response.status).toBe(200);
      expect(await response.json()).toMatchObject({ kind: 'refused', observer: 'weur', code });
    }
  });

  test(`is refused beyond ${MAX_SOCKETS} of them, unless it takes the place of one`, async () => {
    const [first, second] = await enrol(lab, ['node-1', 'node-2']);
    if (first === undefined || second === undefined) throw new Error('no beacons');
    await open(first);
    await runInDurableObject(observer('weur'), (_instance, state) => {
      for (let i = 1; i < MAX_SOCKETS; i++) state.acceptWebSocket(new WebSocketPair()[1], [`filler-${i}`]);
    });
    expect(await (await shakeHands(await second.beat())).json()).toMatchObject({ code: 'unavailable' });
    await open(first);
  });
});

describe('sleep', () => {
  test('loses nothing: the last beat and its proof are on the socket, and no row was written for it', async () => {
    const beacon = await one();
    const client = await open(beacon);
    await rowsWhileBeating(20, beacon, client);
    expect(await rowsWhileBeating(100, beacon, client)).toBe(0);
    const before = await observer('weur').ask(['node-1']);

    await sleepFor(9_000);
    const after = await observer('weur').ask(['node-1']);
    expect(after.listeningForMs).toBe(before.listeningForMs + 9_000);
    expect(after.nodes[0]?.heardAgoMs).toBe((before.nodes[0]?.heardAgoMs ?? 0) + 9_000);
    expect(after.nodes[0]?.proof).toBe(before.nodes[0]?.proof);
    expect(after.nodes[0]?.seq).toBe(before.nodes[0]?.seq);
  });

  test('before every beat costs no beat, no row and no deafness', async () => {
    const beacon = await one();
    const client = await open(beacon);
    await rowsWhileBeating(20, beacon, client);
    const before = await observer('weur').ask([]);
    const row = await snapshotRow();
    for (let turn = 0; turn < 5; turn++) {
      await sleepFor(10_000);
      expect(await client.ask(await beacon.beat())).toMatchObject({ recordedBy: ['weur'] });
    }
    expect(await snapshotRow()).toBe(row);
    const after = await observer('weur').ask([]);
    expect(after.listeningForMs).toBe(before.listeningForMs + 50_000);
    expect(after.nodes[0]?.sight).toBe('heard');
  });

  test('keeps the longest beat there is, after eight boots', async () => {
    const beacon = await one();
    const client = await open(beacon);
    // One such letter makes a whole text two bytes a letter.
    const why = `${'x'.repeat(79)}\u4e00`;
    const longWhy = why + 'x'.repeat(120);
    const checks = Array.from({ length: 8 }, (_, i) => ({
      name: `${i}${'n'.repeat(31)}`,
      state: 'failed' as const,
      why,
    }));
    let jws = '';
    for (let boot = 0; boot < 8; boot++) {
      jws = await beacon.beat({
        boot: `${boot}${'b'.repeat(63)}`,
        checks,
        kubelet: { state: 'down', okThisBoot: true, why: longWhy },
        api: { state: 'cut', why: longWhy },
        leaving: { what: 'host', reason: longWhy, forMs: 1 },
        features: Array.from({ length: 16 }, (_, i) => `${i}-${'f'.repeat(15)}`),
      });
      expect(await client.ask(jws)).toEqual(await ackOf(jws));
    }
    expect(jws.length).toBeGreaterThan(3_500);
    await evictDurableObject(observer('weur'));
    expect((await observer('weur').ask(['node-1'])).nodes[0]).toMatchObject({ proof: jws, heardAgoMs: 0 });
  });

  test('keeps a beat that came by HTTPS beside an open socket', async () => {
    const beacon = await one();
    const client = await open(beacon);
    await rowsWhileBeating(20, beacon, client);
    vi.setSystemTime(Date.now() + 3_000);
    await observer('weur').beat(await beacon.beat());
    await evictDurableObject(observer('weur'));
    expect(await heardAgoMs()).toBe(0);
  });

  test('ended by the end of the socket loses nothing either', async () => {
    const beacon = await one();
    const client = await open(beacon);
    await rowsWhileBeating(20, beacon, client);
    const before = await observer('weur').ask([]);
    await evictDurableObject(observer('weur'));
    vi.setSystemTime(Date.now() + 2_000);
    await client.close();
    const after = await observer('weur').ask([]);
    expect(after.listeningForMs).toBe(before.listeningForMs + 2_000);
    expect(after.nodes[0]?.heardAgoMs).toBe((before.nodes[0]?.heardAgoMs ?? 0) + 2_000);
    // Out of memory before that was stored, it knows that something is lost.
    await evictDurableObject(observer('weur'));
    expect((await observer('weur').ask([])).listeningForMs).toBe(0);
  });
});

test('a restart that ends the sockets is deafness: nobody is silent before it was listened for again', async () => {
  const beacon = await one();
  const client = await open(beacon);
  await rowsWhileBeating(40, beacon, client);
  await evictDurableObject(observer('weur'), { webSockets: 'close' });
  vi.setSystemTime(Date.now() + 23_000);
  const woken = await observer('weur').ask([]);
  expect(woken.listeningForMs).toBe(0);
  expect(woken.nodes.map(({ sight }) => sight)).toEqual(['listening']);
  // And a new socket takes up where the old one was.
  expect(await (await open(beacon)).ask(await beacon.beat())).toMatchObject({ recordedBy: ['weur'] });
});

test('the end of a socket is no silence: the node is heard until its beats are missing', async () => {
  const beacon = await one();
  const client = await open(beacon);
  await client.close();
  expect((await observer('weur').ask([])).nodes[0]?.sight).toBe('heard');
  await passSeconds(21);
  expect((await observer('weur').ask([])).nodes[0]?.sight).not.toBe('silent');
  await passSeconds(2);
  expect((await observer('weur').ask([])).nodes[0]?.sight).toBe('silent');
});
