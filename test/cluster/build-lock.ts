// One build at a time in a cache folder, also between containers that share it: the lock is a file
// whose holder touches it every few seconds. One that is not touched belonged to a killed build.
// Two builds at once would only waste time: every result is put in place by an atomic rename.
import { open, rm, stat, utimes } from 'node:fs/promises';

import { waitFor } from '../../cli/local/wait.ts';

const TOUCH_MS = 2_000;
const STALE_MS = 20_000;
const PATIENCE_MS = 45 * 60_000;

export async function withBuildLock<T>(file: string, onWait: () => void, work: () => Promise<T>): Promise<T> {
  let told = false;
  await waitFor(
    `the build that holds ${file}`,
    async () => {
      if (await take(file)) return true;
      if (!told) onWait();
      told = true;
      return false;
    },
    { timeoutMs: PATIENCE_MS, intervalMs: 500 },
  );
  const touching = setInterval(() => {
    const now = new Date();
    // A lock that somebody has deleted is no reason to fail the build.
    utimes(file, now, now).catch(() => undefined);
  }, TOUCH_MS);
  try {
    return await work();
  } finally {
    clearInterval(touching);
    await rm(file, { force: true });
  }
}

async function take(file: string): Promise<boolean> {
  try {
    const handle = await open(file, 'wx');
    await handle.close();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const touchedAtMs = (await stat(file).catch(() => undefined))?.mtimeMs;
  if (touchedAtMs !== undefined && Date.now() - touchedAtMs > STALE_MS) await rm(file, { force: true });
  return false;
}
