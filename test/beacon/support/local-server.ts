import http from 'node:http';
import https from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import type { Certificate } from './certificate.ts';

export interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
  readonly socket: Socket;
}

export type Answer = (request: ReceivedRequest, response: http.ServerResponse) => void;

export interface LocalServer {
  readonly url: string;
  readonly port: number;
  readonly requests: ReceivedRequest[];
  /** Connections that were ever opened. */
  readonly connections: Socket[];
  close(): Promise<void>;
}

interface ServerOptions {
  readonly tls?: Certificate & { readonly clientCa?: string };
  /** 0: any free one. */
  readonly port?: number;
}

/** A real server on loopback, gone at the end of the test. */
export async function serve(answer: Answer, { tls, port = 0 }: ServerOptions = {}): Promise<LocalServer> {
  const requests: ReceivedRequest[] = [];
  const connections: Socket[] = [];
  const listener = async (request: http.IncomingMessage, response: http.ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const { method = '', url: path = '', headers, socket } = request;
    const received = { method, path, headers, body: Buffer.concat(chunks).toString('utf8'), socket };
    requests.push(received);
    answer(received, response);
  };
  const handle = (request: http.IncomingMessage, response: http.ServerResponse): void => {
    // A request whose sender hangs up half-way is the sender's affair.
    listener(request, response).catch(() => response.destroy());
  };
  const server =
    tls === undefined
      ? http.createServer(handle)
      : https.createServer(
          {
            cert: tls.cert,
            key: tls.key,
            ...(tls.clientCa === undefined
              ? {}
              : { requestCert: true, rejectUnauthorized: false, ca: tls.clientCa }),
          },
          handle,
        );
  server.on('connection', (socket) => {
    connections.push(socket);
    socket.on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const close = async (): Promise<void> => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of connections) socket.destroy();
    await closed;
  };
  onTestFinished(close);
  const address = server.address() as AddressInfo;
  return {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${address.port}`,
    port: address.port,
    requests,
    connections,
    close,
  };
}

/** A port of loopback that nobody listens on. */
export async function closedPort(): Promise<number> {
  const server = http.createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export function sendJson(
  response: http.ServerResponse,
  status: number,
  body: unknown,
  headers: http.OutgoingHttpHeaders = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}
