import { describe, expect, test } from 'vitest';
import type { Beat } from '../../protocol/beat.ts';
import { BeatMaker } from '../../node-beacon/beat-maker.ts';
import { BeatLoop } from '../../node-beacon/loop.ts';
import { collectingLog } from './support/collecting-log.ts';
import { acked, failed, refused, type Reply, ScriptedTransport } from './support/scripted-transport.ts';
import { VirtualClock } from './support/virtual-clock.ts';

const UPTIME_AT_START_MS = 1_000_000;
const DELIVERED = acked(['weur', 'enam']);

function setUp({
  replies = [DELIVERED],
  uid = 'uid-1',
  endpoints = ['https://a.example'],
  chance = 0,
}: {
  replies?: Reply[];
  uid?: string | null;
  endpoints?: string[];
  chance?: number;
} = {}) {
  const clock = new VirtualClock();
  clock.chance = chance;
  const transport = new ScriptedTransport(clock, replies);
  const { log, entries, events } = collectingLog();
  const beats: Beat[] = [];
  const identity = {
    uid: uid ?? undefined,
    doubts: 0,
    confirmations: 0,
    doubt: () => void (identity.doubts += 1),
    confirm: () => void (identity.confirmations += 1),
  };
  const host = { suspendedMs: 0 };
  const uptimeMs = () => UPTIME_AT_START_MS + clock.monotonicMs() + host.suspendedMs;
  const maker = new BeatMaker({
    audience: 'test/berlin',
    node: 'node-1',
    bootId: '11111111-2222-3333-4444-555555555555',
    intervalMs: 10_000,
    beacon: 'farpulse-beacon/test',
    uptimeMs,
    wallMs: () => clock.wallMs(),
    signs: () => ({ kubelet: { state: 'ok', okThisBoot: true }, api: { state: 'ok' } }),
    sign: (beat) => {
      beats.push(beat);
      return Promise.resolve({ jws: `jws-${beat.seq}`, digest: `digest-${beat.seq}` });
    },
  });
  const loop = new BeatLoop({
    intervalMs: 10_000,
    endpoints,
    maker,
    identity,
    transport,
    clock,
    log,
    uptimeMs,
  });
  const stop = new AbortController();
  const running = loop.run(stop.signal);
  return { clock, transport, beats, identity, host, loop, stop, running, entries, events };
}

describe('the rhythm', () => {
  test('the first beat comes a random part of the interval after the start', async () => {
    const { clock, transport } = setUp({ chance: 0.25 });
    await clock.advance(2_499);
    expect(transport.sent).toHaveLength(0);
    await clock.advance(1);
    expect(transport.sentAtMs).toEqual([2_500]);
  });

  test('a beat every interval, whatever became of the last one', async () => {
    const { clock, transport, beats } = setUp({ replies: ['no-answer'] });
    await clock.advance(29_999);
    expect(beats.map(({ sentAtMs }) => sentAtMs - Date.UTC(2030, 0, 1))).toEqual([0, 10_000, 20_000]);
    expect(transport.sent).toHaveLength(15);
  });

  test('an hour of lost and slow answers does not move the phase', async () => {
    const { clock, beats } = setUp({
      replies: [acked(['weur', 'enam'], 900), 'no-answer', DELIVERED, failed()],
    });
    await clock.advance(3_600_000);
    expect(beats).toHaveLength(361);
    expect(beats.every(({ sentAtMs }) => sentAtMs % 10_000 === 0)).toBe(true);
  });

  test('a transport that never settles costs its own beat and no other', async () => {
    const { clock, transport, beats } = setUp();
    transport.send = () => new Promise(() => {});
    await clock.advance(30_000);
    expect(beats).toHaveLength(4);
  });

  test('after a pause of five minutes one beat goes out at once, in a new rhythm, and the gap is told', async () => {
    const { clock, transport, events } = setUp();
    await clock.advance(1_000);
    await clock.pause(300_000);
    expect(transport.sentAtMs).toEqual([0, 301_000]);
    expect(events()).toContain('gap');
    await clock.advance(10_000);
    expect(transport.sentAtMs).toEqual([0, 301_000, 311_000]);
  });

  test('a pause in the middle of a beat’s tries wastes none on deadlines that have passed', async () => {
    const { clock, transport } = setUp({ replies: ['no-answer'] });
    await clock.advance(500);
    await clock.pause(300_000);
    expect(transport.sentAtMs).toEqual([0, 300_500]);
  });

  test('after a suspend, which timers do not count, a beat follows within a quarter of the interval', async () => {
    const { clock, beats, host, transport, entries } = setUp();
    await clock.advance(1_000);
    host.suspendedMs = 3_600_000;
    await clock.advance(11_500);
    expect(transport.sentAtMs).toEqual([0, 2_500, 12_500]);
    expect(beats[1]?.seq).toBe(UPTIME_AT_START_MS + 2_500 + 3_600_000);
    const gaps = entries.filter(({ event }) => event === 'gap');
    expect(gaps.map(({ fields }) => fields)).toEqual([{ seconds: 3603, why: 'the machine was suspended' }]);
  });

  test('a changed sign is sent at once, once in an interval, and the rhythm stays', async () => {
    const { clock, transport, loop } = setUp();
    await clock.advance(3_000);
    loop.hurry();
    await clock.advance(1_000);
    loop.hurry();
    await clock.advance(6_000);
    expect(transport.sentAtMs).toEqual([0, 3_000, 10_000]);
    await clock.advance(1_000);
    loop.hurry();
    await clock.advance(9_000);
    expect(transport.sentAtMs).toEqual([0, 3_000, 10_000, 11_000, 20_000]);
  });

  test('a loop that turns is not idle, whatever becomes of its beats', async () => {
    const { clock, loop } = setUp({ replies: ['no-answer'] });
    await clock.advance(100_000);
    expect(loop.idleMs).toBeLessThan(2_500);
  });
});

describe('the sequence', () => {
  test('is the uptime in milliseconds', async () => {
    const { clock, beats } = setUp();
    await clock.advance(10_000);
    expect(beats.map(({ seq }) => seq)).toEqual([UPTIME_AT_START_MS, UPTIME_AT_START_MS + 10_000]);
  });

  test('after `replayed` the beacon goes on above the highest known one, at once', async () => {
    const highestSeq = UPTIME_AT_START_MS + 5_000_000;
    const { clock, beats, transport } = setUp({ replies: [refused('replayed', { highestSeq }), DELIVERED] });
    await clock.advance(10_000);
    expect(beats.map(({ seq }) => seq)).toEqual([UPTIME_AT_START_MS, highestSeq + 1, highestSeq + 2]);
    expect(transport.sentAtMs).toEqual([0, 50, 10_000]);
  });

  test('the corrected beat has what is left of the interval, and no try beyond it', async () => {
    const slowly = { ...refused('replayed', { highestSeq: UPTIME_AT_START_MS + 5_000_000 }), afterMs: 1_600 };
    const lost = 'no-answer' as const;
    const { clock, transport } = setUp({ replies: [lost, lost, lost, lost, slowly, lost] });
    await clock.advance(9_999);
    expect(transport.sentAtMs).toEqual([0, 1_000, 2_000, 4_000, 7_000, 8_600]);
    expect(transport.sent.at(-1)?.givenUpAtMs).toBe(9_500);
  });

  test('an observer that names ever higher numbers gets one answer per interval', async () => {
    const { clock, beats, transport } = setUp();
    let highestSeq = UPTIME_AT_START_MS;
    transport.play({
      afterMs: 10,
      result: () => ({
        kind: 'refused',
        code: 'replayed',
        status: 409,
        why: '',
        highestSeq: (highestSeq += 1_000_000),
      }),
    });
    await clock.advance(9_999);
    expect(beats).toHaveLength(2);
  });

  test.for([
    { name: 'lower than its own', highestSeq: 5 },
    { name: 'beyond all reason', highestSeq: Number.MAX_SAFE_INTEGER },
  ])('a highest sequence $name is not followed', async ({ highestSeq }) => {
    const { clock, beats } = setUp({ replies: [refused('replayed', { highestSeq }), DELIVERED] });
    await clock.advance(10_000);
    expect(beats.map(({ seq }) => seq)).toEqual([UPTIME_AT_START_MS, UPTIME_AT_START_MS + 10_000]);
  });
});

describe('the way to the endpoints', () => {
  test('a slow path spaces the tries of the next beat', async () => {
    const { clock, transport } = setUp({ replies: [acked(['weur', 'enam'], 800), 'no-answer'] });
    await clock.advance(20_000 - 1);
    expect(transport.sentAtMs).toEqual([0, 10_000, 12_400, 14_800, 17_200]);
  });

  test('the endpoint that took the last beat is asked first', async () => {
    const endpoints = ['https://a.example', 'https://b.example'];
    const { clock, transport } = setUp({ endpoints, replies: ['no-answer', DELIVERED] });
    await clock.advance(10_000);
    expect(transport.sent.map(({ endpoint }) => endpoint)).toEqual([
      endpoints[0],
      endpoints[1],
      endpoints[1],
    ]);
  });
});

describe('when nothing is delivered for long', () => {
  /** The offsets of the tries of each beat, by the interval they fell into. */
  const triesPerBeat = (sentAtMs: number[], startMs: number): number[] => {
    const counts: number[] = [];
    for (const atMs of sentAtMs) {
      const beat = Math.floor((atMs - startMs) / 10_000);
      counts[beat] = (counts[beat] ?? 0) + 1;
    }
    return counts;
  };

  test('retries end after four lost beats, the beats go on, and three delivered ones bring the retries back', async () => {
    const { clock, transport } = setUp({ replies: ['no-answer'], chance: 0.999 });
    await clock.advance(9_990 + 70_000 - 1);
    expect(triesPerBeat(transport.sentAtMs, 9_990)).toEqual([5, 5, 5, 5, 1, 1, 1]);
    transport.play(DELIVERED);
    await clock.advance(20_000);
    transport.play('no-answer'); // after two only
    await clock.advance(10_000);
    transport.play(DELIVERED);
    await clock.advance(30_000);
    transport.play('no-answer');
    await clock.advance(10_000);
    expect(triesPerBeat(transport.sentAtMs, 9_990).slice(7)).toEqual([1, 1, 1, 1, 1, 1, 5]);
  });

  test('the beats’ single tries alternate over the endpoints', async () => {
    const endpoints = ['https://a.example', 'https://b.example'];
    const { clock, transport } = setUp({ endpoints, replies: ['no-answer'], chance: 0.999 });
    await clock.advance(9_990 + 80_000 - 1);
    const last = transport.sent.slice(-4).map(({ endpoint }) => endpoint);
    expect(last).toEqual([last[0], last[1], last[0], last[1]]);
    expect(new Set(last).size).toBe(2);
  });

  test('Retry-After holds for the next beat too, for an interval at most', async () => {
    const { clock, transport } = setUp({ replies: [failed({ retryAfterMs: 3_600_000 }), DELIVERED] });
    await clock.advance(20_000);
    expect(transport.sentAtMs).toEqual([0, 11_000, 20_000]);
  });
});

describe('the identity', () => {
  test('without a uid nothing is sent, and the first beat follows within an interval of learning it', async () => {
    const { clock, transport, identity, beats, events } = setUp({ uid: null });
    await clock.advance(25_000);
    expect(transport.sent).toHaveLength(0);
    expect(events().filter((event) => event === 'waiting-for-uid')).toHaveLength(1);
    identity.uid = 'uid-2';
    await clock.advance(10_000);
    expect(beats.map(({ uid }) => uid)).toEqual(['uid-2']);
  });

  test.for([
    { name: 'a stranger', reply: refused('stranger', { status: 403 }) },
    { name: 'a wrong uid', reply: refused('wrong-uid') },
    { name: 'one observer of three objects', reply: acked(['weur', 'enam'], 50, [['apac', 'wrong-uid']]) },
  ])('is doubted: $name', async ({ reply }) => {
    const { clock, identity } = setUp({ replies: [reply] });
    await clock.advance(9_999);
    expect(identity).toMatchObject({ doubts: 1, confirmations: 0 });
  });

  test('is confirmed by a recorded beat and untouched by silence', async () => {
    const { clock, identity, transport } = setUp();
    await clock.advance(9_999);
    transport.play('no-answer');
    await clock.advance(10_000);
    expect(identity).toMatchObject({ doubts: 0, confirmations: 1 });
  });
});

describe('the log', () => {
  test('tells changes once, and how many beats were not delivered since', async () => {
    const { clock, transport, entries, events } = setUp();
    await clock.advance(30_000 - 1);
    for (const lostBeats of [3, 1]) {
      transport.play('no-answer');
      await clock.advance(lostBeats * 10_000);
      transport.play(DELIVERED);
      await clock.advance(20_000);
    }
    const told = ['beats-delivered', 'beats-failing', 'beats-delivered', 'beats-failing', 'beats-delivered'];
    expect(events()).toEqual(told);
    const delivered = entries.filter(({ event }) => event === 'beats-delivered');
    expect(delivered.map(({ fields }) => fields['undelivered'])).toEqual([undefined, 3, 1]);
  });

  test('a failing signature is told and the next beat is made', async () => {
    const { clock, transport, beats, events } = setUp();
    const push = beats.push.bind(beats);
    beats.push = () => {
      beats.push = push;
      throw new Error('no entropy');
    };
    await clock.advance(10_100);
    expect(events()).toEqual(['beat-not-made', 'beats-delivered']);
    expect(transport.sentAtMs).toEqual([10_000]);
  });
});

describe('the farewell', () => {
  const leaving = { what: 'beacon', reason: 'SIGTERM', forMs: 120_000 } as const;

  test('the running beat is dropped and one that says `leaving` is sent', async () => {
    const { clock, transport, beats, stop, running, loop } = setUp({ replies: ['no-answer', DELIVERED] });
    await clock.advance(300);
    stop.abort();
    await running;
    const saying = loop.farewell(leaving);
    await clock.advance(50);
    await saying;
    expect(beats.map((beat) => beat.leaving)).toEqual([undefined, leaving]);
    expect(transport.sentAtMs).toEqual([0, 300]);
  });

  test('a path that answers nothing holds the stop for less than a second', async () => {
    const { clock, transport, stop, running, loop, events } = setUp({ replies: ['no-answer'] });
    await clock.advance(300);
    stop.abort();
    await running;
    let said = false;
    void loop.farewell(leaving).then(() => (said = true));
    await clock.advance(800);
    expect(said).toBe(true);
    expect(transport.sentAtMs).toEqual([0, 300, 700]);
    expect(events()).toContain('leaving');
  });
});
