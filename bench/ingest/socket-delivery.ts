import { WebSocket } from 'ws-npm';
import { BEAT_HEADER, SocketAck, socketPath } from '../../protocol/socket.ts';
import { observerIdOf, shardOf } from '../../worker/core/shard.ts';
import { TIMEOUT_MS, type Delivery, type Outcome } from './delivery.ts';
import { nameOf, REGIONS, SHARDS, type SignedBeat } from './fleet.ts';

/** Sends beats as beacons do over sockets: each node holds one to each of its observers. */
export class SocketDelivery implements Delivery {
  readonly #url: string;
  /** By node and observer. */
  readonly #lines = new Map<string, Line>();

  constructor(url: string) {
    this.#url = url;
  }

  async send(beat: SignedBeat): Promise<Outcome> {
    const shard = shardOf(nameOf(beat.node), SHARDS);
    const outcomes = await Promise.all(
      REGIONS.map((region) => this.#line(beat.node, observerIdOf(region, shard, SHARDS)).send(beat)),
    );
    return outcomes.find((outcome) => outcome !== 'delivered') ?? 'delivered';
  }

  close(): void {
    for (const line of this.#lines.values()) line.close();
  }

  #line(node: number, observer: string): Line {
    const key = `${node} ${observer}`;
    const line = this.#lines.get(key) ?? new Line(this.#url + socketPath(observer));
    this.#lines.set(key, line);
    return line;
  }
}

/** One node's socket to one observer. Opened by a beat, anew after each end. */
class Line {
  readonly #url: string;
  readonly #waiting = new Map<string, (outcome: Outcome) => void>();
  #socket: WebSocket | undefined;

  constructor(url: string) {
    this.#url = url.replace(/^http/, 'ws');
  }

  send({ jws, digest }: SignedBeat): Promise<Outcome> {
    return new Promise((resolve) => {
      const timer = setTimeout(
        () => this.#settle(digest, `no answer within ${TIMEOUT_MS / 1000} s`),
        TIMEOUT_MS,
      );
      this.#waiting.set(digest, (outcome) => {
        clearTimeout(timer);
        resolve(outcome);
      });
      if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(jws);
      else this.#open(jws);
    });
  }

  close(): void {
    this.#socket?.terminate();
  }

  #open(jws: string): void {
    this.#socket?.terminate();
    const socket = new WebSocket(this.#url, { headers: { [BEAT_HEADER]: jws }, perMessageDeflate: false });
    this.#socket = socket;
    socket.on('message', (data: Buffer) => {
      const ack = SocketAck.safeParse(JSON.parse(data.toString()));
      if (ack.success) this.#settle(ack.data.digest, 'delivered');
      else this.#settleAll(data.toString().slice(0, 200));
    });
    socket.on('unexpected-response', (_, response) => {
      this.#settleAll(`no socket: ${response.statusCode ?? 0}`);
      socket.terminate();
    });
    // An end that was not asked for is an error of whatever waits.
    socket.on('error', (error) => this.#settleAll(error.message));
    socket.on('close', () => this.#settleAll('the socket was closed'));
  }

  #settle(digest: string, outcome: Outcome): void {
    this.#waiting.get(digest)?.(outcome);
    this.#waiting.delete(digest);
  }

  #settleAll(outcome: Outcome): void {
    for (const digest of this.#waiting.keys()) this.#settle(digest, outcome);
  }
}
