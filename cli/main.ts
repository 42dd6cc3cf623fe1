#!/usr/bin/env node
import { type CommandIo, doctor } from './doctor.ts';

const HELP = `Usage: farpulse COMMAND

  doctor CLUSTER   examine the way from the Worker to a cluster's API server

farpulse COMMAND --help says more. The demo: npm start.
`;

type Command = (args: readonly string[], io: CommandIo) => Promise<number>;

const COMMANDS: ReadonlyMap<string, Command> = new Map([['doctor', doctor]]);

const io: CommandIo = {
  env: process.env,
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
};

const [name, ...args] = process.argv.slice(2);
const command = COMMANDS.get(name ?? '');
if (command !== undefined) {
  process.exitCode = await command(args, io);
} else if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
  io.out(HELP);
  process.exitCode = name === undefined ? 2 : 0;
} else {
  io.err(`farpulse: there is no command "${name}"\n\n${HELP}`);
  process.exitCode = 2;
}
