import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { runCommand } from './run-command.ts';
import { fetchRuntime } from './runtime.ts';
import type { Target } from './targets.ts';

/** The name inside the executable, which is part of its bytes: always the same, so that two builds are. */
const NAME = 'farpulse-beacon';

/**
 * Compiles the beacon for one target to `output`. Nothing of the building machine goes in: the same sources and lock
 * file give the same bytes, wherever and under whatever name.
 */
export async function buildExecutable(
  root: string,
  target: Target,
  output: string,
  entry = 'node-beacon/main.ts',
): Promise<void> {
  const runtime = await fetchRuntime(root, target.runtime);
  const draftFolder = `${output}.draft`;
  await mkdir(draftFolder, { recursive: true });
  await mkdir(dirname(output), { recursive: true });
  try {
    await runCommand(
      join(root, 'node_modules/.bin/bun'),
      [
        'build',
        '--compile',
        `--compile-executable-path=${runtime}`,
        `--target=bun-${target.name}`,
        // A beacon reads no file that happens to lie where it is started.
        '--no-compile-autoload-dotenv',
        '--no-compile-autoload-bunfig',
        '--minify',
        // Parsed at build time: less to do at the start, 1.5 MB less memory.
        '--bytecode',
        '--format=esm',
        `--outfile=${join(draftFolder, NAME)}`,
        entry,
      ],
      { cwd: root },
    );
    await rename(join(draftFolder, NAME), output);
  } finally {
    await rm(draftFolder, { recursive: true, force: true });
  }
}
