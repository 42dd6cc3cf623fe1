import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { RegisteredKeys, Transport } from './fleet.ts';
import type { Answer, Question } from './load-process.ts';
import type { LoadResult } from './tally.ts';

/** The generator's handle. Beats are signed before they are needed, so that signing never delays one. */
export class Load {
  readonly keys: RegisteredKeys;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, keys: RegisteredKeys) {
    this.#child = child;
    this.keys = keys;
  }

  static async create(nodes: number): Promise<Load> {
    const child = fork(join(import.meta.dirname, 'load-process.ts'));
    const { keys } = await ask(child, { ask: 'create', nodes });
    if (keys === undefined) throw new Error('the load generator made no keys');
    return new Load(child, keys);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async sign(beats: number): Promise<void> {
    await ask(this.#child, { ask: 'sign', beats });
  }

  async start(url: string, transport: Transport, perSecond: number): Promise<void> {
    await ask(this.#child, { ask: 'start', url, transport, perSecond });
  }

  /** Ends a stretch and begins the next one. Returns what came of the old one, once all of it has been answered. */
  async next(perSecond: number): Promise<LoadResult> {
    return resultOf(await ask(this.#child, { ask: 'next', perSecond }));
  }

  async stop(): Promise<LoadResult> {
    return resultOf(await ask(this.#child, { ask: 'stop' }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill();
    await exited;
  }
}

function resultOf({ result }: Answer): LoadResult {
  if (result === undefined) throw new Error('the load generator gave no result');
  return result;
}

async function ask(child: ChildProcess, question: Question): Promise<Answer> {
  const ended = new AbortController();
  const answered = once(child, 'message', { signal: ended.signal }) as Promise<[Answer]>;
  const exited = once(child, 'exit', { signal: ended.signal }).then(([code]) => {
    throw new Error(`the load generator has ended (exit code ${String(code)})`);
  });
  try {
    child.send(question);
    const [answer] = await Promise.race([answered, exited]);
    if (answer.error !== undefined) throw new Error(`the load generator: ${answer.error}`);
    return answer;
  } finally {
    ended.abort();
    await Promise.allSettled([answered, exited]);
  }
}
