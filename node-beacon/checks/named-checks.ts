import { execFile } from 'node:child_process';
import { type CheckResult, MAX_CHECK_WHY_LENGTH } from '../../protocol/beat.ts';
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { clip, whyOf } from '../text.ts';
import { exchange } from '../transport/exchange.ts';
import { BEACON_NAME } from '../version.ts';
import { repeatCheck, type Rhythm } from './repeat.ts';

/** Something of this node that its operator wants looked at: by a request, or by a program without a shell. */
export type CheckSetting =
  | { readonly name: string; readonly url: URL }
  | { readonly name: string; readonly program: string; readonly args: readonly string[] };

const RHYTHM: Rhythm = { periodMs: 30_000, recheckMs: 5_000, timeoutMs: 10_000 };
/** One failure is a hiccup. */
const FAILURES_TO_FAIL = 2;
const MAX_ANSWER_BYTES = 16_384;
const MAX_OUTPUT_BYTES = 1024 * 1024;

type Look = Pick<CheckResult, 'state' | 'why'>;

interface NamedChecksParts {
  readonly settings: readonly CheckSetting[];
  readonly clock: Clock;
  readonly log: Log;
}

/** Runs the operator's checks beside the beats, each on its own; `results` is what they last came to. */
export class NamedChecks {
  readonly #parts: NamedChecksParts;
  readonly #states: Map<string, { readonly result: CheckResult; readonly failures: number }>;

  constructor(parts: NamedChecksParts) {
    this.#parts = parts;
    this.#states = new Map(
      parts.settings.map(({ name }) => [
        name,
        { result: { name, state: 'unknown', why: 'not looked at yet' }, failures: 0 },
      ]),
    );
  }

  get results(): readonly CheckResult[] {
    return [...this.#states.values()].map(({ result }) => result);
  }

  async run(signal: AbortSignal): Promise<void> {
    const { settings, clock } = this.#parts;
    await Promise.all(
      settings.map((setting) =>
        repeatCheck(clock, RHYTHM, signal, async (deadline) => {
          const look = await lookAt(setting, deadline);
          if (signal.aborted) return 'settled';
          return this.#note(setting.name, look);
        }),
      ),
    );
  }

  #note(name: string, look: Look): 'again-soon' | 'settled' {
    const before = this.#states.get(name);
    const failures = look.state === 'failed' ? (before?.failures ?? 0) + 1 : 0;
    const waits = look.state === 'failed' && failures < FAILURES_TO_FAIL;
    const was = before?.result ?? { name, state: 'unknown' as const };
    const result = waits ? was : { name, ...look };
    this.#states.set(name, { result, failures });
    if (result.state !== was.state) {
      const level = result.state === 'ok' ? 'info' : 'warn';
      this.#parts.log[level](`check-${result.state}`, { check: name, was: was.state, why: result.why });
    }
    return waits ? 'again-soon' : 'settled';
  }
}

/** Looks once. Every outcome is a value. */
export function lookAt(setting: CheckSetting, deadline: AbortSignal): Promise<Look> {
  return 'url' in setting ? ask(setting.url, deadline) : execute(setting.program, setting.args, deadline);
}

async function ask(url: URL, deadline: AbortSignal): Promise<Look> {
  const headers = { 'user-agent': BEACON_NAME };
  const answer = await exchange({ url, method: 'GET', headers, maxAnswerBytes: MAX_ANSWER_BYTES }, deadline);
  if (answer.kind === 'failed') return { state: 'failed', why: shortened(answer.why) };
  const isWell = answer.status >= 200 && answer.status < 300;
  return isWell
    ? { state: 'ok' }
    : { state: 'failed', why: shortened(`answered ${answer.status}: ${answer.body}`) };
}

function execute(program: string, args: readonly string[], deadline: AbortSignal): Promise<Look> {
  const { promise, resolve } = Promise.withResolvers<Look>();
  const options = { maxBuffer: MAX_OUTPUT_BYTES, killSignal: 'SIGKILL', signal: deadline } as const;
  try {
    // An environment of its own: what configures the beacon, a proxy's password with it, is not the program's affair.
    const env = { PATH: process.env['PATH'] ?? '/usr/bin:/bin' };
    execFile(program, [...args], { ...options, env }, (error, stdout, stderr) => {
      if (error === null) return resolve({ state: 'ok' });
      if (deadline.aborted) return resolve({ state: 'failed', why: 'gave up waiting for it' });
      // It was not run: that says nothing of what it was to look at.
      if (typeof error.code === 'string' && /^E[A-Z]/.test(error.code)) {
        return resolve({ state: 'unknown', why: shortened(whyOf(error)) });
      }
      const said = stderr.trim() || stdout.trim();
      const how = error.signal == null ? `exit status ${error.code}` : `ended by ${error.signal}`;
      resolve({ state: 'failed', why: shortened(said === '' ? how : `${how}: ${said}`) });
    });
  } catch (error) {
    resolve({ state: 'unknown', why: shortened(whyOf(error)) });
  }
  return promise;
}

function shortened(text: string): string {
  return clip(text).slice(0, MAX_CHECK_WHY_LENGTH).toWellFormed();
}
