// The way from one farpulse cluster to the API server, on loopback: it logs in with the detector's credential, keeps
// what was written, and lets a test step in before or after a request, which is how races are made to happen.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

import type { ApiClient, Method } from './api-client.ts';

/** A request on its way: `PATCH /api/v1/nodes/node-1/status?…`. */
export interface Passing {
  readonly method: Method;
  /** Without the query. */
  readonly path: string;
  readonly body: unknown;
}

export interface Passed extends Passing {
  readonly status: number;
}

/** What it does is over before the request or its answer goes on; when it throws, the connection is reset. */
export type Step = (passing: Passing) => Promise<void> | void;

export class ApiDoor {
  readonly url: string;
  /** Opens the door; the credential behind it stays here. */
  readonly token: string;
  /** All that has passed, in the order of the answers. */
  readonly passed: Passed[] = [];
  /** Before a write to a Node or pod is passed on. */
  before: Step | undefined;
  /** After the API server has answered, before the Worker hears of it. */
  after: Step | undefined;
  readonly #server: Server;
  readonly #client: ApiClient;

  private constructor(server: Server, client: ApiClient, token: string) {
    this.#server = server;
    this.#client = client;
    this.token = token;
    // SAFETY: it listens on a port, so this is no pipe's name.
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      this.#pass(request, response).catch(() => response.destroy());
    });
  }

  /** @param client of the detector's account */
  static async open(client: ApiClient): Promise<ApiDoor> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new ApiDoor(server, client, randomBytes(24).toString('base64url'));
  }

  /** The writes to Nodes and pods, `PATCH nodes/node-1/status 200`, of those whose path contains `part`. */
  written(part = ''): string[] {
    return this.passed
      .filter((passed) => isWrite(passed) && passed.path.includes(part))
      .map(({ method, path, status }) => `${method} ${path.replace('/api/v1/', '')} ${status}`);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.headers.authorization !== `Bearer ${this.token}`) {
      response.writeHead(401).end();
      return;
    }
    // SAFETY: the Worker sends no other methods.
    const method = request.method as Method;
    const url = request.url ?? '/';
    const [path = '/'] = url.split('?');
    const sent = await text(request);
    const passing: Passing = { method, path, body: sent === '' ? undefined : JSON.parse(sent) };
    if (isWrite(passing)) await this.before?.(passing);
    const headers = {
      accept: request.headers.accept ?? '',
      'content-type': request.headers['content-type'] ?? '',
    };
    const answer = await this.#client.respond(method, url, sent === '' ? undefined : sent, headers);
    this.passed.push({ ...passing, status: answer.status });
    if (isWrite(passing)) await this.after?.(passing);
    const { 'content-type': contentType = 'application/json', 'retry-after': retryAfter } = answer.headers;
    response
      .writeHead(answer.status, {
        'content-type': contentType,
        ...(retryAfter && { 'retry-after': retryAfter }),
      })
      .end(typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body));
  }
}

/** Of what farpulse is judged by: its Events and its own Lease are not. */
function isWrite({ method, path }: Passing): boolean {
  return method !== 'GET' && /\/(?:nodes|pods)\//.test(path);
}
