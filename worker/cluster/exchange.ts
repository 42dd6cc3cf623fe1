import type { Gate } from './gate.ts';
import { HttpFailure, NoAnswer } from './failure.ts';

/** Enough of a refusal's body for its Status object, and not a proxy's whole error page. */
const MAX_REFUSAL_BYTES = 64 * 1024;

export interface ExchangeOptions {
  readonly fetch: typeof fetch;
  readonly gate: Gate;
  /** From sending to the last byte of the answer. Waiting at the gate does not count. */
  readonly timeoutMs: number;
}

export interface Question {
  readonly url: string;
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
}

/** JSON with a 2xx status, as text. */
export interface JsonAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/**
 * One request to the API server, bounded in time.
 *
 * Only JSON with a 2xx status is an answer; everything else is thrown, for `failureOf` to explain. Invariant: every
 * body is read to its end or cancelled, since an open one holds one of the six connections that a Worker may have.
 *
 * @throws {HttpFailure} for any other answer
 * @throws {NoAnswer} for none, or for one that broke off
 */
export function exchange(
  { url, method, headers, body }: Question,
  { fetch: send, gate, timeoutMs }: ExchangeOptions,
): Promise<JsonAnswer> {
  return gate.run(async () => {
    // Not AbortSignal.timeout: that timer would stay behind when the answer is there, and a pending timer
    // keeps a Durable Object from going to sleep.
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(), timeoutMs);
    try {
      const response = await send(url, {
        method,
        headers,
        ...(body !== undefined && { body }),
        // A redirect would carry the token to wherever it points, and the Kubernetes API sends none.
        redirect: 'manual',
        signal: deadline.signal,
      });
      const text = await readAnswer(response, deadline.signal);
      return { status: response.status, headers: response.headers, text };
    } catch (error) {
      if (error instanceof HttpFailure) throw error;
      throw new NoAnswer(error, deadline.signal.aborted ? timeoutMs : undefined);
    } finally {
      clearTimeout(timer);
    }
  });
}

async function readAnswer(response: Response, signal: AbortSignal): Promise<string> {
  const contentType = response.headers.get('content-type') ?? '';
  if (response.ok && /^application\/json\b/i.test(contentType)) return readText(response, signal, Infinity);
  throw new HttpFailure({
    status: response.status,
    contentType,
    retryAfter: response.headers.get('retry-after'),
    date: response.headers.get('date'),
    text: await readText(response, signal, MAX_REFUSAL_BYTES),
  });
}

/**
 * Reads `maxBytes` or a little more and cancels the rest. The signal is obeyed here as well, because a fetch that is
 * not the platform's own (a service binding, a test) need not look at it once the headers are there.
 */
async function readText({ body }: Response, signal: AbortSignal, maxBytes: number): Promise<string> {
  if (body === null) return '';
  const reader = body.getReader();
  // Cancelling ends the pending read as if the body were complete. A body that has failed cannot be cancelled.
  const cancel = (): void => void reader.cancel().catch(() => undefined);
  signal.addEventListener('abort', cancel);
  const decoder = new TextDecoder();
  let text = '';
  try {
    for (let bytes = 0; bytes < maxBytes;) {
      const { done, value } = await reader.read();
      signal.throwIfAborted();
      if (done) break;
      bytes += value.byteLength;
      text += decoder.decode(value, { stream: true });
    }
    return text + decoder.decode();
  } finally {
    signal.removeEventListener('abort', cancel);
    cancel();
  }
}
