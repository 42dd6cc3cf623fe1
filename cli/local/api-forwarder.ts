import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Agent, request, type RequestOptions } from 'node:https';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';

/** Where a cluster's API is, and how to log in: anything a kubeconfig can say. */
export interface ApiTarget {
  readonly url: string;
  /** Fills in certificates and headers for one request. */
  readonly authenticate: (options: RequestOptions) => Promise<void>;
}

/** A door on loopback to an API server that workerd cannot reach by itself. */
export interface ApiForwarder {
  readonly url: string;
  /** Bearer token that opens the door; nobody else on this machine may use the credential behind it. */
  readonly token: string;
  stop(): Promise<void>;
}

/** Headers that belong to one connection (RFC 9110, 7.6.1), and our own token. */
const NOT_FORWARDED = new Set([
  'connection',
  'host',
  'authorization',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
]);

/**
 * Forwards plain HTTP on loopback to a cluster's API over TLS. workerd can neither trust a private CA that it was not
 * started with nor send a client certificate; this process can.
 */
export async function startApiForwarder(target: ApiTarget): Promise<ApiForwarder> {
  const token = randomBytes(24).toString('base64url');
  const agent = new Agent({ keepAlive: true });
  const server = createServer((incoming, outgoing) => {
    forward(target, token, agent, incoming, outgoing).catch((error: unknown) => {
      if (outgoing.headersSent) outgoing.destroy();
      else
        outgoing.writeHead(502).end(error instanceof Error ? error.message : 'no answer from the API server');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // SAFETY: it listens on a port, so this is no pipe's name.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    token,
    stop: async () => {
      agent.destroy();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function forward(
  target: ApiTarget,
  token: string,
  agent: Agent,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  if (incoming.headers.authorization !== `Bearer ${token}`) {
    outgoing.writeHead(401).end();
    return;
  }
  const headers = Object.fromEntries(
    Object.entries(incoming.headers).filter(([name]) => !NOT_FORWARDED.has(name)),
  );
  const options: RequestOptions = { method: incoming.method, headers };
  await target.authenticate(options);
  // Without an agent of its own in the credential (a proxy), connections are kept.
  const base = new URL(target.url);
  const sent = request(new URL(base.pathname.replace(/\/$/, '') + (incoming.url ?? '/'), base), {
    agent,
    ...options,
  });
  const [answer] = (await Promise.all([once(sent, 'response'), pipeline(incoming, sent)]))[0] as [
    IncomingMessage,
  ];
  outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
  await pipeline(answer, outgoing);
}
