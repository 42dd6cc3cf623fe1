import type { Ack } from '../../protocol/ack.ts';
import { WIRE_VERSION } from '../../protocol/beat.ts';
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Connector } from './connector.ts';
import { ObserverSocket, type SocketAnswer } from './observer-socket.ts';
import type { SignedBeat, TryResult } from './transport.ts';

/** With a quorum the beat is delivered; so much longer the others may still be named in the result. */
const GRACE_MS = 100;

/** Far more regions than there are; what an answer claims must not open sockets without end. */
const MAX_OBSERVERS = 16;

/** A socket that has brought so many beats is good: its observer's earlier failures are forgotten. */
const SUSTAINED_ACKS = 3;

/** The longest window that a new socket after a failure is drawn from. */
const MAX_WINDOW_MS = 600_000;

interface ObserverSocketsParts {
  readonly connector: Connector;
  readonly clock: Clock;
  readonly intervalMs: number;
  /** After a failure, leave an observer's sockets alone for a while. Otherwise each beat opens what is missing. */
  readonly holdsBack: boolean;
  readonly log: Log;
}

/** What one beat met on the sockets. */
export interface SocketRound {
  readonly result: TryResult;
  /** Whom no socket could bring the beat to, so that another way may. */
  readonly lacking: readonly string[];
}

/** A row of failures to have a socket to one observer that carries beats, and until when to leave it alone. */
interface Held {
  readonly failures: number;
  readonly untilMs: number;
}

/** A node's sockets: one to each of its observers, kept open from beat to beat. */
export class ObserverSockets {
  readonly #parts: ObserverSocketsParts;
  readonly #sockets = new Map<string, ObserverSocket>();
  readonly #held = new Map<string, Held>();
  /** Known from the first ack on, whichever way it came. */
  #observers: readonly string[] = [];
  #quorum = 0;
  #endpoint = '';

  constructor(parts: ObserverSocketsParts) {
    this.#parts = parts;
  }

  /** Who hears this node, and how many of them a beat needs. */
  learn(observers: readonly string[], quorum: number): void {
    this.#observers = [...new Set(observers)].slice(0, MAX_OBSERVERS);
    this.#quorum = quorum;
    for (const [observer, socket] of this.#sockets) {
      if (this.#observers.includes(observer)) continue;
      socket.close();
      this.#sockets.delete(observer);
    }
  }

  /** Whether a beat may find its quorum here. A socket that is open is used, whatever came before it. */
  get canCarry(): boolean {
    return this.#quorum > 0 && this.#ready().length >= this.#quorum;
  }

  /** Brings a beat to all observers that are not held back. Answers soon after the signal at the latest. */
  async send(endpoint: string, beat: SignedBeat, signal: AbortSignal): Promise<SocketRound> {
    if (endpoint !== this.#endpoint) this.close();
    this.#endpoint = endpoint;
    const answers = new Map<string, SocketAnswer>();
    const enough = Promise.withResolvers<void>();
    const asked = this.#ready();
    const all = Promise.all(
      asked.map(async (observer) => {
        const answer = await this.#ask(observer, beat, signal);
        answers.set(observer, answer);
        this.#note(observer, answer);
        if (recordedIn(answers).length >= this.#quorum) enough.resolve();
      }),
    );
    const moment = enough.promise.then(() => this.#parts.clock.sleep(GRACE_MS, signal));
    await Promise.race([all, moment]);
    return { result: this.#summary(beat, answers), lacking: this.#lacking(asked, answers) };
  }

  close(): void {
    for (const socket of this.#sockets.values()) socket.close();
    this.#sockets.clear();
  }

  async #ask(observer: string, beat: SignedBeat, signal: AbortSignal): Promise<SocketAnswer> {
    const kept = this.#sockets.get(observer);
    if (kept?.isTrusted === true) {
      const answer = await kept.send(beat, signal);
      // Closed by the other side while the beat was under way: that says nothing about the path, and beats are idempotent.
      const wasStale = answer.kind === 'failed' && answer.failure !== 'timeout';
      if (!wasStale || signal.aborted) return answer;
    }
    kept?.close();
    const socket = new ObserverSocket(this.#endpoint, observer, this.#parts.connector);
    this.#sockets.set(observer, socket);
    return socket.open(beat, signal);
  }

  #note(observer: string, answer: SocketAnswer): void {
    if (answer.kind === 'acked') {
      this.learn(answer.ack.observers ?? this.#observers, answer.ack.quorum);
      const isGood = (this.#sockets.get(observer)?.acks ?? 0) >= SUSTAINED_ACKS;
      if (isGood && this.#held.delete(observer)) this.#parts.log.info('socket-restored', { observer });
      return;
    }
    // What an observer says to a beat it says whichever way that came.
    if (answer.kind === 'refused' && answer.code !== 'unavailable') return;
    const { clock, intervalMs, log } = this.#parts;
    const failures = (this.#held.get(observer)?.failures ?? 0) + 1;
    const windowMs = Math.min(intervalMs * 2 ** (failures - 1), MAX_WINDOW_MS);
    this.#held.set(observer, { failures, untilMs: clock.monotonicMs() + clock.random() * windowMs });
    const { why } = answer;
    (failures === 1 ? log.info : log.debug)('socket-failed', { observer, why, failures });
  }

  #ready(): readonly string[] {
    const { clock, holdsBack } = this.#parts;
    const nowMs = clock.monotonicMs();
    return this.#observers.filter(
      (observer) =>
        !holdsBack ||
        (this.#held.get(observer)?.untilMs ?? 0) <= nowMs ||
        this.#sockets.get(observer)?.isTrusted === true,
    );
  }

  /** Held back, or failed; not those that still may answer: a beat that comes twice does no harm, but costs. */
  #lacking(asked: readonly string[], answers: ReadonlyMap<string, SocketAnswer>): readonly string[] {
    return this.#observers.filter((observer) => {
      const answer = answers.get(observer);
      if (answer === undefined) return !asked.includes(observer);
      return answer.kind === 'failed' || (answer.kind === 'refused' && answer.code === 'unavailable');
    });
  }

  #summary({ digest }: SignedBeat, answers: ReadonlyMap<string, SocketAnswer>): TryResult {
    const recordedBy = recordedIn(answers);
    const others = [...answers.values()].filter((answer) => answer.kind !== 'acked');
    if (recordedBy.length === 0) {
      // What an observer says of the beat outweighs what the way to another did.
      const [first = nothing] = [
        ...others.filter((answer) => answer.kind === 'refused' && answer.code === 'replayed'),
        ...others.filter((answer) => answer.kind === 'refused'),
        ...others,
      ];
      return first;
    }
    const missing: Ack['missing'] = [...answers].flatMap(([observer, answer]) =>
      answer.kind === 'acked'
        ? []
        : [{ observer, code: answer.kind === 'refused' ? answer.code : 'unavailable' }],
    );
    return {
      kind: 'acked',
      ack: { v: WIRE_VERSION, digest, recordedBy: [...recordedBy], missing, quorum: this.#quorum },
    };
  }
}

const nothing: TryResult = { kind: 'failed', failure: 'timeout', why: 'no socket has answered' };

/** Each observer's socket speaks for that one only, whatever its ack says. */
function recordedIn(answers: ReadonlyMap<string, SocketAnswer>): readonly string[] {
  return [...answers].filter(([, { kind }]) => kind === 'acked').map(([observer]) => observer);
}
