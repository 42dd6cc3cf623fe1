import type { Clock } from '../../../node-beacon/clock.ts';
import type { SignedBeat, Transport, TryResult } from '../../../node-beacon/transport/transport.ts';

export interface Answered {
  readonly afterMs: number;
  readonly result: (digest: string) => TryResult;
}

/** What one try meets: an answer after so long, or none. */
export type Reply = Answered | 'no-answer';

export interface SentTry {
  readonly atMs: number;
  readonly endpoint: string;
  readonly jws: string;
  readonly recordedBy: readonly string[];
  /** When the sender gave up on it. */
  givenUpAtMs?: number;
}

/** A transport that plays a script, one reply per try; the last reply is repeated. */
export class ScriptedTransport implements Transport {
  readonly sent: SentTry[] = [];
  readonly #clock: Clock;
  #replies: readonly Reply[];

  constructor(clock: Clock, replies: readonly Reply[]) {
    this.#clock = clock;
    this.#replies = replies;
  }

  play(...replies: Reply[]): void {
    this.#replies = replies;
  }

  async send(
    endpoint: string,
    { jws, digest }: SignedBeat,
    recordedBy: readonly string[],
    signal: AbortSignal,
  ): Promise<TryResult> {
    const tried: SentTry = { atMs: this.#clock.monotonicMs(), endpoint, jws, recordedBy };
    this.sent.push(tried);
    const [reply = 'no-answer', ...rest] = this.#replies;
    if (rest.length > 0) this.#replies = rest;
    const answered = reply !== 'no-answer' && (await this.#clock.sleep(reply.afterMs, signal));
    if (answered) return reply.result(digest);
    await new Promise((resolve) => {
      if (signal.aborted) resolve(undefined);
      else signal.addEventListener('abort', resolve);
    });
    tried.givenUpAtMs = this.#clock.monotonicMs();
    return { kind: 'failed', failure: 'timeout', why: 'gave up waiting for the answer' };
  }

  close(): void {}

  get sentAtMs(): number[] {
    return this.sent.map(({ atMs }) => atMs);
  }
}

/** An ack by these observers, of a quorum of two. */
export function acked(
  recordedBy: readonly string[],
  afterMs = 50,
  missing: readonly [string, string][] = [],
): Answered {
  return {
    afterMs,
    result: (digest) => ({
      kind: 'acked',
      ack: {
        v: 1,
        digest,
        recordedBy: [...recordedBy],
        missing: missing.map(([observer, code]) => ({ observer, code })),
        quorum: 2,
      },
    }),
  };
}

export function refused(
  code: string,
  more: { status?: number; highestSeq?: number; retryAfterMs?: number } = {},
): Answered {
  const { status = 409, ...rest } = more;
  return { afterMs: 50, result: () => ({ kind: 'refused', code, status, why: 'because', ...rest }) };
}

export function failed(more: { retryAfterMs?: number } = {}): Answered {
  return {
    afterMs: 5,
    result: () => ({ kind: 'failed', failure: 'http-status', why: 'answered 503', ...more }),
  };
}
