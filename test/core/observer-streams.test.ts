import { describe, expect, test } from 'vitest';
import { MAX_STREAMS, type Stream } from '../../worker/core/observer/state.ts';
import { admit } from '../../worker/core/observer/streams.ts';
import { aBeat } from '../support/simulator/builders.ts';

const HOUR_MS = 3_600_000;
const NOW_MS = 50 * HOUR_MS;

function stream(boot: string, highestSeq: number, sentAtMs = NOW_MS): Stream {
  return { boot, highestSeq, digest: `${boot}:${highestSeq}`, sentAtMs, advancedAtMs: NOW_MS };
}

const KNOWN = [stream('boot-000b', 500), stream('boot-000a', 900)];

describe('a verified beat', () => {
  test.for([
    {
      name: 'of an unknown node begins its first stream',
      streams: [],
      boot: 'boot-000a',
      seq: 7,
      kind: 'advanced',
    },
    {
      name: 'above the highest sequence advances its stream',
      streams: KNOWN,
      boot: 'boot-000b',
      seq: 501,
      kind: 'advanced',
    },
    {
      name: 'that is the very same again moves nothing',
      streams: KNOWN,
      boot: 'boot-000b',
      seq: 500,
      kind: 'again',
    },
    {
      name: 'with a known sequence and another content is a replay',
      streams: KNOWN,
      boot: 'boot-000b',
      seq: 500,
      digest: 'other',
      kind: 'replayed',
    },
    {
      name: 'below the highest sequence is a replay',
      streams: KNOWN,
      boot: 'boot-000b',
      seq: 499,
      kind: 'replayed',
    },
    {
      name: 'of a new boot begins a stream, whatever its sequence',
      streams: KNOWN,
      boot: 'boot-000c',
      seq: 1,
      kind: 'advanced',
    },
    {
      name: 'of a new boot whose clock is half an hour behind is no replay',
      streams: KNOWN,
      boot: 'boot-000c',
      seq: 1,
      sentAtMs: NOW_MS - HOUR_MS / 2,
      kind: 'advanced',
    },
    {
      name: 'of an unknown boot sent more than an hour before the newest is a replay',
      streams: KNOWN,
      boot: 'boot-000c',
      seq: 1,
      sentAtMs: NOW_MS - HOUR_MS - 1,
      kind: 'replayed',
    },
    {
      name: 'of a known boot counts although its clock was set back a day',
      streams: KNOWN,
      boot: 'boot-000b',
      seq: 501,
      sentAtMs: NOW_MS - 24 * HOUR_MS,
      kind: 'advanced',
    },
  ])('$name', ({ streams, boot, seq, sentAtMs = NOW_MS, digest = `${boot}:${seq}`, kind }) => {
    expect(admit(streams, aBeat('node-1', seq, { boot, sentAtMs }), digest, NOW_MS).kind).toBe(kind);
  });

  test('that is a replay is answered with the highest known sequence, to go on above', () => {
    expect(admit(KNOWN, aBeat('node-1', 3, { boot: 'boot-000b' }), 'x', NOW_MS)).toMatchObject({
      highestSeq: 500,
    });
  });

  test('of an older boot than the newest shows a duplicate identity, and still counts', () => {
    const admission = admit(KNOWN, aBeat('node-1', 901, { boot: 'boot-000a' }), 'x', NOW_MS);
    expect(admission).toMatchObject({ kind: 'advanced', duplicate: true });
  });

  test('of a ninth boot makes the oldest be forgotten', () => {
    const streams = Array.from({ length: MAX_STREAMS }, (_, i) => stream(`boot-10${i}0`, 5));
    const admission = admit(
      streams,
      aBeat('node-1', 1, { boot: 'boot-new1', sentAtMs: NOW_MS }),
      'x',
      NOW_MS,
    );
    expect(admission.kind === 'advanced' && admission.streams.map(({ boot }) => boot)).toEqual([
      'boot-new1',
      ...streams.slice(0, -1).map(({ boot }) => boot),
    ]);
  });
});
