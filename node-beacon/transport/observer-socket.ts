import type http from 'node:http';
import { WebSocket } from 'ws-npm';
import { BEAT_HEADER, SocketAck, SocketProblem, socketPath } from '../../protocol/socket.ts';
import { REFUSAL_CODES } from '../../protocol/beat.ts';
import { clip } from '../text.ts';
import { BEACON_NAME } from '../version.ts';
import { agentOver, type Connector } from './connector.ts';
import { readAnswer } from './exchange.ts';
import { explain } from './failure-text.ts';
import { MAX_ANSWER_BYTES, parseJson, readResult } from './https.ts';
import type { Failure, SignedBeat, TryResult } from './transport.ts';

/** What one observer says to a beat, or what its socket met. */
export type SocketAnswer =
  | { readonly kind: 'acked'; readonly ack: SocketAck }
  | Exclude<TryResult, { kind: 'acked' }>;

/** One socket to one observer. A beat opens it, and it is never opened again: whoever wants another makes a new one. */
export class ObserverSocket {
  readonly #url: URL;
  readonly #connector: Connector;
  /** By digest. */
  readonly #waiting = new Map<string, (answer: SocketAnswer) => void>();
  readonly #connecting = new AbortController();
  #socket: WebSocket | undefined;
  #closed = false;
  #acks = 0;

  constructor(endpoint: string, observer: string, connector: Connector) {
    this.#url = new URL(endpoint + socketPath(observer));
    this.#connector = connector;
  }

  /** Beats that came back acked. */
  get acks(): number {
    return this.#acks;
  }

  /**
   * Open, and every beat on it was answered. One that has left a beat unanswered is not believed any more: there may be
   * nobody at its other end, and no FIN tells.
   */
  get isTrusted(): boolean {
    return this.#socket?.readyState === WebSocket.OPEN && this.#waiting.size === 0;
  }

  /** Opens it with a beat. To be called once. Never throws; when the signal fires before the answer, it closes. */
  async open(beat: SignedBeat, signal: AbortSignal): Promise<SocketAnswer> {
    const abort = (): void => this.#connecting.abort();
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    const connected = await this.#connector.connect(this.#url, this.#connecting.signal);
    signal.removeEventListener('abort', abort);
    if (connected.kind === 'failed') {
      this.#closed = true;
      return { kind: 'failed', failure: connected.failure, why: connected.why };
    }
    if (this.#closed) {
      connected.socket.destroy();
      return failed('timeout', 'given up opening the socket');
    }
    const socket = new WebSocket(this.#url, {
      agent: agentOver(connected.socket, this.#url),
      headers: { [BEAT_HEADER]: beat.jws, 'user-agent': BEACON_NAME },
      perMessageDeflate: false, // signatures do not compress, and it costs memory for each socket
      maxPayload: MAX_ANSWER_BYTES,
    });
    this.#socket = socket;
    const answer = this.#answerTo(beat, signal);
    socket.binaryType = 'nodebuffer';
    socket.on('message', (data: Buffer) => this.#receive(data.toString()));
    socket.on('unexpected-response', (request, response) => {
      void this.#readRefusal(response, beat).then((refusal) => {
        request.destroy();
        this.#end(refusal);
      });
    });
    socket.on('error', (error) => this.#end(failed('tcp', explain(error))));
    socket.on('close', (code, reason) => {
      const said = reason.length === 0 ? '' : `: ${reason.toString()}`;
      this.#end(failed('tcp', clip(`the socket was closed (${code}${said})`)));
    });
    return answer;
  }

  /** One more beat. Only while {@link isTrusted}. */
  send(beat: SignedBeat, signal: AbortSignal): Promise<SocketAnswer> {
    const answer = this.#answerTo(beat, signal);
    this.#socket?.send(beat.jws, (error) => {
      if (error !== undefined && error !== null) this.#end(failed('tcp', explain(error)));
    });
    return answer;
  }

  /** Says goodbye where there is somebody to hear it. */
  close(): void {
    const isPolite = this.isTrusted;
    this.#closed = true;
    this.#connecting.abort();
    if (isPolite) this.#socket?.close(1000);
    else this.#socket?.terminate();
    this.#settle(failed('timeout', 'not answered until the socket was given up'));
  }

  #answerTo({ digest }: SignedBeat, signal: AbortSignal): Promise<SocketAnswer> {
    const { promise, resolve } = Promise.withResolvers<SocketAnswer>();
    const giveUp = (): void => {
      const isOpen = this.#socket?.readyState === WebSocket.OPEN;
      const doing = isOpen ? 'waiting for the answer' : 'opening the socket';
      this.#end(failed('timeout', `gave up ${doing}`));
    };
    this.#waiting.set(digest, (answer) => {
      signal.removeEventListener('abort', giveUp);
      resolve(answer);
    });
    if (signal.aborted) giveUp();
    else signal.addEventListener('abort', giveUp);
    return promise;
  }

  #receive(message: string): void {
    const json = parseJson(message);
    const ack = SocketAck.safeParse(json);
    if (ack.success) {
      if (this.#waiting.has(ack.data.digest)) this.#acks += 1;
      this.#settle({ kind: 'acked', ack: ack.data }, ack.data.digest);
      return;
    }
    const problem = SocketProblem.safeParse(json);
    if (!problem.success) return; // whoever says that does not answer the beat, and is found out by it
    const { code, status, title, detail, highestSeq, digest } = problem.data;
    const why = clip(detail ?? title);
    const highest = highestSeq === undefined ? {} : { highestSeq };
    this.#settle({ kind: 'refused', code: clip(code), status, why, ...highest }, digest);
  }

  /** An answer without a digest is to all that wait. */
  #settle(answer: SocketAnswer, digest?: string): void {
    const digests = digest === undefined ? [...this.#waiting.keys()] : [digest];
    for (const each of digests) {
      this.#waiting.get(each)?.(answer);
      this.#waiting.delete(each);
    }
  }

  /** Whatever came to an end: nothing more is sent here, and the next connection begins with another address. */
  #end(answer: SocketAnswer): void {
    if (answer.kind === 'failed' && this.#waiting.size > 0) this.#connector.failed(this.#url);
    this.#closed = true;
    this.#socket?.terminate();
    this.#settle(answer);
  }

  async #readRefusal(response: http.IncomingMessage, { digest }: SignedBeat): Promise<SocketAnswer> {
    const answered = await readAnswer(response, MAX_ANSWER_BYTES).catch((error: unknown) => explain(error));
    if (typeof answered === 'string') return failed('tcp', answered);
    const result = readResult(answered, digest);
    // A Worker that knows of no sockets says so in words that are not about the beat.
    const isOfBeat = result.kind === 'refused' && (REFUSAL_CODES as readonly string[]).includes(result.code);
    if (result.kind === 'failed' || isOfBeat) return result;
    return failed('foreign-answer', clip(`no socket here: answered ${response.statusCode ?? 0}`));
  }
}

function failed(failure: Failure, why: string): SocketAnswer {
  return { kind: 'failed', failure, why };
}
