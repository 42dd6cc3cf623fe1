import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { ManagedProcess, removeAtEnd, removeNow } from '../../cli/local/processes.ts';
import { StatusClient } from '../../cli/local/status-client.ts';
import { startControlPlane, type ControlPlane } from './control-plane.ts';

/* `npm start -- --kubeconfig FILE` against a real API server: it lists, it shows, it writes nothing. */

/** Whoever runs the demo; it may do everything, and does not. */
const OBSERVER = { user: 'somebody', groups: ['system:masters'] };

let plane: ControlPlane;
let folder: string;
let demo: ManagedProcess | undefined;

beforeAll(async () => {
  plane = await startControlPlane({
    nodeNames: ['node-1', 'node-2'],
    extraTokens: [OBSERVER],
    auditUsers: [OBSERVER.user],
  });
  folder = await mkdtemp(join(tmpdir(), 'farpulse-observe-test-'));
  removeAtEnd(folder);
  for (const name of ['node-1', 'node-2']) await plane.startKubelet(name, { zone: 'zone-a' });
}, 1_500_000);

afterAll(async () => {
  await demo?.end('SIGTERM');
  await plane?.stop();
  if (folder !== undefined) await removeNow(folder);
}, 60_000);

test('a real cluster is observed by its kubeconfig, and nothing is written to it', async () => {
  const logFile = join(folder, 'demo.log');
  const kubeconfig = await plane.writeKubeconfig(OBSERVER.user);
  demo = await ManagedProcess.start({
    name: 'farpulse demo',
    command: process.execPath,
    args: [join(import.meta.dirname, '../../cli/demo.ts'), '--kubeconfig', kubeconfig],
    logFile,
  });
  const url = await plane.waitFor(
    'the page address and the list of Nodes',
    async (note) => {
      const log = await readFile(logFile, 'utf8');
      note(log);
      return log.includes('Nodes:  2, of which 0 have') && /Page: +(\S+)\//.exec(log)?.[1];
    },
    { timeoutMs: 120_000, giveUp: demo.died },
  );
  const status = new StatusClient(url, 'demo');
  expect((await status.cluster()).mode).toBe('observe');
  expect((await status.nodes()).map(({ name, phase }) => [name, phase])).toEqual([
    ['node-1', 'unenrolled'],
    ['node-2', 'unenrolled'],
  ]);
  await demo.end('SIGTERM');
  expect(demo.running).toBe(false);
  const asked = await plane.auditLog();
  expect(asked.length).toBeGreaterThan(0);
  expect(asked.filter(({ verb }) => !['get', 'list', 'watch'].includes(verb))).toEqual([]);
}, 180_000);
