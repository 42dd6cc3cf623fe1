import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { envNameOf, SETTINGS } from '../../node-beacon/setting-table.ts';
import { parseSettings } from '../../node-beacon/settings.ts';
import { temporaryFolder } from './support/folder.ts';

const FOLDER = fileURLToPath(new URL('../../node-beacon/systemd/', import.meta.url));
const SERVICES = ['farpulse-beacon', 'farpulse-beacon-enrol', 'farpulse-beacon-key'];
/** What `systemd-analyze security` may come to: 0 is shut off from everything, 10 from nothing. */
const MOST_EXPOSURE = 2;
const hasSystemd = existsSync('/usr/bin/systemd-analyze');

const execute = promisify(execFile);

describe.skipIf(!hasSystemd)('systemd', () => {
  test('takes the units without a complaint', async () => {
    const folder = await temporaryFolder();
    await cp(FOLDER, folder, { recursive: true });
    const units = (await readdir(folder)).filter((name) => /\.(service|path|timer)$/.test(name));
    expect(units).toHaveLength(5);
    const { stdout, stderr } = await execute('systemd-analyze', [
      'verify',
      ...units.map((name) => join(folder, name)),
    ]).catch((error: { stdout: string; stderr: string }) => error);
    // That the beacon is not installed on this machine is no fault of the units.
    const complaints = `${stdout}${stderr}`
      .split('\n')
      .filter((line) => line !== '' && !line.includes('Command /usr/bin/farpulse-beacon is not executable'));
    expect(complaints).toEqual([]);
  });

  test.for(SERVICES)('finds little of the system exposed to %s', async (name) => {
    const { stdout } = await execute('systemd-analyze', [
      'security',
      '--offline=true',
      join(FOLDER, `${name}.service`),
    ]);
    const score = Number(/exposure level for .*: ([\d.]+)/.exec(stdout)?.[1]);
    expect(score).toBeGreaterThan(0);
    expect(score).toBeLessThanOrEqual(MOST_EXPOSURE);
  });
});

test('the example of the environment names every setting, and no other', async () => {
  const example = await readFile(join(FOLDER, 'beacon.env.example'), 'utf8');
  const named = example.match(/^#?FARPULSE_\w+(?==)/gm)?.map((name) => name.replace('#', ''));
  expect(named?.toSorted()).toEqual(SETTINGS.map(({ name }) => envNameOf(name)).toSorted());
});

/** What a unit runs, as the beacon will see it. */
async function commandLineOf(name: string): Promise<string[]> {
  const unit = (await readFile(join(FOLDER, `${name}.service`), 'utf8')).replaceAll('\\\n', ' ');
  const line = /^ExecStart=\/usr\/bin\/farpulse-beacon (.*)$/m.exec(unit)?.[1] ?? '';
  return line.replaceAll('${CREDENTIALS_DIRECTORY}', '/run/credentials').split(/\s+/);
}

test.for(SERVICES)('the command line of %s is understood', async (name) => {
  const env = {
    FARPULSE_ENDPOINT: 'https://a.example',
    FARPULSE_DEPLOYMENT: 'prod',
    FARPULSE_CLUSTER: 'berlin',
    FARPULSE_NODE: 'node-1',
  };
  const parsed = parseSettings(await commandLineOf(name), env);
  expect(parsed.kind).toMatch(/command$/);
});

test('the beacon asks for an enrolment where the path unit looks', async () => {
  const parsed = parseSettings(await commandLineOf('farpulse-beacon'), {
    FARPULSE_ENDPOINT: 'https://a.example',
    FARPULSE_DEPLOYMENT: 'prod',
    FARPULSE_CLUSTER: 'berlin',
    FARPULSE_NODE: 'node-1',
  });
  const watched = /^PathChanged=(.*)$/m.exec(
    await readFile(join(FOLDER, 'farpulse-beacon-enrol.path'), 'utf8'),
  )?.[1];
  expect(parsed).toMatchObject({ settings: { enrolWantedFile: watched } });
});

test('nothing in the unit can end the beacon for good', async () => {
  const lines = (await readFile(join(FOLDER, 'farpulse-beacon.service'), 'utf8')).split('\n');
  expect(lines).toContain('Restart=always');
  expect(lines).toContain('StartLimitIntervalSec=0');
  expect(lines.filter((line) => line.startsWith('RestartPreventExitStatus'))).toEqual([]);
});

test('the process that talks to the network is not root and reads nothing of the kubelet', async () => {
  const unit = await readFile(join(FOLDER, 'farpulse-beacon.service'), 'utf8');
  expect(unit).toMatch(/^User=farpulse-beacon$/m);
  expect(await commandLineOf('farpulse-beacon')).toContain(
    '--enrolment-file=/var/lib/farpulse/enrolment.json',
  );
});
