import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ANONYMOUS } from './access.ts';
import { Api, type ApiAnswer, type ApiRequest } from './api.ts';
import { badRequest, forbidden, unauthorized } from './api-error.ts';
import { type Clock, REAL_CLOCK } from './clock.ts';
import { Faults } from './faults.ts';
import type { Store } from './store.ts';

export interface ApiStandInOptions {
  /** User by bearer token: `admin`, or `system:node:NAME` for a kubelet's credential. */
  readonly tokens: Readonly<Record<string, string>>;
  readonly clock?: Clock;
  /** Default: any free one. */
  readonly port?: number;
}

/** One request as it was answered; 0 when the connection was cut instead. */
export interface RequestRecord {
  readonly method: string;
  readonly path: string;
  readonly user: string;
  readonly status: number;
}

/** Paths that anybody may read (ClusterRole system:public-info-viewer). */
const PUBLIC_PATHS: ReadonlySet<string> = new Set(['/readyz', '/livez', '/healthz', '/version']);
const MAX_RECORDS = 10_000;

/** A small Kubernetes API in this process, on loopback. It holds what farpulse, beacons and kubelets use. */
export async function startApiStandIn(options: ApiStandInOptions): Promise<ApiStandIn> {
  const server = createServer();
  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');
  return new ApiStandIn(server, options);
}

export class ApiStandIn {
  readonly url: string;
  readonly clock: Clock;
  readonly api: Api;
  readonly faults = new Faults();
  /** The newest requests, oldest first: count writes with it. */
  readonly requests: RequestRecord[] = [];
  readonly #server: Server;
  readonly #tokens: Readonly<Record<string, string>>;

  constructor(server: Server, { tokens, clock = REAL_CLOCK }: ApiStandInOptions) {
    this.clock = clock;
    this.api = new Api(clock);
    this.#server = server;
    this.#tokens = tokens;
    // SAFETY: it listens on a port, so this is no pipe's name.
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('request', (message, response) => {
      this.#serve(message, response).catch((error: unknown) => {
        response.destroy();
        // The caller sees a cut connection; whoever runs the stand-in sees why.
        console.error('API stand-in:', error);
      });
    });
  }

  get store(): Store {
    return this.api.store;
  }

  /** Cuts every connection and frees the port. Safe to call again. */
  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await bodyOf(message);
    const { request, refusal } = this.#admit(message, text);
    const fault = this.faults.take(request);
    const { delayMs } = fault ?? {};
    if (delayMs !== undefined) await new Promise<void>((resume) => this.clock.after(delayMs, resume));
    if (fault?.reset === 'before') return this.#cut(request, response);
    if (fault?.answer !== undefined) return this.#send(request, response, fault.answer, fault.answer.headers);
    const answer = refusal ?? this.api.handle(request);
    if (fault?.reset === 'after') return this.#cut(request, response);
    this.#send(request, response, answer);
  }

  #admit(message: IncomingMessage, text: string): { request: ApiRequest; refusal?: ApiAnswer } {
    const { pathname, searchParams } = new URL(message.url ?? '/', this.url);
    const { headers } = message;
    const token = /^Bearer (.+)$/i.exec(headers.authorization ?? '')?.[1];
    const user = token === undefined ? ANONYMOUS : this.#tokens[token];
    const request: ApiRequest = {
      method: message.method ?? 'GET',
      path: pathname,
      query: searchParams,
      contentType: headers['content-type']?.split(';')[0]?.trim() ?? 'application/json',
      accept: headers.accept ?? '',
      body: parseJson(text),
      user: user ?? '',
      manager: headers['user-agent']?.split('/')[0] ?? 'unknown',
    };
    if (user === undefined) return { request, refusal: refusalOf(unauthorized()) };
    if (user === ANONYMOUS && !PUBLIC_PATHS.has(pathname)) {
      return { request, refusal: refusalOf(forbidden(user, `path "${pathname}"`)) };
    }
    if (text !== '' && request.body === undefined)
      return { request, refusal: refusalOf(badRequest('not JSON')) };
    return { request };
  }

  #send(
    request: ApiRequest,
    response: ServerResponse,
    { status, body }: { readonly status: number; readonly body?: unknown },
    headers: Readonly<Record<string, string>> = {},
  ): void {
    this.#record(request, status);
    const isText = typeof body === 'string';
    response.writeHead(status, {
      'content-type': isText ? 'text/plain; charset=utf-8' : 'application/json',
      ...headers,
    });
    response.end(isText ? body : JSON.stringify(body ?? {}));
  }

  #cut(request: ApiRequest, response: ServerResponse): void {
    this.#record(request, 0);
    response.destroy();
  }

  #record({ method, path, user }: ApiRequest, status: number): void {
    this.requests.push({ method, path, user, status });
    if (this.requests.length > MAX_RECORDS) this.requests.shift();
  }
}

async function bodyOf(message: IncomingMessage): Promise<string> {
  message.setEncoding('utf8');
  let text = '';
  for await (const chunk of message) text += String(chunk);
  return text;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function refusalOf({ status, body }: ApiAnswer): ApiAnswer {
  return { status, body };
}
