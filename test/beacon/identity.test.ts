import { describe, expect, test } from 'vitest';
import type { PublicKey } from '../../protocol/keys.ts';
import { Identity } from '../../node-beacon/identity.ts';
import type { NodeAnswer, NodeApi } from '../../node-beacon/own-node.ts';
import { collectingLog } from './support/collecting-log.ts';
import { VirtualClock } from './support/virtual-clock.ts';

const KEY: PublicKey = { kty: 'OKP', crv: 'Ed25519', x: 'A'.repeat(43) };
const nodeWith = (uid: string): NodeAnswer => ({
  kind: 'node',
  node: { uid, resourceVersion: '1', keyAnnotation: KEY.x },
});

/** An identity whose API server answers what `answer` holds; every read is noted with its time. */
function setUp({
  answer = nodeWith('uid-1'),
  firstUid,
  withApi = true,
}: { answer?: NodeAnswer | Promise<NodeAnswer> | 'hangs'; firstUid?: string; withApi?: boolean } = {}) {
  const clock = new VirtualClock();
  clock.chance = 0.5;
  const { log, entries, events } = collectingLog();
  const server = { answer, reads: [] as number[] };
  const api: NodeApi = {
    read: async (_name, signal) => {
      server.reads.push(clock.monotonicMs());
      if (server.answer !== 'hangs') return server.answer;
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      return { kind: 'unreachable', why: 'timeout' };
    },
    annotate: () => Promise.resolve({ kind: 'denied', why: 'read only' }),
  };
  const uids: string[] = [];
  const identity = new Identity({
    node: 'node-1',
    key: KEY,
    api: withApi ? api : undefined,
    firstUid,
    clock,
    log,
    onUid: (uid) => uids.push(uid),
  });
  const stop = new AbortController();
  const running = identity.run(stop.signal);
  return { clock, identity, server, uids, stop, running, entries, events };
}

describe('the uid', () => {
  test('is read at the start', async () => {
    const { clock, identity, uids } = setUp();
    expect(identity.uid).toBeUndefined();
    await clock.advance(0);
    expect(identity.uid).toBe('uid-1');
    expect(uids).toEqual(['uid-1']);
  });

  test('known from before serves until the API server has answered, which has the last word', async () => {
    const { clock, identity, server, events } = setUp({ firstUid: 'uid-0', answer: 'hangs' });
    await clock.advance(9_000);
    expect(identity.uid).toBe('uid-0');
    server.answer = nodeWith('uid-1');
    await clock.advance(5_000);
    expect(identity.uid).toBe('uid-1');
    expect(events()).toContain('node-recreated');
  });

  test('stays when the Node is gone', async () => {
    const { clock, identity, server } = setUp();
    await clock.advance(0);
    server.answer = { kind: 'absent' };
    await clock.advance(700_000);
    expect(server.reads.length).toBeGreaterThan(1);
    expect(identity.uid).toBe('uid-1');
  });
});

describe('when the Node is read again', () => {
  test('every ten minutes while all is well, told once', async () => {
    const { clock, server, events } = setUp();
    await clock.advance(1_800_000);
    expect(server.reads).toEqual([0, 600_000, 1_200_000, 1_800_000]);
    expect(events()).toEqual(['enrolled']);
  });

  test('after a failure with jittered, doubling pauses up to a minute, told once', async () => {
    const { clock, server, events } = setUp({ answer: { kind: 'unreachable', why: 'tcp: ECONNREFUSED' } });
    await clock.advance(180_000);
    const pauses = server.reads.slice(1).map((atMs, index) => atMs - (server.reads[index] ?? 0));
    expect(pauses).toEqual([500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000, 30_000]);
    expect(events()).toEqual(['not-enrolled']);
  });

  test('a read that hangs is given up after ten seconds', async () => {
    const { clock, server } = setUp({ answer: 'hangs' });
    await clock.advance(10_500);
    expect(server.reads).toEqual([0, 10_500]);
  });

  test('within ten seconds after a doubt, and ever more rarely while doubts go on', async () => {
    const { clock, server, identity } = setUp();
    await clock.advance(1_000);
    const doubting = async (ms: number): Promise<void> => {
      for (let passed = 0; passed < ms; passed += 1_000) {
        identity.doubt();
        await clock.advance(1_000);
      }
    };
    await doubting(100_000);
    expect(server.reads).toEqual([0, 6_000, 16_000, 36_000, 76_000]);
  });

  test('a doubt while the Node is being read is not forgotten', async () => {
    const slow = Promise.withResolvers<NodeAnswer>();
    const { clock, server, identity } = setUp({ answer: slow.promise });
    await clock.advance(1_000);
    identity.doubt();
    slow.resolve(nodeWith('uid-1'));
    await clock.advance(10_000);
    expect(server.reads).toEqual([0, 6_000]);
  });

  test('a recorded beat makes the next doubt a fresh one', async () => {
    const { clock, server, identity } = setUp();
    await clock.advance(1_000);
    identity.doubt();
    await clock.advance(9_000);
    identity.confirm();
    identity.doubt();
    await clock.advance(10_000);
    expect(server.reads).toEqual([0, 6_000, 15_000]);
  });

  test('a Node that was re-created is noticed after a doubt', async () => {
    const { clock, server, identity, uids } = setUp();
    await clock.advance(1_000);
    server.answer = nodeWith('uid-2');
    identity.doubt();
    await clock.advance(5_000);
    expect(uids).toEqual(['uid-1', 'uid-2']);
  });

  test('not any more once the beacon stops', async () => {
    const { clock, server, stop, running } = setUp();
    await clock.advance(1_000);
    stop.abort();
    await running;
    await clock.advance(3_600_000);
    expect(server.reads).toEqual([0]);
  });
});

describe('an admin is shown the command', () => {
  const command = `kubectl annotate node node-1 --overwrite farpulse/beacon-key=${KEY.x}`;

  test('where there is no kubeconfig', async () => {
    const { running, entries } = setUp({ withApi: false, firstUid: 'uid-0' });
    await running;
    expect(entries).toMatchObject([{ event: 'not-enrolling', fields: { admin: command } }]);
  });

  test('where the credential may not annotate', async () => {
    const unannotated: NodeAnswer = {
      kind: 'node',
      node: { uid: 'uid-1', resourceVersion: '1', keyAnnotation: undefined },
    };
    const { clock, identity, entries } = setUp({ answer: unannotated });
    await clock.advance(0);
    expect(entries).toMatchObject([
      { event: 'not-enrolled', fields: { kind: 'not-annotated', admin: command } },
    ]);
    expect(identity.uid).toBe('uid-1');
  });

  test('but not where time will do', async () => {
    const { clock, entries } = setUp({ answer: { kind: 'absent' } });
    await clock.advance(0);
    expect(entries.map(({ fields }) => fields['admin'])).toEqual([undefined]);
  });
});
