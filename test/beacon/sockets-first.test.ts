import { describe, expect, onTestFinished, test } from 'vitest';
import { type Clock, systemClock } from '../../node-beacon/clock.ts';
import { Connector } from '../../node-beacon/transport/connector.ts';
import { HttpsTransport } from '../../node-beacon/transport/https.ts';
import { ObserverSockets } from '../../node-beacon/transport/observer-sockets.ts';
import { SocketsFirst } from '../../node-beacon/transport/sockets-first.ts';
import type { TryResult } from '../../node-beacon/transport/transport.ts';
import { Trust } from '../../node-beacon/transport/trust.ts';
import { collectingLog } from './support/collecting-log.ts';
import { eventually } from './support/eventually.ts';
import { beatOf, type Behaviour, OBSERVERS, SocketEdge } from './support/socket-edge.ts';

/* The beacon's sockets against a real server: which way each beat goes, and what is done when that fails. */

const PATIENT_MS = 10_000;
/** Long enough for loopback, short enough to wait for. */
const IMPATIENT_MS = 300;

/** The time for back-off is the test's; deadlines run by the system's. */
class Hands implements Clock {
  nowMs = 0;
  /** What random() answers: just under the whole window. */
  chance = 0.999;
  monotonicMs = (): number => this.nowMs;
  wallMs = (): number => this.nowMs;
  sleep = (ms: number, signal?: AbortSignal): Promise<boolean> => systemClock.sleep(ms, signal);
  random = (): number => this.chance;
}

interface Subject {
  readonly edge: SocketEdge;
  readonly transport: SocketsFirst;
  readonly hands: Hands;
  readonly events: () => string[];
  readonly send: (text: string, timeoutMs?: number, recordedBy?: readonly string[]) => Promise<TryResult>;
}

/** A beacon's transport that has learnt its observers by a first beat, and has its sockets open by a second. */
async function subject({ holdsBack = true, opened = true } = {}): Promise<Subject> {
  const edge = await SocketEdge.start();
  const hands = new Hands();
  const { log, events } = collectingLog();
  const connector = new Connector({
    resolve: () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]),
    trust: new Trust({ caFile: undefined, log, systemBundles: [] }),
    proxy: undefined,
    staggerMs: 250,
  });
  const intervalMs = 10_000;
  const transport = new SocketsFirst({
    sockets: new ObserverSockets({ connector, clock: hands, intervalMs, holdsBack, log }),
    https: new HttpsTransport(connector),
    clock: hands,
    intervalMs,
  });
  onTestFinished(() => transport.close());
  const send: Subject['send'] = (text, timeoutMs = PATIENT_MS, recordedBy = []) =>
    transport.send(edge.url, beatOf(text), recordedBy, AbortSignal.timeout(timeoutMs));
  const it = { edge, transport, hands, events, send };
  if (!opened) return it;
  await send('first');
  await send('second');
  for (const observer of OBSERVERS) edge.heard[observer].length = 0;
  return it;
}

function ackedBy(result: TryResult): readonly string[] {
  return result.kind === 'acked' ? result.ack.recordedBy.toSorted() : [result.kind];
}

describe('which way a beat goes', () => {
  test('the first by HTTPS, which tells who the observers are; the second opens the sockets; the rest go over them', async () => {
    const { edge, transport, send } = await subject({ opened: false });
    for (const text of ['first', 'second', 'third', 'fourth']) {
      expect(ackedBy(await send(text))).toEqual(['apac', 'enam', 'weur']);
    }
    for (const observer of OBSERVERS) {
      expect(edge.ways(observer)).toEqual([
        'first https',
        'second opening',
        'third message',
        'fourth message',
      ]);
    }
    expect(edge.sockets.length).toBe(3);
    expect(transport.used).toBe('websocket');
  });

  test('a retry goes by HTTPS, and names who has the beat', async () => {
    const { edge, send, transport } = await subject();
    await send('beat');
    expect((await send('beat', PATIENT_MS, ['weur'])).kind).toBe('acked');
    expect(edge.ways('enam')).toEqual(['beat message', 'beat https']);
    expect(edge.ways('weur')).toEqual(['beat message']);
    expect(transport.used).toBe('https');
  });

  test('another endpoint gets sockets of its own', async () => {
    const { edge, transport } = await subject();
    const other = edge.url.replace('127.0.0.1', 'localhost');
    await transport.send(other, beatOf('beat'), [], AbortSignal.timeout(PATIENT_MS));
    for (const observer of OBSERVERS) expect(edge.ways(observer)).toEqual(['beat opening']);
  });

  test('sockets that the other side closed between two beats are opened anew by the beat', async () => {
    const { edge, send } = await subject();
    for (const { socket } of edge.sockets) socket.close(1001);
    await eventually(() => expect(edge.sockets.every(({ socket }) => socket.readyState === 3)).toBe(true));
    expect(ackedBy(await send('beat'))).toEqual(['apac', 'enam', 'weur']);
    for (const observer of OBSERVERS) expect(edge.ways(observer).at(-1)).toBe('beat opening');
  });

  test('sockets that break under a beat cost it nothing: it opens new ones in the same try', async () => {
    const { edge, send } = await subject();
    for (const { tcp } of edge.sockets) tcp.resetAndDestroy();
    expect(ackedBy(await send('beat'))).toEqual(['apac', 'enam', 'weur']);
  });
});

describe('half-open sockets', () => {
  test('leave a beat unanswered: its next try is by HTTPS, and the next beat on new sockets', async () => {
    const { edge, hands, send } = await subject();
    edge.all('hang');
    const before = edge.sockets.length;
    expect(await send('beat', IMPATIENT_MS)).toMatchObject({ kind: 'failed', failure: 'timeout' });
    expect(ackedBy(await send('beat'))).toEqual(['apac', 'enam', 'weur']);
    edge.all('ack');
    hands.nowMs += 10_000;
    expect(ackedBy(await send('next'))).toEqual(['apac', 'enam', 'weur']);
    expect(edge.ways('weur')).toEqual(['beat message', 'beat https', 'next opening']);
    expect(edge.sockets.length).toBe(before + 3);
  });

  test('a single one delays nothing, and is replaced with the next beat', async () => {
    const { edge, send } = await subject();
    edge.behaves.apac = 'hang';
    expect(ackedBy(await send('beat'))).toEqual(['enam', 'weur']);
    edge.behaves.apac = 'ack';
    expect(ackedBy(await send('next'))).toEqual(['apac', 'enam', 'weur']);
    await send('last');
    expect(edge.ways('apac')).toEqual(['beat message', 'next opening', 'last message']);
  });
});

describe('where sockets cannot be had', () => {
  test.for<Behaviour>(['close', 'unavailable', 'older', 'portal'])(
    'because of "%s", the same try goes on by HTTPS, and later beats go there at once',
    async (behaviour) => {
      const { edge, transport, events, send } = await subject({ opened: false });
      edge.all(behaviour);
      for (const text of ['first', 'second', 'third']) {
        expect(ackedBy(await send(text))).toEqual(['apac', 'enam', 'weur']);
      }
      expect(edge.ways('weur')).toEqual(['first https', 'second opening', 'second https', 'third https']);
      expect(transport.used).toBe('https');
      expect(events()).toEqual(['socket-failed', 'socket-failed', 'socket-failed']);
    },
  );

  test('they are tried again ever later, and soon after they are good', async () => {
    const { edge, hands, send, events } = await subject({ opened: false });
    edge.all('close');
    await send('first');
    const openings = (): number => edge.ways('weur').filter((way) => way.endsWith('opening')).length;
    const openedAtMs: number[] = [];
    let seen = 0;
    for (let beat = 0; beat < 130; beat++) {
      await send(`beat ${beat}`);
      if (openings() > seen) openedAtMs.push(hands.nowMs);
      seen = openings();
      hands.nowMs += 10_000;
    }
    const gapsMs = openedAtMs.slice(1).map((ms, index) => ms - (openedAtMs[index] ?? 0));
    expect(gapsMs.slice(0, 6)).toEqual([10_000, 20_000, 40_000, 80_000, 160_000, 320_000]);
    expect(Math.max(...gapsMs)).toBeLessThanOrEqual(600_000);

    edge.all('ack');
    hands.nowMs += 600_000;
    for (let beat = 0; beat < 4; beat++) await send(`good ${beat}`);
    expect(events().filter((event) => event === 'socket-restored').length).toBe(3);
    // Forgiven: a failure now costs one interval again.
    edge.all('close');
    await send('bad');
    edge.all('ack');
    hands.nowMs += 10_000;
    await send('back');
    expect(edge.ways('weur').at(-1)).toBe('back opening');
  });

  test('a window is used in full: with luck the next beat tries again', async () => {
    const { edge, hands, send } = await subject({ opened: false });
    hands.chance = 0;
    edge.all('close');
    for (const text of ['first', 'second', 'third']) await send(text);
    expect(edge.ways('weur').filter((way) => way.endsWith('opening')).length).toBe(2);
  });

  test('transport = websocket asks for them with every beat', async () => {
    const { edge, send } = await subject({ opened: false, holdsBack: false });
    edge.all('close');
    for (const text of ['first', 'second', 'third']) {
      expect(ackedBy(await send(text))).toEqual(['apac', 'enam', 'weur']);
    }
    expect(edge.ways('weur').filter((way) => way.endsWith('opening')).length).toBe(2);
  });

  test('of one observer, that one hears the beat by HTTPS, beside the others’ sockets', async () => {
    const { edge, transport, send } = await subject({ opened: false });
    edge.behaves.apac = 'unavailable';
    await send('first');
    for (const text of ['second', 'third']) {
      expect(ackedBy(await send(text)).slice(0, 2)).toEqual(['enam', 'weur']);
      await eventually(() => expect(edge.ways('apac').at(-1)).toBe(`${text} https`));
    }
    expect(edge.ways('enam')).toEqual(['first https', 'second opening', 'third message']);
    expect(transport.used).toBe('websocket');
  });

  test('of two, the try is completed by HTTPS, which is told who has the beat', async () => {
    const { edge, send } = await subject({ opened: false });
    await send('first');
    edge.behaves.apac = 'close';
    edge.behaves.enam = 'close';
    expect(ackedBy(await send('beat'))).toEqual(['apac', 'enam', 'weur']);
    expect(edge.ways('weur')).toEqual(['first https', 'beat opening']);
    expect(edge.ways('apac')).toEqual(['first https', 'beat opening', 'beat https']);
  });
});

describe('what is answered', () => {
  test('an observer’s refusal of the beat is passed on, and is no fault of the socket', async () => {
    const { edge, events, send } = await subject();
    edge.all('replayed');
    const refusal = { kind: 'refused', code: 'replayed', status: 409, highestSeq: 99 };
    expect(await send('old')).toMatchObject(refusal);
    edge.all('ack');
    expect(ackedBy(await send('new'))).toEqual(['apac', 'enam', 'weur']);
    expect(edge.ways('weur')).toEqual(['old message', 'new message']);
    expect(events()).toEqual([]);
  });

  test('the same to the beat that opens a socket', async () => {
    const { edge, send } = await subject({ opened: false });
    await send('first');
    edge.all('replayed');
    expect(await send('old')).toMatchObject({ kind: 'refused', code: 'replayed', highestSeq: 99 });
  });

  test('noise on a socket is no answer', async () => {
    const { edge, send } = await subject();
    for (const { socket } of edge.sockets) {
      socket.send('hello');
      socket.send(JSON.stringify({ v: 1, digest: 'of another', recordedBy: ['x'], missing: [], quorum: 1 }));
    }
    edge.all('hang');
    expect((await send('beat', IMPATIENT_MS)).kind).toBe('failed');
  });
});
