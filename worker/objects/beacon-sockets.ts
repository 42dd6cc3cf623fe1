import { MAX_BEAT_BYTES, type RefusalCode, WIRE_VERSION } from '../../protocol/beat.ts';
import { digestOf } from '../../protocol/jws.ts';
import { beatProblem } from '../../protocol/problem.ts';
import type { BeatAnswer } from '../../protocol/report.ts';
import { type SocketAck, SOCKET_CLOSES, type SocketProblem } from '../../protocol/socket.ts';
import { type ClusterConfig, quorumOf } from '../config.ts';
import type { KeptNode, ObserverIdentity } from '../core/observer/state.ts';
import { observerIdOf, shardOf } from '../core/shard.ts';

/** A socket takes some 70 KB of the 128 MB that an isolate has. More nodes want more shards, or HTTPS. */
export const MAX_SOCKETS = 500;

/** Refusals of what nobody who holds a key of the node has signed. */
const GARBAGE: ReadonlySet<RefusalCode> = new Set([
  'malformed',
  'too-large',
  'unsupported-version',
  'wrong-audience',
  'stranger',
  'bad-signature',
]);

/** So many messages in a row that nobody with the node's key has sent, and the socket is closed. */
const MAX_GARBAGE = 3;

const MAX_WHY_LENGTH = 200;

/**
 * What a socket keeps for its object while that sleeps: some 1.5 KB, and with the longest beat, eight boots and
 * two-byte text under 12 KB. The platform takes 16,384 bytes (Durable Objects, WebSockets, `serializeAttachment`).
 * Shapes only grow, as in storage.
 */
interface Attachment extends KeptNode {
  readonly v: 1;
  /** Messages since the last recorded beat that were none of this node's. */
  readonly garbage?: number;
}

/** The sockets of one observer, at most one a node. Their names are their tags, and come from verified beats. */
export class BeaconSockets {
  readonly #ctx: DurableObjectState;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
  }

  nodeOf(socket: WebSocket): string {
    const [name] = this.#ctx.getTags(socket);
    if (name === undefined) throw new Error('a socket without its node');
    return name;
  }

  /**
   * What all sockets keep, by node.
   *
   * @param closing the socket whose end is being told: what it keeps has not been lost yet
   */
  kept(closing?: WebSocket): Map<string, KeptNode> {
    const newest = new Map<string, KeptNode>();
    for (const socket of new Set([
      ...this.#ctx.getWebSockets(),
      ...(closing === undefined ? [] : [closing]),
    ])) {
      const kept = attachmentOf(socket);
      if (kept === undefined) continue;
      const name = this.nodeOf(socket);
      if (kept.node.heardAtMs > (newest.get(name)?.node.heardAtMs ?? 0)) newest.set(name, kept);
    }
    return newest;
  }

  /** Whether there is no room for a socket of this node; a second one takes the place of its first. */
  isFullFor(name: string): boolean {
    return (
      !this.has(name) && this.#ctx.getWebSockets().filter((socket) => isOpen(socket)).length >= MAX_SOCKETS
    );
  }

  /** @param besides a socket that does not count, because it is closing */
  has(name: string, besides?: WebSocket): boolean {
    return this.#ctx.getWebSockets(name).some((socket) => socket !== besides && isOpen(socket));
  }

  /** Takes in a node's socket, and says the first word on it. */
  accept(name: string, kept: KeptNode, ack: SocketAck): Response {
    for (const older of this.#ctx.getWebSockets(name)) {
      if (isOpen(older)) older.close(...SOCKET_CLOSES.replaced);
    }
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server, [name]);
    server.serializeAttachment({ v: 1, ...kept } satisfies Attachment);
    server.send(JSON.stringify(ack));
    return new Response(null, { status: 101, webSocket: client });
  }

  /** On every socket of the node that is still known, closing or not: what is found after sleep must be the newest. */
  keep(name: string, kept: KeptNode): void {
    for (const socket of this.#ctx.getWebSockets(name)) {
      socket.serializeAttachment({ v: 1, ...kept } satisfies Attachment);
    }
  }

  /**
   * One message: a beat, or garbage. A beat of another node is taken as any other: a beat can only add life.
   *
   * @param hear what the observer says to a beat
   */
  async answer(
    socket: WebSocket,
    message: string | ArrayBuffer,
    identity: ObserverIdentity,
    config: ClusterConfig,
    hear: (jws: string, digest: string) => Promise<BeatAnswer>,
  ): Promise<void> {
    // After a change of the configuration, another object hears this node.
    if (shardOf(this.nodeOf(socket), config.shards) !== identity.shard) {
      return socket.close(...SOCKET_CLOSES.moved);
    }
    const jws = typeof message === 'string' ? message : '';
    if (jws.length > MAX_BEAT_BYTES) return this.#refuse(socket, beatProblem('too-large'));
    const digest = await digestOf(jws);
    const answer = await hear(jws, digest);
    if (answer.kind === 'recorded') return say(socket, ackOf(identity, config, digest));
    const { code, why, highestSeq } = answer;
    const detail = why.slice(0, MAX_WHY_LENGTH);
    const highest = highestSeq === undefined ? {} : { highestSeq };
    this.#refuse(socket, { ...beatProblem(code, { detail, ...highest }), digest });
  }

  #refuse(socket: WebSocket, problem: SocketProblem): void {
    say(socket, problem);
    if (!GARBAGE.has(problem.code as RefusalCode)) return;
    const attachment = attachmentOf(socket);
    if (attachment === undefined) return;
    const garbage = (attachment.garbage ?? 0) + 1;
    if (garbage >= MAX_GARBAGE) socket.close(...SOCKET_CLOSES.garbage);
    else socket.serializeAttachment({ ...attachment, garbage } satisfies Attachment);
  }
}

/** One observer's word that it has a beat. */
export function ackOf(
  { observer, shard }: ObserverIdentity,
  config: ClusterConfig,
  digest: string,
): SocketAck {
  const { regions, shards } = config;
  return {
    v: WIRE_VERSION,
    digest,
    recordedBy: [observer],
    missing: [],
    quorum: quorumOf(regions.length),
    observers: regions.map((region) => observerIdOf(region, shard, shards)),
  };
}

/** It may have closed while its beat was judged. */
function say(socket: WebSocket, message: SocketAck | SocketProblem): void {
  if (isOpen(socket)) socket.send(JSON.stringify(message));
}

function isOpen(socket: WebSocket): boolean {
  return socket.readyState === WebSocket.OPEN;
}

function attachmentOf(socket: WebSocket): Attachment | undefined {
  // SAFETY: only this class writes attachments, and only of this shape.
  return (socket.deserializeAttachment() as Attachment | null) ?? undefined;
}
