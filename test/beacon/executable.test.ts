import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { buildDeb } from '../../node-beacon/packaging/deb.ts';
import { buildExecutable } from '../../node-beacon/packaging/executable.ts';
import { INSTALLED_FILES } from '../../node-beacon/packaging/files.ts';
import { runCommand } from '../../node-beacon/packaging/run-command.ts';
import { hostTarget } from '../../node-beacon/packaging/targets.ts';
import { BEACON_NAME, VERSION } from '../../node-beacon/version.ts';
import { EmptyRoot } from '../support/empty-root.ts';
import { flags, serveCluster, serveEdge, startProcess, writeKubeconfig } from './support/beacon-process.ts';
import { eventually } from './support/eventually.ts';
import { temporaryFolder } from './support/folder.ts';

const ROOT = join(import.meta.dirname, '../..');
const NOTHING = { PATH: '/nonexistent' };
const target = hostTarget();

describe.skipIf(target === undefined)('the compiled beacon', () => {
  let folder: string;
  let executable: string;

  beforeAll(async () => {
    if (target === undefined) return;
    folder = await mkdtemp(join(tmpdir(), 'farpulse-executable-'));
    executable = join(folder, 'farpulse-beacon');
    await buildExecutable(ROOT, target, executable);
    return () => rm(folder, { recursive: true, force: true });
  }, 180_000);

  test('is the same, byte for byte, when it is built again under another name', async () => {
    if (target === undefined) throw new Error('no target');
    const again = join(folder, 'elsewhere/another-name');
    await buildExecutable(ROOT, target, again);
    expect((await readFile(again)).equals(await readFile(executable))).toBe(true);
  });

  test('reads no .env and no bunfig of the folder it is started in', async () => {
    const here = await temporaryFolder();
    const root = await EmptyRoot.make(join(here, 'root'), executable);
    await root.write('/.env', 'FARPULSE_LOG_LEVEL=nonsense\n');
    await root.write('/bunfig.toml', 'preload = ["/missing.ts"]\n');
    const { command, args } = root.command('key', '--node=node-1', '--key-file=/beacon.key');
    const beacon = startProcess(command, args, NOTHING);
    expect(await beacon.ended, beacon.said.err).toBe(0);
    expect(beacon.said.out).toMatch(/^made \/beacon\.key\n/);
  });

  test('enrols, beats and says goodbye in a root folder that holds nothing but itself and its C library', async () => {
    const here = await temporaryFolder();
    const root = await EmptyRoot.make(join(here, 'root'), executable);
    const edge = await serveEdge();
    const cluster = await serveCluster();
    await root.write(
      '/kubelet.conf',
      await readFile(await writeKubeconfig(here, cluster.server.url), 'utf8'),
    );
    const settings = flags('/state', edge.server.url, cluster.server.url);
    const { command, args } = root.command(...settings, '--kubeconfig=/kubelet.conf');
    const beacon = startProcess(command, args, NOTHING);

    await eventually(() =>
      expect(edge.beats.at(-1)?.beat, beacon.said.err).toMatchObject({
        uid: 'uid-of-node-1',
        beacon: BEACON_NAME,
        kubelet: { state: 'ok', okThisBoot: true },
        api: { state: 'ok' },
      }),
    );
    beacon.process.kill('SIGTERM');
    expect(await beacon.ended).toBe(0);
    expect(edge.beats.at(-1)?.beat.leaving).toMatchObject({ what: 'beacon' });
    expect(beacon.said.err.match(/level=error.*/g)).toBeNull();
  });
});

test('a Debian package has the executable and its units, and is the same twice', async () => {
  const folder = await temporaryFolder();
  const executable = join(folder, 'farpulse-beacon');
  await writeFile(executable, 'as good as any');
  const first = join(folder, 'first.deb');
  const second = join(folder, 'second.deb');
  const parts = {
    root: ROOT,
    executable,
    architecture: 'amd64',
    version: VERSION,
    sourceDateEpoch: 1_700_000_000,
  };
  await buildDeb(parts, first);
  await buildDeb(parts, second);
  expect((await readFile(first)).equals(await readFile(second))).toBe(true);
  const listed = await runCommand('dpkg-deb', ['--contents', first]);
  for (const [, to] of INSTALLED_FILES) expect(listed).toContain(`./${to}\n`);
  expect(listed).toMatch(/-rwxr-xr-x root\/root .* \.\/usr\/bin\/farpulse-beacon\n/);
  expect(await runCommand('dpkg-deb', ['--field', first, 'Version'])).toBe(`${VERSION}\n`);
});
