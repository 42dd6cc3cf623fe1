import type { Ack } from '../../protocol/ack.ts';

/** How far a request came before it failed, in words that tell an operator whom to ask. */
export type Failure =
  /** The name was not resolved. */
  | 'dns'
  /** No connection, or it broke. */
  | 'tcp'
  /** The handshake failed: a certificate, or something in between. */
  | 'tls'
  /** The proxy was not reached, or refused: nothing is known of what lies beyond it. */
  | 'proxy'
  /** Not answered by the try's deadline. */
  | 'timeout'
  /** The service's own edge answered an error: 5xx or 429. */
  | 'http-status'
  /** Answered, but not by farpulse: a captive portal, a proxy, a wrong address. */
  | 'foreign-answer';

/** What became of one try. Only `acked` means that a beat was recorded: it echoes the beat's digest. */
export type TryResult =
  | { readonly kind: 'acked'; readonly ack: Ack }
  | {
      readonly kind: 'refused';
      readonly code: string;
      readonly status: number;
      readonly why: string;
      readonly highestSeq?: number;
      readonly retryAfterMs?: number;
    }
  | {
      readonly kind: 'failed';
      readonly failure: Failure;
      readonly why: string;
      readonly retryAfterMs?: number;
    };

/** A signed beat and the name that acks call it by. */
export interface SignedBeat {
  readonly jws: string;
  readonly digest: string;
}

/** A way to bring beats to the observers. */
export interface Transport {
  /** How the last beat that was recorded went, where there is a choice. */
  readonly used?: 'https' | 'websocket';
  /**
   * Tries once. Answers soon after the signal at the latest, and never throws.
   *
   * @param recordedBy the observers that have this very beat already
   */
  send(
    endpoint: string,
    beat: SignedBeat,
    recordedBy: readonly string[],
    signal: AbortSignal,
  ): Promise<TryResult>;
  close(): void;
}
