import { copyFile, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { ManagedProcess, removeAtEnd, removeNow } from '../../cli/local/processes.ts';
import { buildExecutable } from '../../node-beacon/packaging/executable.ts';
import { hostTarget } from '../../node-beacon/packaging/targets.ts';
import { KEY_ANNOTATION } from '../../protocol/keys.ts';
import { EmptyRoot } from '../support/empty-root.ts';
import { startControlPlane, type ControlPlane } from './control-plane.ts';
import { Farpulse } from './farpulse.ts';

/*
 * The executable that `npm run build:beacon` makes, in a root folder with nothing but itself and its C library, joins
 * a real control plane by nothing but a kubelet's own credential.
 */

const NODE = 'node-1';

let plane: ControlPlane;
let farpulse: Farpulse;
let folder: string;
let beacon: ManagedProcess | undefined;

beforeAll(async () => {
  plane = await startControlPlane({ nodeNames: [NODE] });
  farpulse = await Farpulse.create(plane);
  await farpulse.startWorker({ mode: 'observe' });
  folder = await mkdtemp(join(tmpdir(), 'farpulse-executable-'));
  removeAtEnd(folder);
}, 1_500_000);

afterAll(async () => {
  await beacon?.end('SIGKILL');
  await farpulse?.stop();
  await plane?.stop();
  await removeNow(folder);
}, 60_000);

test('it annotates its Node, is heard by every observer, and its goodbye is understood', async () => {
  const target = hostTarget();
  if (target === undefined) throw new Error(`no executable is made for ${process.platform}-${process.arch}`);
  const executable = join(folder, 'farpulse-beacon');
  await buildExecutable(join(import.meta.dirname, '../..'), target, executable);
  const kubelet = await plane.startKubelet(NODE, { zone: 'zone-a' });
  await plane.waitForLease(NODE);

  const root = await EmptyRoot.make(join(folder, 'root'), executable);
  await copyFile(kubelet.kubeconfig, join(root.folder, 'kubelet.conf'));
  const settings = {
    endpoint: farpulse.url,
    deployment: 'test',
    cluster: 'lab',
    node: NODE,
    kubeconfig: '/kubelet.conf',
    'key-file': '/state/beacon.key',
    'kubelet-healthz': kubelet.healthzUrl,
    'interval-seconds': '10',
  };
  const { command, args } = root.command(
    ...Object.entries(settings).map(([name, value]) => `--${name}=${value}`),
  );
  beacon = await ManagedProcess.start({
    name: 'the compiled beacon',
    command,
    args,
    env: { PATH: '/nonexistent' },
    logFile: join(folder, 'beacon.log'),
  });

  const node = await farpulse.waitForNode(
    NODE,
    'heard by every observer, with its signs',
    ({ phase, lastHeard, kubelet: sign, api }) =>
      phase === 'alive' &&
      lastHeard.length === 3 &&
      lastHeard.every(({ sight }) => sight === 'heard') &&
      sign?.state === 'ok' &&
      api?.state === 'ok',
    180_000,
  );
  expect(node.beacon).toMatch(/^farpulse-beacon\//);
  const { metadata } = await plane.node(NODE);
  expect(metadata.annotations?.[KEY_ANNOTATION]).toMatch(/^[\w-]{43}$/);

  await beacon.end('SIGTERM');
  await farpulse.waitForPhase(NODE, 'leaving', 120_000);
});
