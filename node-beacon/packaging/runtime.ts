import { createHash } from 'node:crypto';
import { access, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { runCommand } from './run-command.ts';

const Lock = z.object({
  packages: z.record(z.string(), z.object({ version: z.string(), integrity: z.string().optional() }).loose()),
});

/**
 * The runtime that an executable for `packageName` is made of: fetched by npm, believed only with the digest that the
 * lock file has for it, and kept for the next build. bun's own way would download it unchecked.
 */
export async function fetchRuntime(root: string, packageName: string): Promise<string> {
  const lock = Lock.parse(JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')));
  const locked = lock.packages[`node_modules/${packageName}`];
  if (locked?.integrity === undefined) throw new Error(`package-lock.json has no digest of ${packageName}`);
  const { version, integrity } = locked;

  const cache = join(root, 'node_modules/.cache/farpulse-beacon');
  const runtime = join(cache, `${packageName.replace('@oven/', '')}-${version}`);
  if (await exists(runtime)) return runtime;

  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, 'draft-'));
  try {
    const packed = await runCommand(
      'npm',
      ['pack', '--silent', '--pack-destination', folder, `${packageName}@${version}`],
      { cwd: root },
    );
    const tarball = join(folder, packed.trim());
    const digest = `sha512-${createHash('sha512')
      .update(await readFile(tarball))
      .digest('base64')}`;
    if (digest !== integrity)
      throw new Error(`${packageName}@${version} is not the one in package-lock.json`);
    await runCommand('tar', ['-xzf', tarball, '-C', folder, '--strip-components=2', 'package/bin/bun']);
    await rename(join(folder, 'bun'), runtime);
    return runtime;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
