#!/usr/bin/env node
import { createLog } from './log.ts';
import { MissingSettingError, runBeacon } from './run.ts';
import { helpText } from './setting-table.ts';
import { parseSettings, type Settings } from './settings.ts';
import { whyOf } from './text.ts';
import { BEACON_NAME } from './version.ts';

const OK = 0;
const BROKEN = 1;
const WRONG_SETTING = 2;

/** Stopping never takes longer, whatever hangs. */
const STOP_WITHIN_MS = 1_500;

async function main(args: readonly string[]): Promise<number> {
  const parsed = parseSettings(args, process.env);
  switch (parsed.kind) {
    case 'help':
      process.stdout.write(helpText());
      return OK;
    case 'version':
      process.stdout.write(`${BEACON_NAME}\n`);
      return OK;
    case 'wrong':
      for (const problem of parsed.problems) complain(problem);
      return WRONG_SETTING;
    case 'command':
      switch (parsed.command) {
        case 'run':
          return run(parsed.settings, parsed.unknownVariables);
      }
  }
}

async function run(settings: Settings, unknownVariables: readonly string[]): Promise<number> {
  const log = createLog({
    level: settings.logLevel,
    now: () => new Date(),
    write: (line) => process.stderr.write(`${line}\n`),
  });
  for (const name of unknownVariables) log.warn('unknown-variable', { name, why: 'no setting of this name' });
  const stop = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (stop.signal.aborted) process.exit(OK); // asked twice: at once
      setTimeout(() => process.exit(OK), STOP_WITHIN_MS).unref();
      stop.abort(signal);
    });
  }
  try {
    await runBeacon(settings, log, stop.signal);
    return OK;
  } catch (error) {
    complain(error instanceof MissingSettingError ? error.message : whyOf(error));
    return error instanceof MissingSettingError ? WRONG_SETTING : BROKEN;
  }
}

function complain(problem: string): void {
  process.stderr.write(`farpulse-beacon: ${problem}\n`);
}

// Exits rather than drains: a name lookup that hangs would keep the process for its own timeout.
process.exit(await main(process.argv.slice(2)));
