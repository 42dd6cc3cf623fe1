import { type Clock, withDeadline } from '../clock.ts';
import type { ObserverSockets } from './observer-sockets.ts';
import type { SignedBeat, Transport, TryResult } from './transport.ts';

/** How long, at most, an observer without a socket is asked beside the beat, and which share of a shorter interval. */
const ERRAND_MS = 2_000;
const ERRAND_SHARE = 0.4;

interface SocketsFirstParts {
  readonly sockets: ObserverSockets;
  readonly https: Transport;
  readonly clock: Clock;
  readonly intervalMs: number;
}

/**
 * Each beat is tried on the sockets first, where enough of them can be had, and goes on by HTTPS: whatever is wrong with
 * a socket, no beat is lost to it. The first beat goes by HTTPS at once, since its ack tells who the observers are.
 */
export class SocketsFirst implements Transport {
  readonly #parts: SocketsFirstParts;
  readonly #closed = new AbortController();
  #lastDigest = '';
  #onErrand = false;
  #used: 'https' | 'websocket' = 'https';

  constructor(parts: SocketsFirstParts) {
    this.#parts = parts;
  }

  get used(): 'https' | 'websocket' {
    return this.#used;
  }

  async send(
    endpoint: string,
    beat: SignedBeat,
    recordedBy: readonly string[],
    signal: AbortSignal,
  ): Promise<TryResult> {
    const { sockets } = this.#parts;
    const isRetry = beat.digest === this.#lastDigest;
    this.#lastDigest = beat.digest;
    if (isRetry || !sockets.canCarry) return this.#post(endpoint, beat, recordedBy, signal);
    const { result, lacking } = await sockets.send(endpoint, beat, signal);
    if (result.kind === 'acked' && result.ack.recordedBy.length >= result.ack.quorum) {
      this.#used = 'websocket';
      if (lacking.length > 0) void this.#runErrand(endpoint, beat, result.ack.recordedBy);
      return result;
    }
    const isSaidOfBeat = result.kind === 'refused' && result.code !== 'unavailable';
    if (isSaidOfBeat || signal.aborted) return result;
    // Sockets fail at once where something in between knows only requests; the rest of the try need not be waited for.
    const recorded = result.kind === 'acked' ? result.ack.recordedBy : [];
    const posted = await this.#post(endpoint, beat, recorded, signal);
    return result.kind === 'acked' && posted.kind !== 'acked' ? result : posted;
  }

  close(): void {
    this.#closed.abort();
    this.#parts.sockets.close();
    this.#parts.https.close();
  }

  async #post(
    endpoint: string,
    beat: SignedBeat,
    recordedBy: readonly string[],
    signal: AbortSignal,
  ): Promise<TryResult> {
    const { https, sockets } = this.#parts;
    const result = await https.send(endpoint, beat, recordedBy, signal);
    if (result.kind !== 'acked') return result;
    const { ack } = result;
    this.#used = 'https';
    sockets.learn([...ack.recordedBy, ...ack.missing.map(({ observer }) => observer)], ack.quorum);
    return result;
  }

  /**
   * The beat is delivered, but an observer without a socket must hear it too: it would take the node for silent. Beside
   * the beat, and one at a time.
   */
  async #runErrand(endpoint: string, beat: SignedBeat, recordedBy: readonly string[]): Promise<void> {
    if (this.#onErrand) return;
    this.#onErrand = true;
    const { https, clock, intervalMs } = this.#parts;
    const limitMs = Math.min(ERRAND_MS, ERRAND_SHARE * intervalMs);
    try {
      await withDeadline(clock, limitMs, this.#closed.signal, (within) =>
        https.send(endpoint, beat, recordedBy, within),
      );
    } finally {
      this.#onErrand = false;
    }
  }
}
