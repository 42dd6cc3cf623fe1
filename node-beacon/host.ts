import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';

const BOOT_ID_FILE = '/proc/sys/kernel/random/boot_id';
const UPTIME_FILE = '/proc/uptime';

/** What the beacon knows of its machine's present boot. */
export interface Host {
  readonly bootId: string;
  /** Counts suspended time, so that it rises through a suspend as the wall clock does. */
  uptimeMs(): number;
}

/**
 * Reads the kernel's boot id. Where there is none (a developer's machine without /proc), this run of the beacon is
 * its own boot: a stream of its own for the observers, and nothing remembered from before.
 */
export function readHost(): Host {
  return { bootId: readIfThere(BOOT_ID_FILE)?.trim() ?? randomUUID(), uptimeMs };
}

function uptimeMs(): number {
  // /proc is memory, not a disk: a synchronous read cannot hang, and no other work runs between it and the beat.
  const seconds = Number.parseFloat(readIfThere(UPTIME_FILE)?.split(' ')[0] ?? '');
  return Math.floor((Number.isFinite(seconds) ? seconds : uptime()) * 1000);
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
