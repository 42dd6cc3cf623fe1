import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { importPublicKey, isSignedBy } from '../../protocol/jws.ts';
import { KEY_ANNOTATION, parseKeyAnnotation } from '../../protocol/keys.ts';
import { findKubeconfig } from '../../node-beacon/kubeconfig.ts';
import { flags, serveCluster, serveEdge, start, writeKubeconfig } from './support/beacon-process.ts';
import { eventually } from './support/eventually.ts';
import { temporaryFolder } from './support/folder.ts';
import { serve } from './support/local-server.ts';

describe('the executable', () => {
  test('enrols itself, beats with its signs, and says goodbye', async () => {
    const folder = await temporaryFolder();
    const edge = await serveEdge();
    const cluster = await serveCluster();
    const kubeconfig = await writeKubeconfig(folder, cluster.server.url);
    const beacon = start(...flags(folder, edge.server.url, cluster.server.url), `--kubeconfig=${kubeconfig}`);

    await eventually(() => expect(edge.beats.at(-1)?.beat.api.state).toBe('ok'));
    await eventually(() =>
      expect(edge.beats.at(-1)?.beat.kubelet).toEqual({ state: 'ok', okThisBoot: true }),
    );
    const count = edge.beats.length;
    await eventually(() => expect(edge.beats.length).toBeGreaterThan(count + 1));
    const { jws = '', beat } = edge.beats.at(-1) ?? {};
    expect(beat).toMatchObject({
      aud: 'test/berlin',
      node: 'node-1',
      uid: 'uid-of-node-1',
      intervalMs: 1_000,
    });
    const keys = parseKeyAnnotation(cluster.annotations[KEY_ANNOTATION]);
    expect(keys).toHaveLength(1);
    expect(await isSignedBy(jws, await Promise.all(keys.map(importPublicKey)))).toBe(true);
    // On a busy machine a beat may have been tried twice: then it is the very same one.
    const distinct = [...new Map(edge.beats.map(({ jws: each, beat: { seq } }) => [each, seq])).values()];
    expect(distinct).toEqual([...new Set(distinct)].toSorted((a, b) => a - b));

    beacon.process.kill('SIGTERM');
    expect(await beacon.ended).toBe(0);
    expect(edge.beats.at(-1)?.beat.leaving).toMatchObject({ what: 'beacon', reason: 'SIGTERM' });
    expect(beacon.said.err.match(/event=\S+/g)).toEqual(
      expect.arrayContaining([
        'event=started',
        'event=enrolled',
        'event=beats-delivered',
        'event=kubelet-ok',
        'event=leaving',
      ]),
    );
  });

  test('after kill -9 goes on with the same key and what it knew, without API server and kubelet', async () => {
    const folder = await temporaryFolder();
    const edge = await serveEdge();
    const cluster = await serveCluster();
    const kubeconfig = await writeKubeconfig(folder, cluster.server.url);
    const all = [...flags(folder, edge.server.url, cluster.server.url), `--kubeconfig=${kubeconfig}`];
    const first = start(...all);
    await eventually(() => expect(edge.beats.at(-1)?.beat.kubelet.state).toBe('ok'));
    const memory = join(folder, 'memory.json');
    await eventually(() => expect(first.said.err).toContain('event=enrolled'));
    // Both facts are on the disk before the process dies.
    await expect
      .poll(() => readFile(memory, 'utf8').catch(() => ''), { timeout: 15_000 })
      .toMatch(/uid-of-node-1.*boot|boot.*uid-of-node-1/);
    first.process.kill('SIGKILL');
    expect(await first.ended).toBe('SIGKILL');
    const before = edge.beats.at(-1);
    const count = edge.beats.length;
    await cluster.server.close();

    start(...all);
    await eventually(() =>
      expect(edge.beats.at(-1)?.beat.kubelet).toMatchObject({ state: 'down', okThisBoot: true }),
    );
    const after = edge.beats[count];
    expect(after?.beat).toMatchObject({ uid: 'uid-of-node-1', boot: before?.beat.boot });
    expect(after?.beat.seq).toBeGreaterThan(before?.beat.seq ?? Infinity);
    const keys = parseKeyAnnotation(cluster.annotations[KEY_ANNOTATION]);
    expect(await isSignedBy(after?.jws ?? '', await Promise.all(keys.map(importPublicKey)))).toBe(true);
  });

  test('stops in time when nobody answers', async () => {
    const folder = await temporaryFolder();
    const edge = await serve(() => {});
    const beacon = start(...flags(folder, edge.url, edge.url), '--node-uid=uid-1', '--no-api-check');
    await eventually(() => expect(edge.requests.some(({ path }) => path === '/v1/beats')).toBe(true));
    const askedAtMs = performance.now();
    beacon.process.kill('SIGTERM');
    expect(await beacon.ended).toBe(0);
    expect(performance.now() - askedAtMs).toBeLessThan(3_000);
    expect(beacon.said.err).toMatch(/event=leaving what=beacon reason=SIGTERM said=failed/);
  });

  test('without a kubeconfig it beats with the given uid and shows an admin the command', async () => {
    const folder = await temporaryFolder();
    const edge = await serveEdge();
    const known = findKubeconfig() !== undefined ? ['--kubeconfig=/nowhere/kubelet.conf'] : [];
    const beacon = start(...flags(folder, edge.server.url, edge.server.url), '--node-uid=uid-1', ...known);
    await eventually(() => expect(edge.beats.at(-1)?.beat.uid).toBe('uid-1'));
    await eventually(() =>
      expect(beacon.said.err).toMatch(
        /admin="kubectl annotate node node-1 --overwrite farpulse\/beacon-key=[\w-]{43}"/,
      ),
    );
  });
});

describe('what ends it at the start', () => {
  test('a wrong setting: named, exit 2', async () => {
    const beacon = start('--interval-seconds', 'soon');
    expect(await beacon.ended).toBe(2);
    expect(beacon.said.err).toContain(
      'farpulse-beacon: --interval-seconds "soon": expected a number from 1 to 300\n',
    );
    expect(beacon.said.err).toContain('farpulse-beacon: --cluster (or FARPULSE_CLUSTER): missing');
  });

  test.skipIf(findKubeconfig() !== undefined)(
    'no kubeconfig and no uid: how to get one, exit 2',
    async () => {
      const folder = await temporaryFolder();
      const beacon = start(...flags(folder, 'https://a.invalid', 'http://127.0.0.1'));
      expect(await beacon.ended).toBe(2);
      expect(beacon.said.err).toContain("kubectl get node node-1 -o jsonpath='{.metadata.uid}'");
      expect(beacon.said.err).toMatch(
        /kubectl annotate node node-1 --overwrite farpulse\/beacon-key=[\w-]{43}/,
      );
    },
  );

  test('a key file that is none: named, exit 1', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'beacon.key'), 'rubbish');
    const beacon = start(...flags(folder, 'https://a.invalid', 'http://127.0.0.1'), '--node-uid=uid-1');
    expect(await beacon.ended).toBe(1);
    expect(beacon.said.err).toContain(join(folder, 'beacon.key'));
  });
});

describe('what it says and ends', () => {
  test('--help: the settings, exit 0', async () => {
    const beacon = start('--help');
    expect(await beacon.ended).toBe(0);
    expect(beacon.said.out).toContain('--kubelet-healthz URL');
  });

  test('--version: the release of package.json, exit 0', async () => {
    const beacon = start('--version');
    expect(await beacon.ended).toBe(0);
    const { version } = JSON.parse(
      await readFile(new URL('../../package.json', import.meta.url), 'utf8'),
    ) as { version: string };
    expect(beacon.said.out).toBe(`farpulse-beacon/${version}\n`);
  });
});
