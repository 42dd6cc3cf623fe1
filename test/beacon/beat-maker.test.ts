import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  type Beat,
  MAX_BEAT_BYTES,
  MAX_CHECK_NAME_LENGTH,
  MAX_CHECK_WHY_LENGTH,
  MAX_CHECKS,
  parseBeat,
} from '../../protocol/beat.ts';
import { peekBeat } from '../../protocol/jws.ts';
import { BeatMaker, type Signs, signerWith } from '../../node-beacon/beat-maker.ts';
import { readHost } from '../../node-beacon/host.ts';
import { loadOrMakeKey } from '../../node-beacon/key-file.ts';
import { clip, whyOf } from '../../node-beacon/text.ts';
import { temporaryFolder } from './support/folder.ts';

const CALM: Signs = { kubelet: { state: 'ok', okThisBoot: true }, api: { state: 'ok' } };

const MANY_CHECKS = Array.from({ length: MAX_CHECKS }, () => ({
  name: 'c'.repeat(MAX_CHECK_NAME_LENGTH),
  state: 'unknown' as const,
  why: '\u20ac'.repeat(MAX_CHECK_WHY_LENGTH),
}));

function makerOf(parts: Partial<ConstructorParameters<typeof BeatMaker>[0]> = {}): {
  maker: BeatMaker;
  beats: Beat[];
} {
  const beats: Beat[] = [];
  const maker = new BeatMaker({
    audience: 'test/berlin',
    node: 'node-1',
    bootId: '11111111-2222-3333-4444-555555555555',
    intervalMs: 10_000,
    beacon: 'test',
    uptimeMs: () => 5_000,
    wallMs: () => 1_234,
    signs: () => CALM,
    sign: (beat) => {
      beats.push(beat);
      return Promise.resolve({ jws: '', digest: '' });
    },
    ...parts,
  });
  return { maker, beats };
}

test('the sequence rises when the uptime stands still, falls, or two beats are made at once', async () => {
  let uptimeMs = 5_000;
  const { maker, beats } = makerOf({ uptimeMs: () => uptimeMs });
  await Promise.all([maker.make('uid'), maker.make('uid')]);
  uptimeMs = 100;
  await maker.make('uid');
  uptimeMs = 9_000;
  await maker.make('uid');
  expect(beats.map(({ seq }) => seq)).toEqual([5_000, 5_001, 5_002, 9_000]);
});

test('what the wire’s parser reads is what was put in', async () => {
  const leaving = { what: 'host', reason: 'reboot', forMs: 1_000 } as const;
  const checks = [{ name: 'gpu', state: 'failed', why: 'exit status 9' }] as const;
  const { maker, beats } = makerOf({ signs: () => ({ ...CALM, checks }) });
  await maker.make('uid-1', leaving);
  expect(parseBeat(beats[0])).toEqual({
    ok: true,
    beat: {
      v: 1,
      aud: 'test/berlin',
      node: 'node-1',
      uid: 'uid-1',
      boot: '11111111-2222-3333-4444-555555555555',
      seq: 5_000,
      intervalMs: 10_000,
      sentAtMs: 1_234,
      ...CALM,
      leaving,
      beacon: 'test',
      checks,
      features: ['checks', 'early-beat', 'leaving', 'rotation'],
    },
  });
});

test.for<{ name: string; fields: object }>([
  { name: 'checks that are no list', fields: { checks: 'gpu' } },
  { name: 'more checks than may be', fields: { checks: MANY_CHECKS.concat(MANY_CHECKS) } },
  { name: 'a state of a later release', fields: { checks: [{ name: 'gpu', state: 'degraded' }] } },
  { name: 'a feature that is no name', fields: { features: ['<b>'] } },
])('$name cost no beat: they are left out', async ({ fields }) => {
  const { maker, beats } = makerOf();
  await maker.make('uid-1');
  const parsed = parseBeat({ ...beats[0], features: undefined, ...fields });
  expect(parsed).toMatchObject({ ok: true, beat: { uid: 'uid-1' } });
  expect(parsed.ok && [parsed.beat.checks, parsed.beat.features]).toEqual([undefined, undefined]);
});

test('a beat with every field at its longest stays under the size that is refused unread', async () => {
  const key = await loadOrMakeKey(join(await temporaryFolder(), 'beacon.key'));
  const why = clip('\u20ac'.repeat(1_000));
  const { maker } = makerOf({
    audience: `${'d'.repeat(63)}/${'c'.repeat(63)}`,
    node: `${'n'.repeat(63)}.`.repeat(3) + 'n'.repeat(61),
    bootId: 'b'.repeat(64),
    beacon: 'v'.repeat(64),
    uptimeMs: () => Number.MAX_SAFE_INTEGER / 2 - 0.5,
    signs: () => ({
      kubelet: { state: 'unknown', okThisBoot: false, why },
      api: { state: 'unknown', why, roundTripMs: 123_456_789 },
      checks: MANY_CHECKS,
    }),
    sign: signerWith(key),
  });
  const { jws } = await maker.make('u'.repeat(64), { what: 'beacon', reason: why, forMs: 900_000 });
  expect(jws.length).toBeLessThan(MAX_BEAT_BYTES);
  expect(peekBeat(jws)).toMatchObject({ ok: true });
});

test('all checks with all their words go into a beat that has little else to say', async () => {
  const { maker, beats } = makerOf({ signs: () => ({ ...CALM, checks: MANY_CHECKS }) });
  await maker.make('uid-1');
  expect(beats[0]?.checks).toEqual(MANY_CHECKS);
});

test('text from elsewhere is one short line without control characters', () => {
  expect(clip(' a\u0000\r\n\u001b[31mb\u2028c ')).toBe('a [31mb c');
  expect(clip('x'.repeat(1_000))).toHaveLength(200);
  expect(clip(`${'x'.repeat(199)}\u{1f600}`).isWellFormed()).toBe(true);
  expect(whyOf(new AggregateError([new Error('v4'), new Error('v6')]))).toBe('v4; v6');
});

test.runIf(process.platform === 'linux')(
  'the host tells its boot id and an uptime that only rises',
  async () => {
    const host = readHost();
    expect(host.bootId).toBe((await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim());
    const first = host.uptimeMs();
    const seconds = Number.parseFloat(await readFile('/proc/uptime', 'utf8'));
    expect(Number.isSafeInteger(first)).toBe(true);
    expect(first).toBeLessThanOrEqual(seconds * 1_000);
    expect(host.uptimeMs()).toBeGreaterThanOrEqual(first);
  },
);
