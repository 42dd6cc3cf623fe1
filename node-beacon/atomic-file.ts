import { randomUUID } from 'node:crypto';
import { link, mkdir, open, rename, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { codeOf } from './text.ts';

interface FileOptions {
  /** Private when not given. */
  readonly mode?: number;
  /** False for what is worth nothing after a power cut: it is not forced to the disk. */
  readonly durable?: boolean;
}

/** Replaces a file so that a reader, or a power cut, finds the old content or the new one and nothing between. */
export async function replaceFile(path: string, content: string, options: FileOptions = {}): Promise<void> {
  await throughDraft(path, content, (draft) => rename(draft, path), options);
}

/** Writes a file that must not exist yet. False when it does, also when another process was faster. */
export async function createFile(path: string, content: string): Promise<boolean> {
  try {
    // rename() would replace what another process has just put there; link() fails instead.
    await throughDraft(path, content, (draft) => link(draft, path));
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
}

/** Private (0600, its folder 0700) and on the disk, if not asked otherwise, before `publish` gives it its name. */
async function throughDraft(
  path: string,
  content: string,
  publish: (draft: string) => Promise<void>,
  { mode = 0o600, durable = true }: FileOptions = {},
): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const draft = join(folder, `.draft-${randomUUID()}`);
  try {
    const file = await open(draft, 'wx', mode);
    try {
      await file.writeFile(content);
      if (durable) await file.sync();
    } finally {
      await file.close();
    }
    await publish(draft);
    if (durable) await syncFolder(folder);
  } finally {
    await unlink(draft).catch(() => {}); // gone already after a rename
  }
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
