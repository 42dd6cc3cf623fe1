import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { importPublicKey, isSignedBy } from '../../protocol/jws.ts';
import { KEY_ANNOTATION, parseKeyAnnotation } from '../../protocol/keys.ts';
import { readEnrolment } from '../../node-beacon/enrolment-file.ts';
import { findKubeconfig } from '../../node-beacon/kubeconfig.ts';
import { loadOrMakeKey } from '../../node-beacon/key-file.ts';
import { flags, serveCluster, serveEdge, start, writeKubeconfig } from './support/beacon-process.ts';
import { eventually } from './support/eventually.ts';
import { temporaryFolder } from './support/folder.ts';
import { closedPort, sendJson, serve } from './support/local-server.ts';

/** A node with its kubelet and API server, and an edge. */
async function setUp() {
  const folder = await temporaryFolder();
  const edge = await serveEdge();
  const cluster = await serveCluster();
  const kubeconfig = await writeKubeconfig(folder, cluster.server.url);
  const local = ['--node=node-1', `--key-file=${join(folder, 'beacon.key')}`];
  const all = flags(folder, edge.server.url, cluster.server.url);
  return { folder, edge, cluster, kubeconfig, local, all };
}

describe('key', () => {
  test('makes one, and shows it again', async () => {
    const { local } = await setUp();
    const first = start('key', ...local);
    expect(await first.ended).toBe(0);
    expect(first.said.out).toMatch(
      /^made .*\nthumbprint [\w-]{43}\nan admin enrols it with: kubectl annotate/,
    );
    const second = start('key', ...local);
    expect(await second.ended).toBe(0);
    expect(second.said.out).toBe(first.said.out.replace('made', 'found'));
  });
});

describe('enrol', () => {
  test('annotates the Node, and leaves what the beacon may know for a beacon without a credential', async () => {
    const { folder, edge, cluster, kubeconfig, local, all } = await setUp();
    const record = join(folder, 'public/enrolment.json');
    const enrol = start('enrol', ...local, `--kubeconfig=${kubeconfig}`, `--enrolment-file=${record}`);
    expect(await enrol.ended).toBe(0);
    expect(enrol.said.out).toBe('enrolled: the Node node-1 (uid-of-node-1) now names this key\n');
    expect(await readFile(record, 'utf8')).not.toContain('secret');

    const status = join(folder, 'status.json');
    const beacon = start(...all, `--enrolment-file=${record}`, `--status-file=${status}`);
    await eventually(() => expect(edge.beats.at(-1)?.beat.api.state).toBe('ok'));
    const { jws = '', beat } = edge.beats.at(-1) ?? {};
    expect(beat?.uid).toBe('uid-of-node-1');
    const keys = parseKeyAnnotation(cluster.annotations[KEY_ANNOTATION]);
    expect(await isSignedBy(jws, await Promise.all(keys.map(importPublicKey)))).toBe(true);
    expect(beacon.said.err).not.toContain('kubelet.conf');
    await expect
      .poll(
        async () => {
          const shown = start('status', `--status-file=${status}`);
          return `${await shown.ended} ${shown.said.out}`;
        },
        { timeout: 15_000 },
      )
      .toMatch(/^0 beats +arrive\n/);
  });

  test('keeps the uid that it knows when the API server is away', async () => {
    const { folder, cluster, kubeconfig, local } = await setUp();
    const record = join(folder, 'enrolment.json');
    const args = ['enrol', ...local, `--kubeconfig=${kubeconfig}`, `--enrolment-file=${record}`];
    expect(await start(...args).ended).toBe(0);
    await cluster.server.close();
    const again = start(...args);
    expect(await again.ended).toBe(1);
    expect(again.said.out).toContain('the API server does not answer: tcp: nobody listens there');
    expect(await readEnrolment(record)).toMatchObject({
      record: { uid: 'uid-of-node-1', outcome: 'unreachable', api: { server: `${cluster.server.url}/` } },
    });
  });

  test.skipIf(findKubeconfig() !== undefined).for([
    { name: 'no kubeconfig yet: to be tried again', args: [], exit: 1, says: 'no kubeconfig (yet)' },
    {
      name: 'no kubeconfig, but a uid: an admin’s task',
      args: ['--node-uid=uid-1'],
      exit: 0,
      says: 'nothing to do',
    },
  ])('$name', async ({ args, exit, says }) => {
    const { local } = await setUp();
    const enrol = start('enrol', ...local, ...args);
    expect(await enrol.ended).toBe(exit);
    expect(enrol.said.out).toContain(says);
    expect(enrol.said.out).toContain('kubectl annotate node node-1 --overwrite farpulse/beacon-key=');
  });

  test('refused, it says why and what an admin runs', async () => {
    const { folder, local } = await setUp();
    const server = await serve((_request, response) =>
      sendJson(response, 403, { kind: 'Status', message: 'node "node-2" cannot read node "node-1"' }),
    );
    const enrol = start('enrol', ...local, `--kubeconfig=${await writeKubeconfig(folder, server.url)}`);
    expect(await enrol.ended).toBe(1);
    expect(enrol.said.out).toContain('may not read the Node node-1: answered 403: node "node-2" cannot');
    expect(enrol.said.out).toMatch(/kubectl annotate node node-1 --overwrite farpulse\/beacon-key=[\w-]{43}/);
  });
});

describe('check', () => {
  test('explains each step of a beat that is recorded, exit 0', async () => {
    const { edge, kubeconfig, all } = await setUp();
    const check = start('check', ...all, `--kubeconfig=${kubeconfig}`, '--check=gpu=/bin/false');
    expect(await check.ended).toBe(0);
    expect(edge.beats).toHaveLength(1);
    const steps = check.said.out.split('\n').map((line) => line.slice(0, 15).trim());
    expect(steps).toEqual([
      'settings',
      'ok  key',
      'kubeconfig',
      'ok  enrolment',
      'ok  kubelet',
      'check',
      'ok  connection',
      'ok  beat',
      '',
    ]);
    expect(check.said.out).toContain('recorded by weur, enam; a quorum is 2');
  });

  test('says what is wrong where several things are, exit 1', async () => {
    const { folder, all } = await setUp();
    const closed = `http://127.0.0.1:${await closedPort()}`;
    const check = start('check', ...all, `--kubeconfig=${await writeKubeconfig(folder, closed)}`);
    expect(await check.ended).toBe(1);
    expect(check.said.out).toMatch(/^NO {2}enrolment +the API server does not answer: tcp: nobody listens/m);
    expect(check.said.out).toMatch(/^ok {2}connection/m);
    expect(check.said.out).toMatch(/^NO {2}beat +not sent: the uid of the Node is not known/m);
  });

  test('tells what to do about a refusal', async () => {
    const { kubeconfig, all } = await setUp();
    const edge = await serve((_request, response) =>
      sendJson(response, 403, { type: 'about:blank', title: 'stranger', status: 403, code: 'stranger' }),
    );
    const check = start('check', ...all, `--endpoint=${edge.url}`, `--kubeconfig=${kubeconfig}`);
    expect(await check.ended).toBe(0); // by the other endpoint
    expect(check.said.out).toMatch(/^NO {2}beat +refused: stranger: stranger$/m);
    expect(check.said.out).toContain('observers do not know this key (yet)');
  });
});

describe('rotate-key', () => {
  test('goes from one key to the next by two, proves each step, and goes on where it was interrupted', async () => {
    const { folder, edge, cluster, kubeconfig, all } = await setUp();
    const keyFile = join(folder, 'beacon.key');
    const status = join(folder, 'status.json');
    const settings = [...all, `--kubeconfig=${kubeconfig}`, `--status-file=${status}`];
    const annotated = (): string[] =>
      parseKeyAnnotation(cluster.annotations[KEY_ANNOTATION]).map(({ x }) => x);

    const old = start(...settings);
    await eventually(() => expect(edge.beats.length).toBeGreaterThan(0));
    const { publicKey: oldKey } = await loadOrMakeKey(keyFile);

    // Nobody restarts the beacon: it stops after the keys were exchanged, with both of them good.
    const interrupted = start('rotate-key', ...settings);
    await eventually(() => expect(interrupted.said.out).toContain('RESTART THE BEACON NOW'));
    interrupted.process.kill('SIGKILL');
    await interrupted.ended;
    const { publicKey: newKey, kid } = await loadOrMakeKey(keyFile);
    expect(annotated()).toEqual([newKey.x, oldKey.x]);

    old.process.kill('SIGTERM');
    await old.ended;
    start(...settings);
    const again = start('rotate-key', ...settings);
    expect(await again.ended).toBe(0);
    expect(annotated()).toEqual([newKey.x]);
    expect((await loadOrMakeKey(keyFile)).kid).toBe(kid);
    expect(again.said.out).toContain('the old key is void');
  });

  test('a new key that no observer takes stays beside the old one', async () => {
    const { folder, cluster, kubeconfig, all } = await setUp();
    const keyFile = join(folder, 'beacon.key');
    const before = await loadOrMakeKey(keyFile);
    const closed = `http://127.0.0.1:${await closedPort()}`;
    const rest = all.filter((flag) => !flag.startsWith('--endpoint'));
    const rotation = start('rotate-key', ...rest, `--endpoint=${closed}`, `--kubeconfig=${kubeconfig}`);
    await eventually(() => expect(rotation.said.out).toContain('beside the old one'));
    expect((await loadOrMakeKey(keyFile)).kid).toBe(before.kid);
    const [, second] = parseKeyAnnotation(cluster.annotations[KEY_ANNOTATION]);
    expect(second).toEqual(before.publicKey);
  });
});
