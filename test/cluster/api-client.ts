// A small client of the Kubernetes API for tests: JSON over one keep-alive agent that trusts the
// control plane's own certificate. Not the product's client, so that a fault there cannot hide itself.
import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export interface ApiResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Parsed when it is JSON, else the text. */
  readonly body: unknown;
}

export interface WatchEvent<T> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: T;
}

/** An answer of 400 or more. `reason` is the API's own word, such as `Conflict`. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly reason: string;

  constructor(method: Method, path: string, response: ApiResponse) {
    const { message, reason } = statusOf(response.body);
    super(`${method} ${path}: ${response.status} ${message ?? JSON.stringify(response.body)}`);
    this.status = response.status;
    this.reason = reason ?? '';
  }
}

export interface ApiClientOptions {
  readonly url: string;
  /** PEM. */
  readonly ca: string;
  /** Without one, as anonymous. */
  readonly token?: string;
  /** For one request, to its last byte. Default 10,000. */
  readonly timeoutMs?: number;
}

export const STRATEGIC_MERGE = {
  'content-type': 'application/strategic-merge-patch+json',
} as const;

export class ApiClient {
  readonly #options: ApiClientOptions;
  readonly #agent: Agent;

  constructor(options: ApiClientOptions) {
    this.#options = options;
    this.#agent = new Agent({ keepAlive: true, ca: options.ca });
  }

  /** The same server as another account. */
  as(token: string): ApiClient {
    return new ApiClient({ ...this.#options, token });
  }

  /**
   * The answer's body; an answer of 400 or more is an `ApiError`. As every client of Kubernetes does, it
   * asks again after a 429: a server that has just started gives it while its caches fill.
   */
  async request<T = unknown>(
    method: Method,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<T> {
    let response = await this.respond(method, path, body, headers);
    for (let tries = 1; response.status === 429 && tries < 10; tries++) {
      await delay(1000 * Number(response.headers['retry-after'] ?? 1));
      response = await this.respond(method, path, body, headers);
    }
    if (response.status >= 400) throw new ApiError(method, path, response);
    // SAFETY: the caller names the type of what it asks for.
    return response.body as T;
  }

  /** Whatever the server answers. A string is sent as it is, all else as JSON. */
  async respond(
    method: Method,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<ApiResponse> {
    const signal = AbortSignal.timeout(this.#options.timeoutMs ?? 10_000);
    const message = await this.#open(method, path, signal, body, headers);
    const answer = await text(message);
    const json = message.headers['content-type']?.includes('json') === true && answer !== '';
    return {
      status: message.statusCode ?? 0,
      headers: message.headers,
      body: json ? JSON.parse(answer) : answer,
    };
  }

  /**
   * One watch request: returns when the server ends it or `signal` is aborted. `receivedAtMs` is the
   * wall clock at the event's arrival.
   */
  async watch<T>(
    path: string,
    onEvent: (event: WatchEvent<T>, receivedAtMs: number) => void,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      const message = await this.#open('GET', path, signal);
      const { statusCode: status = 0, headers } = message;
      if (status >= 400) throw new ApiError('GET', path, { status, headers, body: await text(message) });
      message.setEncoding('utf8');
      let rest = '';
      for await (const chunk of message) {
        const receivedAtMs = Date.now();
        const lines = (rest + (chunk as string)).split('\n');
        rest = lines.pop() ?? '';
        // SAFETY: the caller names the type of what it watches.
        for (const line of lines) onEvent(JSON.parse(line) as WatchEvent<T>, receivedAtMs);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  /** Closes idle and open connections: after the server was ended, or to be done with it. */
  close(): void {
    this.#agent.destroy();
  }

  async #open(
    method: Method,
    path: string,
    signal: AbortSignal,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<IncomingMessage> {
    const payload = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
    const request = httpsRequest(new URL(path, this.#options.url), {
      method,
      agent: this.#agent,
      signal,
      headers: {
        accept: 'application/json',
        ...(this.#options.token === undefined ? {} : { authorization: `Bearer ${this.#options.token}` }),
        ...(payload === undefined
          ? {}
          : {
              'content-type': 'application/json',
              'content-length': String(Buffer.byteLength(payload)),
            }),
        ...headers,
      },
    });
    request.end(payload);
    try {
      const [message] = (await once(request, 'response')) as [IncomingMessage];
      return message;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new Error(`${method} ${path}: ${reason}`, { cause: error });
    }
  }
}

function statusOf(body: unknown): { readonly message?: string; readonly reason?: string } {
  return typeof body === 'object' && body !== null ? body : {};
}
