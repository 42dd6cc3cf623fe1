// What processes have used so far, from Linux's /proc.
import { readdirSync, readFileSync } from 'node:fs';
import { rm, open } from 'node:fs/promises';
import { join } from 'node:path';

/** USER_HZ: 100 on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

/** Counted from the processes' start, all their threads together. */
export interface Usage {
  readonly cpuMs: number;
  /** Bytes that the kernel has sent, or will send, to a disk for them: `write_bytes` of proc(5). */
  readonly writtenBytes: number;
  /** VmRSS: now, not since the start. */
  readonly residentBytes: number;
}

export function usageOf(pids: readonly number[]): Usage {
  const each = pids.map((pid) => ({
    cpuMs: cpuMsOf(pid),
    writtenBytes: counter(`/proc/${pid}/io`, 'write_bytes'),
    residentBytes: counter(`/proc/${pid}/status`, 'VmRSS') * 1024,
  }));
  const sum = (pick: (usage: Usage) => number): number =>
    each.reduce((total, usage) => total + pick(usage), 0);
  return {
    cpuMs: sum(({ cpuMs }) => cpuMs),
    writtenBytes: sum(({ writtenBytes }) => writtenBytes),
    residentBytes: sum(({ residentBytes }) => residentBytes),
  };
}

/** What was used between two readings. */
export function spent(before: Usage, after: Usage): Pick<Usage, 'cpuMs' | 'writtenBytes'> {
  return {
    cpuMs: after.cpuMs - before.cpuMs,
    writtenBytes: after.writtenBytes - before.writtenBytes,
  };
}

function cpuMsOf(pid: number): number {
  const fields = statFields(pid);
  // Fields 14 and 15 of proc_pid_stat(5), user and kernel time; the list begins with field 3.
  const ticks = Number(fields[11]) + Number(fields[12]);
  return (ticks * 1000) / TICKS_PER_SECOND;
}

/** From field 3 on: the second, the command's name in parentheses, may hold anything. */
function statFields(pid: number): readonly string[] {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
}

function counter(file: string, name: string): number {
  const found = new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(readFileSync(file, 'utf8'));
  if (found === null) throw new Error(`${file} has no ${name}`);
  return Number(found[1]);
}

/** All processes below `ancestor` with this command name. */
export function descendants(ancestor: number, command: string): readonly number[] {
  const parents = new Map<number, number>();
  for (const entry of readdirSync('/proc')) {
    const pid = Number(entry);
    if (!Number.isInteger(pid)) continue;
    try {
      parents.set(pid, Number(statFields(pid)[1]));
    } catch {
      // It has ended meanwhile.
    }
  }
  const isBelow = (pid: number): boolean => {
    for (let at = parents.get(pid); at !== undefined && at > 0; at = parents.get(at)) {
      if (at === ancestor) return true;
    }
    return false;
  };
  return [...parents.keys()].filter((pid) => isBelow(pid) && nameOf(pid) === command);
}

function nameOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
  } catch {
    return '';
  }
}

/**
 * Fails where the kernel does not count what is written below `folder`, as on a tmpfs: each result would be a zero
 * that looks like a great success.
 */
export async function assertWritesAreCounted(folder: string): Promise<void> {
  const bytes = Buffer.alloc(1 << 20, 'x');
  const file = join(folder, 'probe');
  const before = usageOf([process.pid]).writtenBytes;
  const handle = await open(file, 'w');
  try {
    await handle.write(bytes);
    await handle.sync();
  } finally {
    await handle.close();
    await rm(file, { force: true });
  }
  const counted = usageOf([process.pid]).writtenBytes - before;
  if (counted >= bytes.length) return;
  throw new Error(
    `1 MiB written to ${folder} counts as ${counted} bytes: set TMPDIR to a folder on a disk of this machine`,
  );
}
