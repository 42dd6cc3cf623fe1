import { execFile } from 'node:child_process';
import type { LeavingSign } from '../protocol/beat.ts';

/** Asking systemd must leave time for the farewell itself. */
const ASK_TIMEOUT_MS = 400;
/** How long a silence is announced for: a service restart; a machine's reboot. Policy clamps both. */
const BEACON_FOR_MS = 120_000;
const HOST_FOR_MS = 900_000;

/**
 * Why the beacon was asked to stop: the machine goes down, or only the service does.
 *
 * A logind inhibitor would tell of a shutdown before it begins. It gains nothing here: the unit is ordered after the
 * network and the bus, so it is stopped while both are up.
 */
export async function leavingSign(reason: string, isStopping = isSystemStopping): Promise<LeavingSign> {
  return (await isStopping())
    ? { what: 'host', reason: 'the system is shutting down or rebooting', forMs: HOST_FOR_MS }
    : { what: 'beacon', reason, forMs: BEACON_FOR_MS };
}

/** False also where there is no systemd to ask: then only the beacon is known to leave. */
export function isSystemStopping(command = 'systemctl', timeout = ASK_TIMEOUT_MS): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  // Its exit status is not 0 for every state but one, so the error is no answer and the output is.
  execFile(command, ['is-system-running'], { timeout, killSignal: 'SIGKILL' }, (_error, stdout) => {
    resolve(stdout.trim() === 'stopping');
  });
  return promise;
}
