import { describe, expect, test } from 'vitest';
import type { RefusalCode } from '../../protocol/beat.ts';
import type { BeatAnswer } from '../../protocol/report.ts';
import {
  beatOf,
  json,
  jwsOf,
  type ObserverScript,
  post,
  type Setup,
  subject,
  type Subject,
} from './support/http-app.ts';

const REGIONS = ['weur', 'enam', 'apac'] as const;

/** Observers that all say what the given function says of a beat. */
function all(script: ObserverScript): NonNullable<Setup['observers']> {
  return Object.fromEntries(REGIONS.map((region) => [region, script]));
}

function refused(code: RefusalCode): BeatAnswer {
  return { kind: 'refused', observer: 'x', code, why: 'because' };
}

const RECORDED: BeatAnswer = { kind: 'recorded', observer: 'x' };

function from(address: string): Record<string, string> {
  return { 'cf-connecting-ip': address };
}

/** Sends beats that differ until one is limited. @returns how many were let through */
async function sendUntilLimited(
  { app }: Subject,
  headersOf: (i: number) => Record<string, string>,
): Promise<number> {
  for (let i = 0; i < 2_000; i++) {
    const response = await post(app, jwsOf(beatOf({ seq: i }), { kid: `garbage-${i}` }), headersOf(i));
    if (response.status === 429) return i;
  }
  throw new Error('never limited');
}

describe('memory of strangers', () => {
  test('a beat that all observers call a stranger is refused for 10 s without asking them, then asked about again', async () => {
    const { app, asked, clock, counters } = subject({ observers: all(() => refused('stranger')) });
    const jws = jwsOf();
    await post(app, jws);
    expect(asked).toHaveLength(3);

    clock.nowMs += 9_999;
    const again = await post(app, jws);
    expect(again.status).toBe(401);
    expect(await json(again)).toMatchObject({ code: 'stranger' });
    expect(asked).toHaveLength(3);

    clock.nowMs += 1;
    await post(app, jws);
    expect(asked).toHaveLength(6);
    expect(counters.snapshot().beats).toEqual({ stranger: 3 });
  });

  test('a stranger that has been enrolled meanwhile is recorded with its next beat', async () => {
    let enrolled = false;
    const { app } = subject({ observers: all(() => (enrolled ? RECORDED : refused('stranger'))) });
    await post(app, jwsOf(beatOf({ seq: 1 })));
    enrolled = true;

    const response = await post(app, jwsOf(beatOf({ seq: 2 })));

    expect(response.status).toBe(200);
  });

  test('garbage in the name and with the key id of a node, sent first, never has the node itself refused', async () => {
    const own = jwsOf(beatOf({ seq: 7 }));
    const { app } = subject({ observers: all((jws) => (jws === own ? RECORDED : refused('stranger'))) });
    for (let seq = 0; seq < 5; seq++) await post(app, jwsOf(beatOf({ seq })));

    const response = await post(app, own);

    expect(response.status).toBe(200);
    expect(await json(response)).toMatchObject({ recordedBy: [...REGIONS] });
  });

  test.for([
    { name: 'one observer does not answer', weur: 'unavailable' },
    { name: 'one observer finds the signature bad', weur: 'bad-signature' },
    { name: 'one observer knows an older key', weur: 'old-key' },
  ] as const)('nothing is remembered when $name', async ({ weur }) => {
    const { app, asked } = subject({
      observers: { ...all(() => refused('stranger')), weur: () => refused(weur) },
    });
    await post(app, jwsOf());

    await post(app, jwsOf());

    expect(asked).toHaveLength(6);
  });

  test('nothing is remembered of a retry, when only some observers were asked', async () => {
    const { app, asked } = subject({ observers: all(() => refused('stranger')) });
    await post(app, jwsOf(), { 'farpulse-recorded-by': 'weur' });
    expect(asked).toHaveLength(2);

    await post(app, jwsOf());

    expect(asked).toHaveLength(5);
  });

  test('the memory is bounded: after 1,000 younger strangers the first is asked about again', async () => {
    const { app, asked } = subject({ observers: all(() => refused('stranger')) });
    const first = jwsOf(beatOf({ seq: 0 }));
    await post(app, first, from('192.0.2.0'));
    for (let seq = 1; seq <= 999; seq++)
      await post(app, jwsOf(beatOf({ seq })), from(`192.0.2.${seq % 250}`));
    const before = asked.length;
    await post(app, first);
    expect(asked.length).toBe(before);

    await post(app, jwsOf(beatOf({ seq: 1_000 })), from('192.0.2.1'));
    await post(app, first);

    expect(asked.length).toBe(before + 6);
  });
});

describe('rate limit', () => {
  test('an address whose beats are all refused is limited: 429 with Retry-After, and no observer is asked', async () => {
    const it = subject({ observers: all(() => refused('bad-signature')) });
    const through = await sendUntilLimited(it, () => from('192.0.2.1'));
    expect(through).toBe(500);
    const askedBefore = it.asked.length;

    const response = await post(it.app, jwsOf(), from('192.0.2.1'));

    expect(response.status).toBe(429);
    expect(response.headers.get('retry-after')).toBe('1');
    expect(await json(response)).toMatchObject({ code: 'rate-limited' });
    expect(it.asked.length).toBe(askedBefore);
    expect(it.counters.snapshot().beats).toEqual({ 'bad-signature': 500, 'rate-limited': 2 });
  });

  test('after a second 50 more are let through', async () => {
    const it = subject({ observers: all(() => refused('bad-signature')) });
    await sendUntilLimited(it, () => from('192.0.2.1'));

    it.clock.nowMs += 1_000;

    expect(await sendUntilLimited(it, () => from('192.0.2.1'))).toBe(50);
  });

  test('a flood from one address limits nobody else', async () => {
    const it = subject({ observers: all(() => refused('bad-signature')) });
    await sendUntilLimited(it, () => from('192.0.2.1'));

    const response = await post(it.app, jwsOf(), from('192.0.2.2'));

    expect(response.status).toBe(401);
  });

  test('the addresses of one IPv6 network share a budget, however they are written', async () => {
    const it = subject({ observers: all(() => refused('bad-signature')) });
    const addresses = ['2001:db8::1', '2001:DB8:0:0:ffff::2', '2001:0db8:0000:0000:1:2:3:4'];

    expect(await sendUntilLimited(it, (i) => from(addresses[i % 3] ?? ''))).toBe(500);
    expect((await post(it.app, jwsOf(), from('2001:db8:0:1::1'))).status).toBe(401);
  });

  test('a cluster of 2,000 nodes behind one address is never limited, also right after a deploy', async () => {
    const { app, counters } = subject();

    for (let i = 0; i < 2_000; i++) await post(app, jwsOf(beatOf({ node: `node-${i}` })), from('192.0.2.1'));

    expect(counters.snapshot().beats).toEqual({ recorded: 2_000 });
  });

  test('observers that do not answer cost their senders nothing', async () => {
    const { app, counters } = subject({ observers: all(() => Promise.reject(new Error('down'))) });

    for (let i = 0; i < 600; i++) await post(app, jwsOf(beatOf({ node: `node-${i}` })), from('192.0.2.1'));

    expect(counters.snapshot().beats).toEqual({ unavailable: 600 });
  });

  test.for(['replayed', 'bad-interval', 'wrong-uid', 'old-key'] as const)(
    'a well-signed beat that is refused (%s) is never limited: it is a sign of life',
    async (code) => {
      const { app, counters } = subject({ observers: all(() => refused(code)) });

      for (let i = 0; i < 600; i++) await post(app, jwsOf(beatOf({ node: `node-${i}` })), from('192.0.2.1'));

      expect(counters.snapshot().beats).toEqual({ [code]: 600 });
    },
  );

  test('a node that was recorded lately goes on while its own address is limited; after 10 minutes it is unknown', async () => {
    const own = new Set<string>();
    const it = subject({ observers: all((jws) => (own.has(jws) ? RECORDED : refused('bad-signature'))) });
    const beat = (seq: number): string => {
      const jws = jwsOf(beatOf({ seq }), { kid: 'own' });
      own.add(jws);
      return jws;
    };
    await post(it.app, beat(1), from('192.0.2.1'));
    await sendUntilLimited(it, () => from('192.0.2.1'));

    expect((await post(it.app, beat(2), from('192.0.2.1'))).status).toBe(200);

    it.clock.nowMs += 600_000;
    await sendUntilLimited(it, () => from('192.0.2.1'));
    expect((await post(it.app, beat(3), from('192.0.2.1'))).status).toBe(429);
  });

  test('a known name from another address is unknown there', async () => {
    let ownIsSending = true;
    const it = subject({ observers: all(() => (ownIsSending ? RECORDED : refused('bad-signature'))) });
    await post(it.app, jwsOf(beatOf({ seq: 1 }), { kid: 'own' }), from('192.0.2.1'));
    ownIsSending = false;
    await sendUntilLimited(it, () => from('198.51.100.1'));

    const forged = await post(it.app, jwsOf(beatOf({ seq: 2 }), { kid: 'own' }), from('198.51.100.1'));

    expect(forged.status).toBe(429);
  });
});
