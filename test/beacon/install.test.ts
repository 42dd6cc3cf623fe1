import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments } from 'yaml';
import { describe, expect, test } from 'vitest';
import { INSTALLED_FILES } from '../../node-beacon/packaging/files.ts';
import { parseSettings } from '../../node-beacon/settings.ts';
import { startProcess } from './support/beacon-process.ts';
import { temporaryFolder } from './support/folder.ts';

const PACKAGING = fileURLToPath(new URL('../../node-beacon/packaging/', import.meta.url));

/** A root to install into, and an executable that is good enough to be installed. */
async function setUp(script = 'exit 0') {
  const folder = await temporaryFolder();
  const executable = join(folder, 'beacon');
  await writeFile(executable, `#!/bin/sh\n${script}\n`);
  const settings = join(folder, 'beacon.env');
  await writeFile(settings, 'FARPULSE_CLUSTER=berlin\n');
  const root = join(folder, 'root');
  const install = async (...args: string[]): Promise<string> => {
    const env = { PATH: process.env['PATH'], DESTDIR: root };
    const run = startProcess('/bin/sh', [join(PACKAGING, 'install.sh'), ...args], env);
    return `${await run.ended} ${run.said.out.trim() || run.said.err.trim()}`;
  };
  return { executable, settings, root, install };
}

async function filesBelow(root: string): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

describe('install.sh', () => {
  test('installs, changes nothing when it is run again, and what is new when something is', async () => {
    const { executable, settings, root, install } = await setUp();
    expect(await install(executable, '--settings', settings)).toBe('0 changed');
    const units = INSTALLED_FILES.flatMap(
      ([from]) => /systemd\/(.+\.(?:service|path|timer))$/.exec(from)?.[1] ?? [],
    );
    expect((await filesBelow(root)).toSorted()).toEqual(
      ['beacon.env', 'farpulse-beacon', 'farpulse-beacon.conf', ...units].toSorted(),
    );
    expect((await stat(join(root, 'etc/farpulse/beacon.env'))).mode & 0o777).toBe(0o600);
    expect(await install(executable, '--settings', settings)).toBe('0 unchanged');
    expect(await install(executable)).toBe('0 unchanged');
    await writeFile(settings, 'FARPULSE_CLUSTER=paris\n');
    expect(await install(executable, '--settings', settings)).toBe('0 changed');
    expect(await readFile(join(root, 'etc/farpulse/beacon.env'), 'utf8')).toContain('paris');
  });

  test('uninstalls, and takes key and settings only when asked', async () => {
    const { executable, settings, root, install } = await setUp();
    await install(executable, '--settings', settings);
    expect(await install('--uninstall')).toBe('0 changed');
    expect(await filesBelow(root)).toEqual(['beacon.env']);
    expect(await install('--uninstall', '--purge')).toBe('0 changed');
    expect(await filesBelow(root)).toEqual([]);
    expect(await install('--uninstall', '--purge')).toBe('0 unchanged');
  });

  test('refuses an executable that does not run here, before anything is replaced', async () => {
    const { executable, root, install } = await setUp('exit 126');
    expect(await install(executable)).toMatch(/^1 install\.sh: .* does not run on this machine/);
    await expect(readdir(root)).rejects.toThrow('ENOENT');
  });
});

test('the DaemonSet’s settings are the beacon’s, and only its second container sees a credential', async () => {
  const documents = parseAllDocuments(await readFile(join(PACKAGING, 'daemonset.yaml'), 'utf8'));
  const [, settings, daemonSet] = documents.map((document): unknown => document.toJS()) as [
    unknown,
    { data: Record<string, string> },
    {
      spec: {
        template: {
          spec: {
            containers: { name: string; args: string[]; volumeMounts: { mountPath: string }[] }[];
          };
        };
      };
    },
  ];
  const env = { ...settings.data, FARPULSE_NODE: 'node-1' };
  expect(parseSettings(['run'], env)).toMatchObject({ kind: 'command', unknownVariables: [] });
  expect(parseSettings(['enrol'], env)).toMatchObject({ kind: 'local-command' });
  const [beacon, enrol] = daemonSet.spec.template.spec.containers;
  const seenBy = (container: typeof beacon): string[] =>
    container?.volumeMounts.map(({ mountPath }) => mountPath) ?? [];
  expect(seenBy(beacon)).toEqual(['/var/lib/farpulse']);
  expect(seenBy(enrol)).toContain('/etc/kubernetes/kubelet.conf');
});
