import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { envNameOf, SETTINGS } from '../../node-beacon/setting-table.ts';

const FOLDER = new URL('../../node-beacon/systemd/', import.meta.url);
const UNIT = fileURLToPath(new URL('farpulse-beacon.service', FOLDER));

test.skipIf(!existsSync('/usr/bin/systemd-analyze'))(
  'systemd takes the unit without a complaint',
  async () => {
    const { stdout, stderr } = await promisify(execFile)('systemd-analyze', ['verify', UNIT]).catch(
      (error: { stdout: string; stderr: string }) => error,
    );
    // That this machine has no Node.js there is no fault of the unit.
    const complaints = `${stdout}${stderr}`
      .split('\n')
      .filter((line) => line !== '' && !line.includes('/usr/bin/node'));
    expect(complaints).toEqual([]);
  },
);

test('the example of the environment names every setting, and no other', async () => {
  const example = await readFile(new URL('beacon.env.example', FOLDER), 'utf8');
  const named = example.match(/^#?FARPULSE_\w+(?==)/gm)?.map((name) => name.replace('#', ''));
  expect(named?.toSorted()).toEqual(SETTINGS.map(({ name }) => envNameOf(name)).toSorted());
});

test('nothing in the unit can end the beacon for good', async () => {
  const lines = (await readFile(UNIT, 'utf8')).split('\n');
  expect(lines).toContain('Restart=always');
  expect(lines).toContain('StartLimitIntervalSec=0');
  expect(lines.filter((line) => line.startsWith('RestartPreventExitStatus'))).toEqual([]);
});
