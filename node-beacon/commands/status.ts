import { readFile, stat } from 'node:fs/promises';
import { readHost } from '../host.ts';
import { STATUS_FILE } from '../setting-table.ts';
import type { LocalSettings } from '../settings.ts';
import { BeaconStatus, isWell } from '../status/status.ts';
import { statusText } from '../status/status-text.ts';
import { codeOf, whyOf } from '../text.ts';
import { BROKEN, OK, type Print } from './output.ts';

/** The wall clock may have been set a little since the boot. */
const CLOCK_TOLERANCE_MS = 10_000;

/** Shows how the running beacon fares. Exit status 0: its beats arrive. */
export async function statusCommand(
  { statusFile = STATUS_FILE }: Pick<LocalSettings, 'statusFile'>,
  json: boolean,
  print: Print,
): Promise<number> {
  const uptimeMs = readHost().uptimeMs();
  let status: BeaconStatus;
  let writtenAtMs: number;
  try {
    writtenAtMs = (await stat(statusFile)).mtimeMs;
    status = BeaconStatus.parse(JSON.parse(await readFile(statusFile, 'utf8')));
  } catch (error) {
    const isAbsent = codeOf(error) === 'ENOENT';
    print(isAbsent ? `no beacon runs: ${statusFile} is not there` : `${statusFile}: ${whyOf(error)}`);
    return BROKEN;
  }
  // Not by the boot id: a container that stands in for a node shows one to the unit and another to its shell.
  const isOfThisBoot = writtenAtMs > Date.now() - uptimeMs - CLOCK_TOLERANCE_MS;
  const well = isOfThisBoot && isWell(status, uptimeMs);
  if (json) print(JSON.stringify({ ...status, uptimeMs, well }));
  else if (!isOfThisBoot) print(`no beacon has run since this node was booted: ${statusFile} is older`);
  else print(statusText(status, uptimeMs).trimEnd());
  return well ? OK : BROKEN;
}
