import { z } from 'zod';
import { Ack, Problem } from './ack.ts';

/*
 * The beacon's sockets: one to each observer of its node. A message from the beacon is a beat, the compact JWS as it
 * is; a message from the observer is the answer to one, by the beat's digest.
 */

/** `<endpoint>/v1/sockets/<observer>`: names as acks give them. */
export function socketPath(observer: string): string {
  return `/v1/sockets/${encodeURIComponent(observer)}`;
}

/** Request header of the handshake: the beat that opens the socket. It is recorded as any other and acked first. */
export const BEAT_HEADER = 'farpulse-beat';

/** The answer of one observer: `recordedBy` names only itself. */
export const SocketAck = Ack.extend({
  /** All observers of this node, as they are configured now. */
  observers: z.array(z.string()).optional(),
});
export type SocketAck = z.infer<typeof SocketAck>;

/** `digest` is missing where the message was too large to be read. */
export const SocketProblem = Problem.extend({ digest: z.string().optional() });
export type SocketProblem = z.infer<typeof SocketProblem>;

/** Close codes (RFC 6455, 7.4.1) and why: nothing but a new socket is asked of the beacon by any of them. */
export const SOCKET_CLOSES = {
  replaced: [1000, 'replaced by a newer socket of this node'],
  garbage: [1008, 'too many messages that are no beats of this node'],
  moved: [1012, 'this node has another observer now'],
} as const satisfies Record<string, readonly [code: number, reason: string]>;
