import type { LookupAddress } from 'node:dns';
import { connect, type Socket } from 'node:net';

/** Takes up every error of a connection that nobody waits for any more; without a listener it would end the process. */
export function ignoreErrors(socket: Socket): void {
  socket.on('error', () => {});
}

interface Race {
  /** In the order in which they are begun. */
  readonly addresses: readonly LookupAddress[];
  readonly port: number;
  /** How long one address is left alone before the next one is begun beside it. */
  readonly staggerMs: number;
  readonly signal: AbortSignal;
  /** Told of each address that failed, or was begun earlier than the one that won, or was still open at the end. */
  readonly onLoser: (address: string) => void;
}

/**
 * A connection to whichever address answers first (RFC 8305, "happy eyeballs"): one after the other is begun, a
 * little apart or as soon as one fails, and those begun go on beside it.
 *
 * Node's own `autoSelectFamily` gives each address up after its turn and stays with the last: on a path slower than
 * the turn whose last address leads nowhere, it never connects.
 *
 * @throws the only error, or an AggregateError of all of them; the signal's reason when it fires
 */
export function raceAddresses({ addresses, port, staggerMs, signal, onLoser }: Race): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const waiting = [...addresses];
  const open = new Map<Socket, string>(); // in the order begun
  const errors: Error[] = [];
  let timer: NodeJS.Timeout | undefined;

  const end = (winner?: Socket): void => {
    clearTimeout(timer);
    signal.removeEventListener('abort', giveUp);
    let isEarlier = true;
    for (const [socket, address] of open) {
      if (socket === winner) isEarlier = false;
      else {
        if (isEarlier) onLoser(address);
        socket.destroy();
      }
    }
  };
  const giveUp = (): void => {
    end();
    reject(signal.reason as Error);
  };
  const beginNext = (): void => {
    clearTimeout(timer);
    const next = waiting.shift();
    if (next === undefined) {
      if (open.size > 0) return;
      end();
      reject(errors.length === 1 && errors[0] !== undefined ? errors[0] : new AggregateError(errors, ''));
      return;
    }
    const socket = connect({ host: next.address, port, noDelay: true });
    ignoreErrors(socket);
    open.set(socket, next.address);
    socket.once('connect', () => {
      end(socket);
      resolve(socket);
    });
    socket.once('error', (error) => {
      if (!open.delete(socket)) return;
      onLoser(next.address);
      errors.push(error);
      beginNext();
    });
    if (waiting.length > 0) timer = setTimeout(beginNext, staggerMs);
  };

  if (signal.aborted) giveUp();
  else {
    signal.addEventListener('abort', giveUp);
    beginNext();
  }
  return promise;
}
