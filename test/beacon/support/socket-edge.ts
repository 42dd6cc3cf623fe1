import http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { WebSocketServer, type WebSocket } from 'ws-npm';
import { type Problem, RECORDED_BY_HEADER } from '../../../protocol/ack.ts';
import { beatProblem } from '../../../protocol/problem.ts';
import { BEAT_HEADER } from '../../../protocol/socket.ts';

/** What one observer does with handshakes and with messages. */
export type Behaviour = 'ack' | 'hang' | 'close' | 'replayed' | 'unavailable' | 'older' | 'portal';

/** A beat as one observer met it. */
export interface Heard {
  readonly way: 'https' | 'opening' | 'message';
  readonly jws: string;
}

export const OBSERVERS = ['weur', 'enam', 'apac'] as const;
type Observer = (typeof OBSERVERS)[number];

/** The digest of every beat here: its own text is short enough. */
export function beatOf(text: string): { jws: string; digest: string } {
  return { jws: text, digest: `digest of ${text}` };
}

/** Farpulse as a beacon sees it: three observers by HTTPS and by socket, each doing what the test says. */
export class SocketEdge {
  readonly heard: Record<Observer, Heard[]> = { weur: [], enam: [], apac: [] };
  readonly sockets: { readonly observer: Observer; readonly socket: WebSocket; readonly tcp: Socket }[] = [];
  readonly behaves: Record<Observer, Behaviour> = { weur: 'ack', enam: 'ack', apac: 'ack' };
  /** What beats by HTTPS meet. */
  https: 'ack' | 'hang' = 'ack';
  readonly #server = http.createServer();
  readonly #upgrades = new WebSocketServer({ noServer: true });
  readonly #connections = new Set<Socket>();

  static async start(): Promise<SocketEdge> {
    const edge = new SocketEdge();
    const server = edge.#server;
    server.on('connection', (socket) => {
      edge.#connections.add(socket);
      socket.on('error', () => {});
    });
    server.on('request', (request, response) => void edge.#post(request, response));
    server.on('upgrade', (request, socket: Socket, head) => edge.#upgrade(request, socket, head));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of edge.#connections) socket.destroy();
      await closed;
    });
    return edge;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  all(behaviour: Behaviour): void {
    for (const observer of OBSERVERS) this.behaves[observer] = behaviour;
  }

  /** How the beats came to one observer. */
  ways(observer: Observer): string[] {
    return this.heard[observer].map(({ way, jws }) => `${jws} ${way}`);
  }

  async #post(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    let jws = '';
    for await (const chunk of request) jws += String(chunk);
    const listed = String(request.headers[RECORDED_BY_HEADER] ?? '').split(',');
    for (const observer of OBSERVERS) {
      if (!listed.includes(observer)) this.heard[observer].push({ way: 'https', jws });
    }
    if (this.https === 'hang') return;
    const { digest } = beatOf(jws);
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ v: 1, digest, recordedBy: OBSERVERS, missing: [], quorum: 2 }));
  }

  #upgrade(request: http.IncomingMessage, tcp: Socket, head: Buffer): void {
    const observer = OBSERVERS.find((name) => request.url === `/v1/sockets/${name}`);
    const jws = String(request.headers[BEAT_HEADER] ?? '');
    if (observer === undefined) return void tcp.end('HTTP/1.1 404 Not Found\r\n\r\n');
    this.heard[observer].push({ way: 'opening', jws });
    const behaviour = this.behaves[observer];
    switch (behaviour) {
      case 'hang':
        return;
      case 'close':
        return void tcp.destroy();
      case 'portal':
        return void tcp.end('HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<h1>Welcome</h1>');
      case 'older':
        return refuse(tcp, { ...beatProblem('unavailable'), status: 404, code: 'not-found' });
      case 'unavailable':
        return refuse(tcp, beatProblem('unavailable'));
      case 'replayed':
        return refuse(tcp, beatProblem('replayed', { highestSeq: 99 }));
      case 'ack':
        break;
    }
    this.#upgrades.handleUpgrade(request, tcp, head, (socket) => {
      this.sockets.push({ observer, socket, tcp });
      socket.on('error', () => {});
      this.#answer(observer, socket, jws);
      socket.on('message', (data: Buffer) => {
        const message = data.toString();
        this.heard[observer].push({ way: 'message', jws: message });
        this.#answer(observer, socket, message);
      });
    });
  }

  #answer(observer: Observer, socket: WebSocket, jws: string): void {
    const { digest } = beatOf(jws);
    switch (this.behaves[observer]) {
      case 'hang':
        return;
      case 'close':
        return socket.terminate();
      case 'replayed':
        return socket.send(JSON.stringify({ ...beatProblem('replayed', { highestSeq: 99 }), digest }));
      case 'unavailable':
      case 'older':
      case 'portal':
        return socket.send(JSON.stringify({ ...beatProblem('unavailable'), digest }));
      case 'ack': {
        const ack = { v: 1, digest, recordedBy: [observer], missing: [], quorum: 2, observers: OBSERVERS };
        return socket.send(JSON.stringify(ack));
      }
    }
  }
}

function refuse(tcp: Socket, problem: Problem): void {
  const body = JSON.stringify(problem);
  tcp.end(
    `HTTP/1.1 ${problem.status} No\r\ncontent-type: application/problem+json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}
