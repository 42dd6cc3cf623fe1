import { describe, expect, test } from 'vitest';
import { deliver, type Delivery } from '../../node-beacon/deliver.ts';
import { planTries } from '../../node-beacon/tries.ts';
import { acked, failed, refused, type Reply, ScriptedTransport } from './support/scripted-transport.ts';
import { VirtualClock } from './support/virtual-clock.ts';

const BEAT = { jws: 'head.payload.signature', digest: 'digest-of-it' };
const ONE = ['https://a.example'];
const TWO = ['https://a.example', 'https://b.example'];

async function play(
  replies: readonly Reply[],
  endpoints = ONE,
  pausedUntilMs = new Map<string, number>(),
): Promise<{ delivery: Delivery; transport: ScriptedTransport }> {
  const clock = new VirtualClock();
  const transport = new ScriptedTransport(clock, replies);
  const delivering = deliver({
    beat: BEAT,
    plan: planTries(10_000, 0),
    startedAtMs: 0,
    endsAtMs: 9_500,
    endpoints,
    pausedUntilMs,
    maxPauseMs: 10_000,
    transport,
    clock,
    signal: new AbortController().signal,
  });
  await clock.advance(10_000);
  return { delivery: await delivering, transport };
}

describe('when a beat is tried again', () => {
  test.for([
    { name: 'a quorum at once: once', replies: [acked(['weur', 'enam'])], at: [0], kind: 'delivered' },
    {
      name: 'two lost requests: at 1 and 2 s',
      replies: ['no-answer', 'no-answer', acked(['weur', 'enam'])],
      at: [0, 1_000, 2_000],
      kind: 'delivered',
    },
    {
      name: 'nobody answers: five times',
      replies: ['no-answer'],
      at: [0, 1_000, 2_000, 4_000, 7_000],
      kind: 'failed',
    },
    {
      name: 'one observer is no quorum: until another has it',
      replies: [acked(['weur']), acked(['weur']), acked(['apac'])],
      at: [0, 1_000, 2_000],
      kind: 'delivered',
    },
    {
      name: 'a quorum never comes together: told as short',
      replies: [acked(['weur'])],
      at: [0, 1_000, 2_000, 4_000, 7_000],
      kind: 'short',
    },
    { name: 'a final refusal: not again', replies: [refused('bad-interval')], at: [0], kind: 'refused' },
    {
      name: 'a refusal that may pass: again',
      replies: [refused('stranger', { status: 403 }), acked(['weur', 'enam'])],
      at: [0, 1_000],
      kind: 'delivered',
    },
    {
      name: 'an unknown code with a 503: again',
      replies: [refused('brand-new', { status: 503 }), acked(['weur', 'enam'])],
      at: [0, 1_000],
      kind: 'delivered',
    },
    {
      name: 'an unknown code with a 422: not again',
      replies: [refused('brand-new', { status: 422 })],
      at: [0],
      kind: 'refused',
    },
    {
      name: 'Retry-After of 3 s: not before the try at 4 s',
      replies: [failed({ retryAfterMs: 3_000 }), acked(['weur', 'enam'])],
      at: [0, 4_000],
      kind: 'delivered',
    },
    {
      name: 'Retry-After of a minute: this beat is not tried again',
      replies: [refused('rate-limited', { status: 429, retryAfterMs: 60_000 })],
      at: [0],
      kind: 'refused',
    },
    {
      name: 'a refusal outweighs later silence in what is told',
      replies: [refused('stranger', { status: 403 }), 'no-answer'],
      at: [0, 1_000, 2_000, 4_000, 7_000],
      kind: 'refused',
    },
  ] satisfies { name: string; replies: Reply[]; at: number[]; kind: string }[])(
    '$name',
    async ({ replies, at, kind }) => {
      const { delivery, transport } = await play(replies);
      expect(transport.sentAtMs).toEqual(at);
      expect(delivery.outcome.kind).toBe(kind);
      expect(delivery.tries).toBe(at.length);
    },
  );

  test('every try carries the very same signed beat, and retries name the observers that have it', async () => {
    const { transport } = await play([acked(['weur']), acked(['apac'])]);
    expect(transport.sent.map(({ jws }) => jws)).toEqual([BEAT.jws, BEAT.jws]);
    expect(transport.sent.map(({ recordedBy }) => recordedBy)).toEqual([[], ['weur']]);
  });

  test('an unanswered try is given up when the next one starts, the last one before the next beat', async () => {
    const { transport } = await play(['no-answer']);
    expect(transport.sent.map(({ givenUpAtMs }) => givenUpAtMs)).toEqual([1_000, 2_000, 4_000, 7_000, 9_500]);
  });
});

describe('several endpoints', () => {
  test('tries alternate', async () => {
    const { transport } = await play(['no-answer'], TWO);
    expect(transport.sent.map(({ endpoint }) => endpoint)).toEqual([TWO[0], TWO[1], TWO[0], TWO[1], TWO[0]]);
  });

  test('a final refusal closes one endpoint and the other is still tried', async () => {
    const { transport, delivery } = await play(
      [refused('unknown-cluster'), failed(), acked(['weur', 'enam'])],
      TWO,
    );
    expect(transport.sent.map(({ endpoint }) => endpoint)).toEqual([TWO[0], TWO[1], TWO[1]]);
    expect(delivery.outcome).toMatchObject({ kind: 'delivered', endpoint: TWO[1] });
  });

  test('Retry-After from one does not keep the other waiting', async () => {
    const { transport } = await play([failed({ retryAfterMs: 60_000 }), acked(['weur', 'enam'])], TWO);
    expect(transport.sent.map(({ atMs, endpoint }) => [atMs, endpoint])).toEqual([
      [0, TWO[0]],
      [1_000, TWO[1]],
    ]);
  });
});

describe('Retry-After outlives the beat', () => {
  test.for([
    { name: 'as it was asked for', retryAfterMs: 9_000, untilMs: 9_005 },
    {
      name: 'to one interval at most: a longer one would make a live node silent',
      retryAfterMs: 3_600_000,
      untilMs: 10_005,
    },
  ])('$name', async ({ retryAfterMs, untilMs }) => {
    const pausedUntilMs = new Map<string, number>();
    await play([failed({ retryAfterMs })], ONE, pausedUntilMs);
    expect([...pausedUntilMs]).toEqual([[ONE[0], untilMs]]);
  });

  test('the next beat begins when the endpoint may be asked again', async () => {
    const { transport } = await play([acked(['weur', 'enam'])], ONE, new Map([['https://a.example', 1_500]]));
    expect(transport.sentAtMs).toEqual([2_000]);
  });

  test('the next beat begins with the other endpoint', async () => {
    const { transport } = await play([acked(['weur', 'enam'])], TWO, new Map([['https://a.example', 1_500]]));
    expect(transport.sent.map(({ atMs, endpoint }) => [atMs, endpoint])).toEqual([[0, TWO[1]]]);
  });
});

test('the reasons of single observers are kept beside a delivered beat', async () => {
  const { delivery } = await play([acked(['weur', 'enam'], 50, [['apac', 'wrong-uid']])]);
  expect(delivery.outcome.kind).toBe('delivered');
  expect([...delivery.objections]).toEqual(['wrong-uid']);
});

test('a refused sequence ends the beat at once and hands over the highest one', async () => {
  const { delivery, transport } = await play([refused('replayed', { highestSeq: 77 })], TWO);
  expect(transport.sent).toHaveLength(1);
  expect(delivery.outcome).toMatchObject({ kind: 'refused', code: 'replayed', highestSeq: 77 });
});

test('an interrupted delivery settles at once', async () => {
  const clock = new VirtualClock();
  const stop = new AbortController();
  const delivering = deliver({
    beat: BEAT,
    plan: planTries(10_000, 0),
    startedAtMs: 0,
    endsAtMs: 9_500,
    endpoints: ONE,
    pausedUntilMs: new Map(),
    maxPauseMs: 10_000,
    transport: new ScriptedTransport(clock, ['no-answer']),
    clock,
    signal: stop.signal,
  });
  await clock.advance(500);
  stop.abort();
  expect(await delivering).toMatchObject({ outcome: { kind: 'interrupted' }, tries: 1 });
  expect(clock.monotonicMs()).toBe(500);
});
