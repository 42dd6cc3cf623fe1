import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isSystemStopping, leavingSign } from '../../node-beacon/leaving.ts';
import { temporaryFolder } from './support/folder.ts';

/** Stands in for systemctl. */
async function command(script: string): Promise<string> {
  const path = join(await temporaryFolder(), 'systemctl');
  await writeFile(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return path;
}

test.for([
  {
    name: 'stopping, with the exit status that systemd gives it',
    script: 'echo stopping; exit 1',
    stopping: true,
  },
  { name: 'running', script: 'echo running', stopping: false },
  { name: 'degraded, which is an error too', script: 'echo degraded; exit 1', stopping: false },
])('systemd’s state: $name', async ({ script, stopping }) => {
  expect(await isSystemStopping(await command(script), 10_000)).toBe(stopping);
});

test('systemd’s answer is not waited for longer than a farewell allows', async () => {
  expect(await isSystemStopping(await command('exec sleep 60'))).toBe(false);
});

test('without systemd the machine is not known to stop', async () => {
  expect(await isSystemStopping(join(await temporaryFolder(), 'not-there'))).toBe(false);
});

test('the machine leaves for longer than the beacon alone', async () => {
  const host = await leavingSign('SIGTERM', () => Promise.resolve(true));
  const beacon = await leavingSign('SIGTERM', () => Promise.resolve(false));
  expect(host).toMatchObject({ what: 'host', forMs: 900_000 });
  expect(beacon).toEqual({ what: 'beacon', reason: 'SIGTERM', forMs: 120_000 });
});
