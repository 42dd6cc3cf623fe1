import { describe, expect, test } from 'vitest';
import { Ack, PROBLEM_CONTENT_TYPE, RECORDED_BY_HEADER } from '../../protocol/ack.ts';
import type { RefusalCode } from '../../protocol/beat.ts';
import { digestOf } from '../../protocol/jws.ts';
import type { BeatAnswer } from '../../protocol/report.ts';
import { shardOf } from '../../worker/core/shard.ts';
import { beatOf, json, jwsOf, type ObserverScript, post, subject } from './support/http-app.ts';

const NEVER: ObserverScript = () => new Promise<BeatAnswer>(() => {});

function refuse(code: RefusalCode, more: { why?: string; highestSeq?: number } = {}): ObserverScript {
  return () => ({ kind: 'refused', observer: 'itself', code, why: 'because', ...more });
}

function fail(fields: Record<string, unknown> = {}): ObserverScript {
  return () => {
    throw Object.assign(new Error('secret text of the platform'), fields);
  };
}

const ALL = ['prod/weur/0', 'prod/enam/0', 'prod/apac/0'];

describe('acknowledgement', () => {
  test('all three observers record a beat: 200, its digest, the three of them, a quorum of two', async () => {
    const { app, asked, counters } = subject();
    const jws = jwsOf();

    const response = await post(app, jws);

    expect(response.status).toBe(200);
    expect(Ack.parse(await response.json())).toEqual({
      v: 1,
      digest: await digestOf(jws),
      recordedBy: ['weur', 'enam', 'apac'],
      missing: [],
      quorum: 2,
    });
    expect(asked).toEqual(ALL);
    expect(counters.snapshot()).toEqual({ beats: { recorded: 1 }, observerFaults: {} });
  });

  test('each observer gets the beat as it came, to the letter', async () => {
    const received: string[] = [];
    const keep: ObserverScript = (jws) => {
      received.push(jws);
      return { kind: 'recorded', observer: 'x' };
    };
    const { app } = subject({ observers: { weur: keep, enam: keep, apac: keep } });
    const jws = jwsOf(beatOf({ unknownField: 'kept' }));

    await post(app, jws);

    expect(received).toEqual([jws, jws, jws]);
  });

  test.for([
    {
      name: 'two record and one refuses',
      observers: { apac: refuse('replayed', { highestSeq: 5 }) },
      recordedBy: ['weur', 'enam'],
      missing: [{ observer: 'apac', code: 'replayed' }],
      outcome: 'recorded',
    },
    {
      name: 'two record and one throws',
      observers: { weur: fail() },
      recordedBy: ['enam', 'apac'],
      missing: [{ observer: 'weur', code: 'unavailable' }],
      outcome: 'recorded',
    },
    {
      name: 'one records, fewer than a quorum',
      observers: { weur: fail(), apac: refuse('stranger') },
      recordedBy: ['enam'],
      missing: [
        { observer: 'weur', code: 'unavailable' },
        { observer: 'apac', code: 'stranger' },
      ],
      outcome: 'partial',
    },
    {
      name: 'one answers with a code this router does not know',
      observers: { enam: refuse('from-the-future' as RefusalCode) },
      recordedBy: ['weur', 'apac'],
      missing: [{ observer: 'enam', code: 'unavailable' }],
      outcome: 'recorded',
    },
  ])('$name: 200 with who has it and who has not', async ({ observers, recordedBy, missing, outcome }) => {
    const { app, counters } = subject({ observers });

    const response = await post(app, jwsOf());

    expect(response.status).toBe(200);
    expect(await json(response)).toMatchObject({ recordedBy, missing, quorum: 2 });
    expect(counters.snapshot().beats).toEqual({ [outcome]: 1 });
  });
});

describe('deadline', () => {
  test.for([
    { name: 'with 10 s beats after 1 s', cluster: {}, limitMs: 1_000 },
    { name: 'with 3 s beats after 750 ms', cluster: { preset: 'fast' }, limitMs: 750 },
    { name: 'with 1 s beats after 250 ms', cluster: { intervalSeconds: 1 }, limitMs: 250 },
  ])(
    'an observer that hangs is waited for, $name the other two are answered',
    async ({ cluster, limitMs }) => {
      const { app, timers, counters } = subject({
        clusters: { prod: { apiUrl: 'https://kube.example.com', ...cluster } },
        observers: { enam: NEVER },
      });
      const pending = post(app, jwsOf());
      await timers.armed(limitMs);

      timers.pass(limitMs);
      const response = await pending;

      expect(response.status).toBe(200);
      expect(await json(response)).toMatchObject({
        recordedBy: ['weur', 'apac'],
        missing: [{ observer: 'enam', code: 'unavailable' }],
      });
      expect(counters.snapshot().observerFaults).toEqual({ 'prod/enam': { 'timed-out': 1 } });
    },
  );

  test('with a quorum that has recorded it, one that hangs is waited for only a moment', async () => {
    const { app, timers } = subject({ observers: { enam: NEVER } });
    const pending = post(app, jwsOf());
    await timers.armed(100);

    timers.pass(100);

    expect(await json(await pending)).toMatchObject({ recordedBy: ['weur', 'apac'], quorum: 2 });
  });

  test('without a quorum, one that hangs is waited for until the deadline', async () => {
    const { app, timers } = subject({ observers: { enam: NEVER, apac: fail() } });
    const pending = post(app, jwsOf());
    await timers.armed(1_000);

    expect(timers.isArmed(100)).toBe(false);
    timers.pass(1_000);

    expect(await json(await pending)).toMatchObject({ recordedBy: ['weur'] });
  });

  test('when all hang: 503 unavailable with Retry-After', async () => {
    const { app, timers } = subject({ observers: { weur: NEVER, enam: NEVER, apac: NEVER } });
    const pending = post(app, jwsOf());
    await timers.armed(1_000);

    timers.pass(1_000);
    const response = await pending;

    expect(response.status).toBe(503);
    expect(response.headers.get('retry-after')).toBe('0');
    expect(await json(response)).toMatchObject({ code: 'unavailable' });
  });

  test('a recording that comes after the answer is kept alive for one interval, since it is still life', async () => {
    let record: (answer: BeatAnswer) => void = () => {};
    const late: ObserverScript = () => new Promise<BeatAnswer>((resolve) => (record = resolve));
    const { app, timers } = subject({ observers: { enam: late } });
    const kept: Promise<unknown>[] = [];
    const context = {
      waitUntil: (work: Promise<unknown>) => kept.push(work),
      passThroughOnException: () => {},
      props: {},
    };
    const pending = Promise.resolve(
      app.request('/v1/beats', { method: 'POST', body: jwsOf() }, {}, context as unknown as ExecutionContext),
    );
    await timers.armed(1_000);
    await timers.armed(10_000);
    timers.pass(1_000);
    expect((await pending).status).toBe(200);
    expect(kept).toHaveLength(1);
    expect(timers.isArmed(10_000)).toBe(true);

    record({ kind: 'recorded', observer: 'enam' });
    await kept[0];

    expect(timers.isArmed(10_000)).toBe(false);
  });
});

describe('retry', () => {
  test('observers that the header names are not asked again and count as having it', async () => {
    const { app, asked } = subject();

    const response = await post(app, jwsOf(), { [RECORDED_BY_HEADER]: 'weur, apac' });

    expect(asked).toEqual(['prod/enam/0']);
    expect(await json(response)).toMatchObject({ recordedBy: ['weur', 'apac', 'enam'], missing: [] });
  });

  test.for([
    { name: 'a region of another cluster', header: 'oc' },
    { name: 'a shard that is not configured', header: 'weur.1' },
    { name: 'nonsense', header: 'WEUR,,*,__proto__, weur/0' },
    { name: 'all observers, which no honest retry does', header: 'weur,enam,apac' },
  ])('a header that names $name is disbelieved: all are asked', async ({ header }) => {
    const { app, asked } = subject();

    const response = await post(app, jwsOf(), { [RECORDED_BY_HEADER]: header });

    expect(asked).toEqual(ALL);
    expect(await json(response)).toMatchObject({ recordedBy: ['weur', 'enam', 'apac'] });
  });

  test('when the missing observers still do not answer, the retry is told what it had', async () => {
    const { app, counters } = subject({ observers: { enam: fail(), apac: fail() } });

    const response = await post(app, jwsOf(), { [RECORDED_BY_HEADER]: 'weur' });

    expect(response.status).toBe(200);
    expect(await json(response)).toMatchObject({
      recordedBy: ['weur'],
      missing: [
        { observer: 'enam', code: 'unavailable' },
        { observer: 'apac', code: 'unavailable' },
      ],
    });
    expect(counters.snapshot().beats).toEqual({ partial: 1 });
  });

  test('a header buys no acknowledgement for a beat that the others refuse', async () => {
    const { app } = subject({ observers: { enam: refuse('stranger'), apac: fail() } });

    const response = await post(app, jwsOf(), { [RECORDED_BY_HEADER]: 'weur' });

    expect(response.status).toBe(401);
    expect(await json(response)).toMatchObject({ code: 'stranger' });
  });
});

describe('refusal by all', () => {
  test.for([
    { code: 'stranger', status: 401 },
    { code: 'bad-signature', status: 401 },
    { code: 'old-key', status: 401 },
    { code: 'wrong-uid', status: 409 },
    { code: 'replayed', status: 409 },
    { code: 'bad-interval', status: 422 },
  ] as const)('$code: $status problem', async ({ code, status }) => {
    const { app, counters } = subject({
      observers: { weur: refuse(code), enam: refuse(code), apac: refuse(code) },
    });

    const response = await post(app, jwsOf());

    expect(response.status).toBe(status);
    expect(response.headers.get('content-type')).toBe(PROBLEM_CONTENT_TYPE);
    expect(await json(response)).toMatchObject({ code, status });
    expect(counters.snapshot().beats).toEqual({ [code]: 1 });
  });

  test.for([
    { of: ['unavailable', 'stranger', 'unavailable'], told: 'stranger' },
    { of: ['stranger', 'bad-signature', 'unavailable'], told: 'bad-signature' },
    { of: ['bad-signature', 'old-key', 'stranger'], told: 'old-key' },
    { of: ['old-key', 'wrong-uid', 'stranger'], told: 'wrong-uid' },
    { of: ['stranger', 'wrong-uid', 'bad-interval'], told: 'bad-interval' },
    { of: ['bad-interval', 'unavailable', 'replayed'], told: 'replayed' },
  ] as const)('of $of the most telling is answered: $told', async ({ of: [weur, enam, apac], told }) => {
    const { app } = subject({ observers: { weur: refuse(weur), enam: refuse(enam), apac: refuse(apac) } });

    expect(await json(await post(app, jwsOf()))).toMatchObject({ code: told });
  });

  test('replayed carries the highest sequence that any observer knows', async () => {
    const { app } = subject({
      observers: {
        weur: refuse('replayed', { highestSeq: 41 }),
        enam: refuse('replayed', { highestSeq: 1_234 }),
        apac: refuse('replayed'),
      },
    });

    expect(await json(await post(app, jwsOf()))).toMatchObject({ code: 'replayed', highestSeq: 1_234 });
  });

  test.for([
    { code: 'bad-interval', detail: 'because' },
    { code: 'stranger', detail: undefined },
    { code: 'bad-signature', detail: undefined },
  ] as const)(
    'the words of an observer reach only a holder of a key ($code: $detail)',
    async ({ code, detail }) => {
      const { app } = subject({ observers: { weur: refuse(code), enam: refuse(code), apac: refuse(code) } });

      const body = await json(await post(app, jwsOf()));

      expect(body['detail']).toBe(detail);
    },
  );

  test.for([
    { name: 'overloaded', error: { overloaded: true, remote: true }, fault: 'overloaded', retryAfter: '2' },
    { name: 'reset', error: { durableObjectReset: true, retryable: true }, fault: 'failed', retryAfter: '0' },
    { name: 'broken', error: {}, fault: 'failed', retryAfter: '0' },
  ])('$name observers are asked once, and their error says nothing to the sender', async (row) => {
    const { app, asked, counters } = subject({
      observers: { weur: fail(row.error), enam: fail(row.error), apac: fail(row.error) },
    });

    const response = await post(app, jwsOf());

    expect(response.status).toBe(503);
    expect(response.headers.get('retry-after')).toBe(row.retryAfter);
    expect(await response.text()).not.toContain('secret');
    expect(asked).toEqual(ALL);
    expect(counters.snapshot().observerFaults).toEqual({
      'prod/weur': { [row.fault]: 1 },
      'prod/enam': { [row.fault]: 1 },
      'prod/apac': { [row.fault]: 1 },
    });
  });
});

describe('shards', () => {
  const clusters = { prod: { apiUrl: 'https://kube.example.com', shards: 4 } };

  test('the same shard of every region is asked, and acknowledged by its name', async () => {
    const { app, asked } = subject({ clusters });
    const shard = shardOf('node-1', 4);

    const ack = await json(await post(app, jwsOf()));

    expect(asked).toEqual([`prod/weur/${shard}`, `prod/enam/${shard}`, `prod/apac/${shard}`]);
    expect(ack).toMatchObject({ recordedBy: [`weur.${shard}`, `enam.${shard}`, `apac.${shard}`], quorum: 2 });
  });

  // Written down, not computed: these numbers decide where stored snapshots are, so they must never change.
  test.for([
    ['node-1', 4, 3],
    ['node-2', 4, 2],
    ['ip-10-0-1-17.eu-west-1.compute.internal', 16, 4],
    ['a', 64, 32],
    ['node-1', 7, 0],
    ['node-1', 1, 0],
  ] as const)('%s of %i shards is in shard %i, for ever', ([name, shards, shard]) => {
    expect(shardOf(name, shards)).toBe(shard);
  });

  test.for([2, 3, 4, 7, 8, 64])('numbered names spread evenly over %i shards', (shards) => {
    const counts = Array.from({ length: shards }, () => 0);
    for (let i = 0; i < 500 * shards; i++) {
      const shard = shardOf(`worker-${i}.pool-a.example.internal`, shards);
      counts[shard] = (counts[shard] ?? 0) + 1;
    }

    expect(Math.min(...counts)).toBeGreaterThan(350);
    expect(Math.max(...counts)).toBeLessThan(650);
  });
});
