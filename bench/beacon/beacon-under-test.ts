import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { usageOf } from '../support/usage.ts';

const KIB = 1024;

/** From /proc/PID/smaps_rollup, proc_pid_smaps_rollup(5). */
export interface Memory {
  readonly residentBytes: number;
  /** Neither of the executable nor of another file: what no memory pressure can take back. */
  readonly anonymousBytes: number;
}

/** One beacon process. */
export class BeaconUnderTest {
  readonly startedAtMs = performance.now();
  readonly #child: ChildProcess;
  #said = '';

  constructor(command: string, args: readonly string[], env: NodeJS.ProcessEnv) {
    this.#child = spawn(command, args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#said = (this.#said + chunk.toString()).slice(-4_096);
    });
  }

  get memory(): Memory {
    this.#assertRuns();
    const rollup = readFileSync(`/proc/${this.#pid}/smaps_rollup`, 'utf8');
    const bytes = (name: string): number =>
      Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(rollup)?.[1]) * KIB;
    return { residentBytes: bytes('Rss'), anonymousBytes: bytes('Anonymous') };
  }

  /** Since its start. */
  get cpuMs(): number {
    this.#assertRuns();
    return usageOf([this.#pid]).cpuMs;
  }

  /** The wait before its first beat, as it was drawn. */
  get drawnWaitMs(): number {
    const found = /event=first-beat inMs=(\d+)/.exec(this.#said)?.[1];
    if (found === undefined) throw new Error(`no drawn wait in: ${this.#said}`);
    return Number(found);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const closed = once(this.#child, 'close');
    this.#child.kill('SIGTERM');
    await closed;
  }

  get #pid(): number {
    if (this.#child.pid === undefined) throw new Error('the beacon was not started');
    return this.#child.pid;
  }

  #assertRuns(): void {
    if (this.#child.exitCode !== null) throw new Error(`the beacon has ended: ${this.#said}`);
  }
}
