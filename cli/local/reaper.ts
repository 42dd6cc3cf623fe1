// Ends what a test run left behind when the run itself was killed.
//
// A process that is killed with SIGKILL runs no exit handler, so a child of it watches instead: the
// kernel closes our standard input when the parent is gone, however it went. The parent tells us, one
// JSON line each, which processes it has started and ended and which folders are to be removed.
import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';

export type ReaperLine =
  | { readonly started: number }
  | { readonly ended: number }
  | { readonly remove: string }
  | { readonly removed: string };

if (import.meta.main) await reap();

async function reap(): Promise<void> {
  // Ctrl-C goes to the whole terminal; the parent decides then, and its end reaches us anyway.
  process.on('SIGINT', () => undefined);
  process.on('SIGTERM', () => undefined);
  process.on('SIGHUP', () => undefined);

  const groups = new Set<number>();
  const folders = new Set<string>();
  for await (const text of createInterface({ input: process.stdin })) {
    // SAFETY: only processes.ts writes here.
    const line = JSON.parse(text) as ReaperLine;
    if ('started' in line) groups.add(line.started);
    else if ('ended' in line) groups.delete(line.ended);
    else if ('remove' in line) folders.add(line.remove);
    else folders.delete(line.removed);
  }
  for (const group of groups) {
    try {
      process.kill(-group, 'SIGKILL');
    } catch {
      // Gone already.
    }
  }
  // maxRetries: a process killed a moment ago may still be creating a file.
  for (const folder of folders)
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
}
