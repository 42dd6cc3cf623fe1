import type http from 'node:http';
import type { Socket } from 'node:net';
import { Ack, BEAT_CONTENT_TYPE, Problem, RECORDED_BY_HEADER } from '../../protocol/ack.ts';
import { clip } from '../text.ts';
import { BEACON_NAME } from '../version.ts';
import { agentOver, type Connector } from './connector.ts';
import { exchange, type Exchanged } from './exchange.ts';
import type { SignedBeat, Transport, TryResult } from './transport.ts';

/** An ack is some 300 bytes; whoever sends more is not farpulse. */
export const MAX_ANSWER_BYTES = 16_384;

/** A kept connection idle for longer is not trusted: middleboxes forget silently. */
const MAX_IDLE_MS = 90_000;

/** A connection and the agent that speaks over it. */
interface Line {
  readonly socket: Socket;
  readonly agent: http.Agent;
}

/** Beats by HTTPS POST. A connection is kept for the next beat only while everything on it went well. */
export class HttpsTransport implements Transport {
  readonly #connector: Connector;
  readonly #kept = new Map<string, Line>();

  constructor(connector: Connector) {
    this.#connector = connector;
  }

  async send(
    endpoint: string,
    beat: SignedBeat,
    recordedBy: readonly string[],
    signal: AbortSignal,
  ): Promise<TryResult> {
    const url = new URL(`${endpoint}/v1/beats`);
    const question = { url, method: 'POST', headers: headersOf(recordedBy), body: beat.jws } as const;
    const ask = ({ agent }: Line): Promise<Exchanged> =>
      exchange({ ...question, agent, maxAnswerBytes: MAX_ANSWER_BYTES }, signal);

    // Taken, not borrowed: a try that still hangs on it when the next one begins must not hold that one up too.
    const kept = this.#takeKept(endpoint);
    if (kept !== undefined) {
      const exchanged = await ask(kept);
      const isStale = exchanged.kind === 'failed' && exchanged.stale;
      if (!isStale) return this.#conclude(endpoint, url, kept, readResult(exchanged, beat.digest));
      // The other side closed it while the beat was under way; the beat is idempotent.
      discard(kept);
    }
    const connected = await this.#connector.connect(url, signal);
    if (connected.kind === 'failed') {
      return { kind: 'failed', failure: connected.failure, why: connected.why };
    }
    const line = { socket: connected.socket, agent: agentOver(connected.socket, url, MAX_IDLE_MS) };
    return this.#conclude(endpoint, url, line, readResult(await ask(line), beat.digest));
  }

  close(): void {
    for (const line of this.#kept.values()) discard(line);
    this.#kept.clear();
  }

  /** Keeps the connection or ends it. */
  #conclude(endpoint: string, url: URL, line: Line, result: TryResult): TryResult {
    if (result.kind === 'failed') {
      discard(line);
      this.#connector.failed(url);
    } else {
      const other = this.#kept.get(endpoint);
      if (other !== undefined) discard(other);
      this.#kept.set(endpoint, line);
    }
    return result;
  }

  /** The kept connection, if it can carry one more request. */
  #takeKept(endpoint: string): Line | undefined {
    const line = this.#kept.get(endpoint);
    this.#kept.delete(endpoint);
    const isIdle = Object.values(line?.agent.freeSockets ?? {}).some((sockets) => (sockets?.length ?? 0) > 0);
    if (isIdle) return line;
    if (line !== undefined) discard(line);
    return undefined;
  }
}

function discard({ agent, socket }: Line): void {
  agent.destroy();
  socket.destroy();
}

function headersOf(recordedBy: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = { 'content-type': BEAT_CONTENT_TYPE, 'user-agent': BEACON_NAME };
  // Names come from answers; one that no header may carry would make the request itself throw.
  const names = recordedBy.filter((name) => /^[\w.:-]+$/.test(name));
  if (names.length > 0) headers[RECORDED_BY_HEADER] = names.join(',');
  return headers;
}

/** What an answer means for the beat of this digest. */
export function readResult(exchanged: Exchanged, digest: string): TryResult {
  if (exchanged.kind === 'failed') return { kind: 'failed', failure: exchanged.failure, why: exchanged.why };
  const { status, headers, body } = exchanged;
  const json = parseJson(body);
  const retryAfterMs = parseRetryAfter(headers['retry-after'], headers.date);
  const retryAfter = retryAfterMs === undefined ? {} : { retryAfterMs };

  if (status === 200) {
    const ack = Ack.safeParse(json);
    if (!ack.success) return foreign(`answered 200 without an ack${hint(headers)}`);
    if (ack.data.digest !== digest) return foreign('acknowledged another beat than this one');
    return { kind: 'acked', ack: ack.data };
  }
  const problem = Problem.safeParse(json);
  if (problem.success && problem.data.status === status) {
    const { code, title, detail, highestSeq } = problem.data;
    const why = clip(detail ?? title);
    const highest = highestSeq === undefined ? {} : { highestSeq };
    return { kind: 'refused', code: clip(code), status, why, ...highest, ...retryAfter };
  }
  if (status >= 500 || status === 429) {
    return { kind: 'failed', failure: 'http-status', why: `answered ${status}`, ...retryAfter };
  }
  return foreign(`answered ${status}, but not by farpulse${hint(headers)}`);
}

function foreign(why: string): TryResult {
  return { kind: 'failed', failure: 'foreign-answer', why: clip(why) };
}

/** What names a captive portal to the person who reads the log. */
function hint(headers: http.IncomingHttpHeaders): string {
  const words = [headers.location, headers['server'], headers['content-type']].filter(
    (word) => word !== undefined,
  );
  return words.length === 0 ? '' : ` (${words.join(', ')})`;
}

/**
 * `Retry-After` as a span. A date is read against the answer's own `Date`: two machines' clocks are not compared.
 */
function parseRetryAfter(value: string | undefined, dateHeader: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  const spanMs = Date.parse(value) - Date.parse(dateHeader ?? '');
  return Number.isNaN(spanMs) ? undefined : Math.max(0, spanMs);
}

/** Undefined when it is none. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
