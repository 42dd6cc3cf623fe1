#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { checkCommand } from './commands/check.ts';
import { enrolCommand } from './commands/enrol.ts';
import { keyCommand } from './commands/key.ts';
import { BROKEN, OK, WRONG_SETTING } from './commands/output.ts';
import { rotateKeyCommand } from './commands/rotate-key.ts';
import { statusCommand } from './commands/status.ts';
import { createLog, type Log } from './log.ts';
import { MissingSettingError, runBeacon } from './run.ts';
import { type Command, ENVIRONMENT_FILE, helpText, type LocalCommand } from './setting-table.ts';
import { type LocalSettings, parseSettings, type Settings } from './settings.ts';
import { whyOf } from './text.ts';
import { BEACON_NAME } from './version.ts';

/** Stopping never takes longer, whatever hangs. */
const STOP_WITHIN_MS = 1_500;

async function main(args: readonly string[]): Promise<number> {
  const parsed = parseSettings(args, environmentFor(args));
  switch (parsed.kind) {
    case 'help':
      print(helpText().trimEnd());
      return OK;
    case 'version':
      print(BEACON_NAME);
      return OK;
    case 'wrong':
      for (const problem of parsed.problems) complain(problem);
      return WRONG_SETTING;
    case 'local-command':
      return guarded(() => local(parsed.command, parsed.settings, parsed.json));
    case 'command':
      return guarded(() => execute(parsed.command, parsed.settings, parsed.unknownVariables));
  }
}

function local(command: LocalCommand, settings: LocalSettings, json: boolean): Promise<number> {
  switch (command) {
    case 'key':
      return keyCommand(settings, print);
    case 'enrol':
      return enrolCommand(settings, print);
    case 'status':
      return statusCommand(settings, json, print);
  }
}

function execute(
  command: Exclude<Command, LocalCommand>,
  settings: Settings,
  unknownVariables: readonly string[],
): Promise<number> {
  const log = createLog({
    level: settings.logLevel,
    now: () => new Date(),
    write: (line) => process.stderr.write(`${line}\n`),
  });
  for (const name of unknownVariables) log.warn('unknown-variable', { name, why: 'no setting of this name' });
  switch (command) {
    case 'check':
      return checkCommand(settings, log, print);
    case 'rotate-key':
      return rotateKeyCommand(settings, log, print);
    case 'run':
      return run(settings, log);
  }
}

/** A person who runs a command has the settings of the unit without naming them; what is said to the command wins. */
function environmentFor(args: readonly string[]): NodeJS.ProcessEnv {
  const [first = 'run'] = args;
  if (first === 'run' || first.startsWith('-')) return process.env;
  try {
    return { ...parseEnv(readFileSync(ENVIRONMENT_FILE, 'utf8')), ...process.env };
  } catch {
    return process.env; // not there, or not for this user
  }
}

async function run(settings: Settings, log: Log): Promise<number> {
  const stop = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (stop.signal.aborted) process.exit(OK); // asked twice: at once
      setTimeout(() => process.exit(OK), STOP_WITHIN_MS).unref();
      stop.abort(signal);
    });
  }
  await runBeacon(settings, log, stop.signal);
  return OK;
}

async function guarded(work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    complain(error instanceof MissingSettingError ? error.message : whyOf(error));
    return error instanceof MissingSettingError ? WRONG_SETTING : BROKEN;
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function complain(problem: string): void {
  process.stderr.write(`farpulse-beacon: ${problem}\n`);
}

// Exits rather than drains: a name lookup that hangs would keep the process for its own timeout.
process.exit(await main(process.argv.slice(2)));
