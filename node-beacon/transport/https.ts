import http from 'node:http';
import https from 'node:https';
import { Ack, BEAT_CONTENT_TYPE, Problem, RECORDED_BY_HEADER } from '../../protocol/ack.ts';
import { clip } from '../text.ts';
import { BEACON_NAME } from '../version.ts';
import { exchange, type Exchanged } from './exchange.ts';
import { rememberingLookup } from './lookup.ts';
import type { SignedBeat, Transport, TryResult } from './transport.ts';

/** An ack is some 300 bytes; whoever sends more is not farpulse. */
const MAX_ANSWER_BYTES = 16_384;

/** A kept connection idle for longer is not trusted: middleboxes forget silently. */
const MAX_IDLE_MS = 90_000;

/** Beats by HTTPS POST. A connection is kept for the next beat only while everything on it went well. */
export class HttpsTransport implements Transport {
  readonly #agents = new Map<string, http.Agent>();
  readonly #lookup = rememberingLookup();

  async send(
    endpoint: string,
    beat: SignedBeat,
    recordedBy: readonly string[],
    signal: AbortSignal,
  ): Promise<TryResult> {
    let exchanged = await this.#post(endpoint, beat, recordedBy, signal);
    if (exchanged.kind === 'failed' && exchanged.stale) {
      // The other side closed the kept connection while the beat was under way; the beat is idempotent.
      this.#forgetConnections(endpoint);
      exchanged = await this.#post(endpoint, beat, recordedBy, signal);
    }
    const result = readResult(exchanged, beat.digest);
    if (result.kind === 'failed') this.#forgetConnections(endpoint);
    return result;
  }

  close(): void {
    for (const endpoint of this.#agents.keys()) this.#forgetConnections(endpoint);
  }

  #post(
    endpoint: string,
    beat: SignedBeat,
    recordedBy: readonly string[],
    signal: AbortSignal,
  ): Promise<Exchanged> {
    const headers: Record<string, string> = { 'content-type': BEAT_CONTENT_TYPE, 'user-agent': BEACON_NAME };
    // Names come from answers; one that no header may carry would make the request itself throw.
    const names = recordedBy.filter((name) => /^[\w.:-]+$/.test(name));
    if (names.length > 0) headers[RECORDED_BY_HEADER] = names.join(',');
    return exchange(
      {
        url: new URL(`${endpoint}/v1/beats`),
        method: 'POST',
        headers,
        body: beat.jws,
        agent: this.#agentFor(endpoint),
        lookup: this.#lookup,
        maxAnswerBytes: MAX_ANSWER_BYTES,
      },
      signal,
    );
  }

  #agentFor(endpoint: string): http.Agent {
    const kept = this.#agents.get(endpoint);
    if (kept !== undefined) return kept;
    const options = { keepAlive: true, maxFreeSockets: 1, timeout: MAX_IDLE_MS };
    const agent = endpoint.startsWith('https:') ? new https.Agent(options) : new http.Agent(options);
    this.#agents.set(endpoint, agent);
    return agent;
  }

  #forgetConnections(endpoint: string): void {
    this.#agents.get(endpoint)?.destroy();
    this.#agents.delete(endpoint);
  }
}

function readResult(exchanged: Exchanged, digest: string): TryResult {
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

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
