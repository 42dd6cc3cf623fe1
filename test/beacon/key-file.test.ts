import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type Beat, WIRE_VERSION } from '../../protocol/beat.ts';
import { digestOf, importPublicKey, isSignedBy, thumbprintOf } from '../../protocol/jws.ts';
import { signerWith } from '../../node-beacon/beat-maker.ts';
import { KeyFileError, loadOrMakeKey } from '../../node-beacon/key-file.ts';
import { temporaryFolder } from './support/folder.ts';

const BEAT: Beat = {
  v: WIRE_VERSION,
  aud: 'test/berlin',
  node: 'node-1',
  uid: 'uid-1',
  boot: '11111111-2222-3333-4444-555555555555',
  seq: 1,
  intervalMs: 10_000,
  sentAtMs: 0,
  kubelet: { state: 'unknown', okThisBoot: false },
  api: { state: 'unknown' },
  beacon: 'test',
};

async function modeOf(path: string): Promise<number> {
  return (await stat(path)).mode & 0o777;
}

describe('the first start', () => {
  test('makes a key in a folder of its own, closed to everybody else, and leaves nothing beside it', async () => {
    const folder = join(await temporaryFolder(), 'new', 'farpulse');
    const key = await loadOrMakeKey(join(folder, 'beacon.key'));
    expect(key.made).toBe(true);
    expect(await modeOf(join(folder, 'beacon.key'))).toBe(0o600);
    expect(await modeOf(folder)).toBe(0o700);
    expect(await readdir(folder)).toEqual(['beacon.key']);
  });

  test('makes one key when several beacons start at the same time', async () => {
    const path = join(await temporaryFolder(), 'beacon.key');
    const keys = await Promise.all(Array.from({ length: 8 }, () => loadOrMakeKey(path)));
    expect(new Set(keys.map(({ kid }) => kid)).size).toBe(1);
    expect(keys.filter(({ made }) => made)).toHaveLength(1);
  });
});

describe('every later start', () => {
  test('finds the same key and does not touch the file', async () => {
    const path = join(await temporaryFolder(), 'beacon.key');
    const first = await loadOrMakeKey(path);
    const before = await readFile(path, 'utf8');
    const second = await loadOrMakeKey(path);
    expect(second).toMatchObject({ kid: first.kid, publicKey: first.publicKey, made: false });
    expect(await readFile(path, 'utf8')).toBe(before);
  });

  test('closes a key file that was left open', async () => {
    const path = join(await temporaryFolder(), 'beacon.key');
    await loadOrMakeKey(path);
    await chmod(path, 0o644);
    await loadOrMakeKey(path);
    expect(await modeOf(path)).toBe(0o600);
  });

  test.for([
    { name: 'empty', content: '' },
    { name: 'no JSON', content: '-----BEGIN PRIVATE KEY-----' },
    {
      name: 'only a public key',
      content: '{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}',
    },
    {
      name: 'a key of another kind',
      content:
        '{"kty":"OKP","crv":"X25519","x":"hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo","d":"dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo"}',
    },
  ])('refuses a file that is $name, and does not write over it', async ({ content }) => {
    const path = join(await temporaryFolder(), 'beacon.key');
    await writeFile(path, content, { mode: 0o600 });
    await expect(loadOrMakeKey(path)).rejects.toThrow(KeyFileError);
    await expect(loadOrMakeKey(path)).rejects.toThrow(path);
    expect(await readFile(path, 'utf8')).toBe(content);
  });

  test('refuses a path that is no file', async () => {
    const path = join(await temporaryFolder(), 'beacon.key');
    await mkdir(path);
    await expect(loadOrMakeKey(path)).rejects.toThrow(KeyFileError);
  });
});

test('what it signs verifies with its public key and with no other, and goes by its digest', async () => {
  const folder = await temporaryFolder();
  const key = await loadOrMakeKey(join(folder, 'beacon.key'));
  const other = await loadOrMakeKey(join(folder, 'other.key'));
  const { jws, digest } = await signerWith(key)(BEAT);
  expect(await isSignedBy(jws, [await importPublicKey(key.publicKey)])).toBe(true);
  expect(await isSignedBy(jws, [await importPublicKey(other.publicKey)])).toBe(false);
  expect(digest).toBe(await digestOf(jws));
  expect(key.kid).toBe(await thumbprintOf(key.publicKey));
});
