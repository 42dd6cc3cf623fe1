import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';

const ROOT = join(import.meta.dirname, '../..');
const OUT = join(ROOT, 'dist/worker');

/** The Worker as it is deployed: what `wrangler deploy` would upload. */
export interface Bundle {
  readonly script: string;
  readonly gzipBytes: number;
}

/**
 * Builds the production bundle with wrangler's own dry run, so that nothing local runs other code than the edge does.
 *
 * @throws with wrangler's output when the Worker does not build
 */
export async function buildBundle(): Promise<Bundle> {
  const wrangler = join(ROOT, 'node_modules/wrangler/bin/wrangler.js');
  const args = [wrangler, 'deploy', '--dry-run', '--outdir', OUT];
  const env = { ...process.env, WRANGLER_SEND_METRICS: 'false', CI: 'true' };
  try {
    await promisify(execFile)(process.execPath, args, { cwd: ROOT, env });
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`the Worker does not build:\n${stdout}${stderr}`, { cause: error });
  }
  const script = await readFile(join(OUT, 'index.js'), 'utf8');
  return { script, gzipBytes: gzipSync(script).length };
}
