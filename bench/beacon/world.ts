// What a beacon needs of the world, on loopback: an edge that acknowledges over TLS, and for the API server and the
// kubelet one server that says ok to whatever it is asked.
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { digestOf } from '../../protocol/jws.ts';
import { writeEnrolment } from '../../node-beacon/enrolment-file.ts';
import { selfSigned } from '../../test/beacon/support/certificate.ts';

const REGIONS = ['weur', 'enam', 'apac'];

/** What went over the beacon's connections to the edge, TLS included, without the headers of IP and TCP. */
export interface Traffic {
  readonly sentBytes: number;
  readonly receivedBytes: number;
  readonly connections: number;
}

export class World {
  readonly folder: string;
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  #edgeUrl = '';
  #clusterUrl = '';
  #acks = 0;
  #firstAckAtMs: number | undefined;
  #sentBytes = 0;
  #receivedBytes = 0;
  #connections = 0;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async start(): Promise<World> {
    const world = new World(await mkdtemp(join(tmpdir(), 'farpulse-bench-')));
    const certificate = selfSigned('edge');
    await writeFile(join(world.folder, 'ca.pem'), certificate.cert);
    const server = https.createServer(certificate, (ask, answer) => world.#ack(ask, answer));
    server.keepAliveTimeout = 300_000; // an edge keeps connections for minutes, Node's default is 5 s
    const edge = await world.#listen(server);
    const counted = await world.#listen(createServer((socket) => world.#count(socket, edge)));
    world.#edgeUrl = `https://localhost:${counted}`;
    const cluster = await world.#listen(http.createServer((_ask, answer) => answer.end('ok')));
    world.#clusterUrl = `http://127.0.0.1:${cluster}`;
    // As `enrol` leaves it: the unit's beacon reads no kubeconfig.
    await writeEnrolment(join(world.folder, 'enrolment.json'), {
      node: 'node-1',
      uid: 'uid-1',
      outcome: 'enrolled',
      api: { server: world.#clusterUrl },
    });
    return world;
  }

  /** Of a beacon in this world. */
  flags(intervalSeconds: number): string[] {
    const settings = {
      endpoint: this.#edgeUrl,
      deployment: 'bench',
      cluster: 'bench',
      node: 'node-1',
      'enrolment-file': join(this.folder, 'enrolment.json'),
      'key-file': join(this.folder, 'beacon.key'),
      'ca-file': join(this.folder, 'ca.pem'),
      'status-file': join(this.folder, 'status.json'),
      'kubelet-healthz': `${this.#clusterUrl}/healthz`,
      'interval-seconds': String(intervalSeconds),
      'log-level': 'debug',
    };
    return Object.entries(settings).map(([name, value]) => `--${name}=${value}`);
  }

  get acks(): number {
    return this.#acks;
  }

  /** By this process's monotonic clock. */
  get firstAckAtMs(): number | undefined {
    return this.#firstAckAtMs;
  }

  get traffic(): Traffic {
    return {
      sentBytes: this.#sentBytes,
      receivedBytes: this.#receivedBytes,
      connections: this.#connections,
    };
  }

  /** For the next beacon: a node as new. */
  forget(): void {
    this.#acks = 0;
    this.#firstAckAtMs = undefined;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(this.#servers.map((server) => new Promise((resolve) => server.close(resolve))));
    await rm(this.folder, { recursive: true, force: true });
  }

  #ack(ask: http.IncomingMessage, answer: http.ServerResponse): void {
    const chunks: Buffer[] = [];
    ask.on('data', (chunk: Buffer) => chunks.push(chunk));
    ask.on('end', () => {
      void digestOf(Buffer.concat(chunks).toString('utf8')).then((digest) => {
        answer.setHeader('content-type', 'application/json');
        answer.end(JSON.stringify({ v: 1, digest, recordedBy: REGIONS, missing: [], quorum: 2 }), () => {
          this.#acks += 1;
          this.#firstAckAtMs ??= performance.now();
        });
      });
    });
  }

  #count(socket: Socket, port: number): void {
    this.#connections += 1;
    const edge = connect(port, '127.0.0.1');
    for (const each of [socket, edge]) {
      this.#sockets.add(each);
      each.on('error', () => {});
      each.on('close', () => {
        this.#sockets.delete(each);
        socket.destroy();
        edge.destroy();
      });
    }
    socket.on('data', (chunk: Buffer) => (this.#sentBytes += chunk.length));
    edge.on('data', (chunk: Buffer) => (this.#receivedBytes += chunk.length));
    socket.pipe(edge).pipe(socket);
  }

  async #listen(server: Server): Promise<number> {
    this.#servers.push(server);
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  }
}
