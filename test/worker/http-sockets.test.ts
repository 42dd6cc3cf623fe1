import { describe, expect, test } from 'vitest';
import { BEAT_HEADER } from '../../protocol/socket.ts';
import type { BeatAnswer } from '../../protocol/report.ts';
import { beatOf, json, jwsOf, START_MS, subject, type Setup, type Subject } from './support/http-app.ts';

/* The router's part in a socket: what it lets through to which observer, and what it answers. */

interface Handshake {
  readonly observer?: string;
  readonly jws?: string;
  readonly headers?: Record<string, string>;
}

function shakeHands(
  { app }: Subject,
  { observer = 'weur', jws = jwsOf(), headers = {} }: Handshake = {},
): Promise<Response> {
  return Promise.resolve(
    app.request(`/v1/sockets/${observer}`, {
      headers: { upgrade: 'websocket', [BEAT_HEADER]: jws, 'cf-connecting-ip': '192.0.2.1', ...headers },
    }),
  );
}

function refusing(answer: Partial<Extract<BeatAnswer, { kind: 'refused' }>>): Setup {
  return {
    sockets: () =>
      Response.json({ kind: 'refused', observer: 'weur', code: 'stranger', why: 'because', ...answer }),
  };
}

describe('a handshake', () => {
  test('goes to the observer that it names, in the shard of its node, with the beat', async () => {
    const handshakes: string[] = [];
    const it = subject({
      clusters: { prod: { apiUrl: 'https://kube.example.com', shards: 4 } },
      sockets: (request) => {
        handshakes.push(request.headers.get(BEAT_HEADER) ?? '');
        return new Response(null, { status: 101, webSocket: new WebSocketPair()[0] });
      },
    });
    const jws = jwsOf();
    const { status, webSocket } = await shakeHands(it, { observer: 'enam.3', jws });
    expect([status, webSocket === null]).toEqual([101, false]);
    expect(it.asked).toEqual(['prod/enam/3']);
    expect(handshakes).toEqual([jws]);
    expect(it.counters.snapshot().beats).toEqual({ opened: 1 });
  });

  test.for<{ name: string; with: Handshake; status: number; code: string }>([
    { name: 'without an upgrade', with: { headers: { upgrade: '' } }, status: 400, code: 'invalid-request' },
    { name: 'without a beat', with: { jws: '' }, status: 400, code: 'malformed' },
    { name: 'with garbage', with: { jws: 'a.b.c' }, status: 400, code: 'malformed' },
    { name: 'with a giant', with: { jws: 'x'.repeat(4_097) }, status: 413, code: 'too-large' },
    {
      name: 'of another deployment',
      with: { jws: jwsOf(beatOf({ aud: 'other/prod' })) },
      status: 403,
      code: 'wrong-audience',
    },
    {
      name: 'of an unknown cluster',
      with: { jws: jwsOf(beatOf({ aud: 'farpulse/staging' })) },
      status: 404,
      code: 'unknown-cluster',
    },
    { name: 'to an unknown region', with: { observer: 'oc' }, status: 404, code: 'not-found' },
    {
      name: 'to a shard that the node is not of',
      with: { observer: 'weur.1' },
      status: 404,
      code: 'not-found',
    },
    { name: 'to a name made up', with: { observer: '..%2Fweur' }, status: 404, code: 'not-found' },
  ])('$name reaches no observer', async ({ with: options, status, code }) => {
    const it = subject();
    const response = await shakeHands(it, options);
    expect([response.status, (await json(response))['code']]).toEqual([status, code]);
    expect(it.asked).toEqual([]);
  });

  test('is told what is wrong with the configuration only as far as everybody is', async () => {
    const response = await shakeHands(subject({ env: { DEPLOYMENT_ID: '' } }));
    expect(await json(response)).toMatchObject({ status: 500, code: 'misconfigured' });
  });
});

describe('a refusal', () => {
  test.for<{ name: string; setup: Setup; body: object; retryAfter?: string }>([
    {
      name: 'is a problem as after a POST',
      setup: refusing({ code: 'replayed', highestSeq: 77, why: 'sequence 1, already at 77' }),
      body: { status: 409, code: 'replayed', highestSeq: 77, detail: 'sequence 1, already at 77' },
    },
    {
      name: 'tells a guesser nothing',
      setup: refusing({ code: 'stranger', why: 'not signed with a key that its Node names' }),
      body: { status: 401, code: 'stranger' },
    },
    {
      name: 'for want of room keeps nobody from trying otherwise at once',
      setup: refusing({ code: 'unavailable' }),
      body: { status: 503, code: 'unavailable' },
      retryAfter: '0',
    },
    {
      name: 'by an object that throws is `unavailable`',
      setup: { sockets: () => Promise.reject(new Error('internal error; reference = x')) },
      body: { status: 503, code: 'unavailable' },
      retryAfter: '0',
    },
  ])('$name', async ({ setup, body, retryAfter }) => {
    const response = await shakeHands(subject(setup));
    const said = await json(response);
    expect(said).toMatchObject(body);
    expect(response.status).toBe(said['status']);
    expect(response.headers.get('retry-after')).toBe(retryAfter ?? null);
    if (!('detail' in body)) expect(said['detail']).toBeUndefined();
  });

  test('comes at the deadline from an observer that hangs', async () => {
    const it = subject({ sockets: () => new Promise(() => {}) });
    const answered = shakeHands(it);
    await it.timers.armed(1_000);
    it.timers.pass(1_000);
    expect((await answered).status).toBe(503);
    expect(it.counters.snapshot().observerFaults).toEqual({ 'prod/weur': { 'timed-out': 1 } });
  });

  test('costs its address a share of one budget with POSTs, and a known beacon is never limited', async () => {
    const it = subject(refusing({ code: 'bad-signature' }));
    const statuses = new Set<number>();
    for (let i = 0; i < 600; i++)
      statuses.add((await shakeHands(it, { jws: jwsOf(beatOf({ seq: i })) })).status);
    expect([...statuses]).toEqual([401, 429]);

    const known = subject({
      sockets: () => new Response(null, { status: 101, webSocket: new WebSocketPair()[0] }),
    });
    for (let i = 0; i < 600; i++) expect((await shakeHands(known)).status).toBe(101);
    known.clock.nowMs = START_MS + 1;
    expect((await shakeHands(known)).status).toBe(101);
  });
});
