import { execFile } from 'node:child_process';
import type { Clock } from './clock.ts';
import type { Log } from './log.ts';
import { whyOf } from './text.ts';

/** So often within the watchdog's time, as sd_notify(3) advises half of it; a third leaves room for a slow machine. */
const SIGNS_PER_TIMEOUT = 3;
const TELL_TIMEOUT_MS = 5_000;

interface WatchdogParts {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly pid: number;
  readonly clock: Clock;
  readonly log: Log;
  /** Whether the beats go on. */
  readonly isTurning: () => boolean;
  readonly tell?: (text: string) => Promise<void>;
}

/**
 * Tells systemd's watchdog that the beats go on, if its unit has one; when they do not, says nothing and is ended and
 * started again.
 *
 * The message is a datagram on a Unix socket, which neither Node nor bun can send: systemd-notify does, a process of a
 * few milliseconds each half minute. (bun's FFI could call libc, at the price of machine code made at run time, which
 * the unit forbids.) It is no part of a beat's way: a systemd-notify that hangs is ended.
 */
export async function feedWatchdog(parts: WatchdogParts, signal: AbortSignal): Promise<void> {
  const { env, pid, clock, log, isTurning, tell = tellSystemd } = parts;
  const timeoutMs = Number(env['WATCHDOG_USEC']) / 1000;
  const isForUs = env['WATCHDOG_PID'] === undefined || env['WATCHDOG_PID'] === String(pid);
  if (env['NOTIFY_SOCKET'] === undefined || !(timeoutMs > 0) || !isForUs) return;
  let complained = false;
  while (!signal.aborted) {
    try {
      if (isTurning()) await tell('WATCHDOG=1');
      else log.error('beats-hang', { why: 'the watchdog is not told that all is well' });
    } catch (error) {
      if (!complained) log.warn('watchdog-unheard', { why: whyOf(error) });
      complained = true;
    }
    await clock.sleep(timeoutMs / SIGNS_PER_TIMEOUT, signal);
  }
}

function tellSystemd(text: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const options = { timeout: TELL_TIMEOUT_MS, killSignal: 'SIGKILL' } as const;
  execFile('systemd-notify', [text], options, (error) => (error === null ? resolve() : reject(error)));
  return promise;
}
