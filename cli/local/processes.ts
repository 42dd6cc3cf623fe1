// Child processes with their output in a file. Each is ended by its own id, and none outlives us:
// see reaper.ts.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';

import type { ReaperLine } from './reaper.ts';
import { waitFor } from './wait.ts';

export interface ProcessOptions {
  /** Named in errors. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Standard output and error are appended here. */
  readonly logFile: string;
  /** Added to the environment. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

export class ManagedProcess {
  readonly name: string;
  readonly logFile: string;
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;

  private constructor(options: ProcessOptions, child: ChildProcess, pid: number) {
    this.name = options.name;
    this.logFile = options.logFile;
    this.pid = pid;
    this.#child = child;
    this.#exited = new Promise((resolve) => {
      child.once('exit', () => {
        tellReaper({ ended: pid });
        resolve();
      });
    });
  }

  static async start(options: ProcessOptions): Promise<ManagedProcess> {
    const log = openSync(options.logFile, 'a');
    try {
      const child = spawn(options.command, options.args, {
        // A group of its own: Ctrl-C in a terminal reaches the test runner only, which then tears
        // down in order, and a kill of the group takes along whatever the process has started.
        detached: true,
        stdio: ['ignore', log, log],
        env: { ...process.env, ...options.env },
        ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      });
      const pid = child.pid;
      if (pid === undefined) {
        const [cause] = (await once(child, 'error')) as [Error];
        throw new Error(`${options.name} could not be started: ${cause.message}`, { cause });
      }
      tellReaper({ started: pid });
      return new ManagedProcess(options, child, pid);
    } finally {
      closeSync(log);
    }
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** For `waitFor`: why there is nothing to wait for any more. */
  readonly died = (): Error | undefined => {
    if (this.running) return undefined;
    const how = this.#child.signalCode ?? `exit code ${this.#child.exitCode}`;
    return new Error(
      `${this.name} has ended (${how}); the end of ${this.logFile}:\n${logTail(this.logFile)}`,
    );
  };

  /** Sends a signal that does not end the process, such as SIGSTOP. */
  signal(signal: NodeJS.Signals): void {
    if (!this.running) throw new Error(`${this.name} is not running`);
    process.kill(this.pid, signal);
  }

  /**
   * Ends the process and returns when it is gone. What does not heed the signal within
   * `patienceMs` gets SIGKILL. Ending an ended process does nothing.
   */
  async end(signal: NodeJS.Signals = 'SIGKILL', patienceMs = 10_000): Promise<void> {
    if (!this.running) return;
    killGroup(this.pid, signal);
    // A stopped process takes no signal but SIGKILL until it goes on.
    if (signal !== 'SIGKILL') killGroup(this.pid, 'SIGCONT');
    try {
      await waitFor(`${this.name} to end after ${signal}`, () => !this.running, {
        timeoutMs: patienceMs,
        intervalMs: 10,
      });
    } catch (error) {
      if (signal === 'SIGKILL') throw error;
      killGroup(this.pid, 'SIGKILL');
    }
    await this.#exited;
  }
}

/** The last lines of a log, for an error's text. */
export function logTail(file: string, lines = 25): string {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-lines).join('\n');
  } catch {
    return '(no log)';
  }
}

/** Runs a command to its end and returns what it printed; fails with what it said on standard error. */
export async function runCommand(
  command: string,
  args: readonly string[],
  options: { readonly timeoutMs?: number; readonly input?: string; readonly cwd?: string } = {},
): Promise<string> {
  const { timeoutMs = 30_000, input, cwd } = options;
  const child = spawn(command, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
    ...(cwd === undefined ? {} : { cwd }),
  });
  let output = '';
  let complaint = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (complaint += text));
  // A command that reads no input may close it first; its exit code says what came of it.
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  if (code !== 0)
    throw new Error(
      `${[command, ...args].join(' ')}: ${signal ?? `exit code ${code}`}\n${complaint}${output}`,
    );
  return output;
}

/** A folder that goes when we go, even if we are killed. */
export function removeAtEnd(folder: string): void {
  tellReaper({ remove: folder });
}

export async function removeNow(folder: string): Promise<void> {
  // maxRetries: a process killed a moment ago may still be creating a file.
  await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  tellReaper({ removed: folder });
}

function killGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

let reaper: ChildProcess | undefined;

function tellReaper(line: ReaperLine): void {
  reaper ??= startReaper();
  reaper.stdin?.write(`${JSON.stringify(line)}\n`);
}

function startReaper(): ChildProcess {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'reaper.ts')], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    // Without NODE_OPTIONS and the like, which were meant for the test runner.
    env: {},
  });
  child.on('error', () => undefined);
  child.stdin?.on('error', () => undefined);
  // It waits for our end; we must not wait for its.
  child.unref();
  // SAFETY: a child's piped standard input is a socket.
  (child.stdin as unknown as Socket).unref();
  return child;
}
