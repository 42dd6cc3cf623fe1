import type { BeatAnswer, Registry, Report, ReportReply } from '../../../protocol/report.ts';
import { reportOf } from '../../../worker/core/observer/report.ts';
import { restore, withReturns, type Snapshot } from '../../../worker/core/observer/snapshot.ts';
import type { HeardNode, ObserverIdentity, ObserverState } from '../../../worker/core/observer/state.ts';
import { stepObserver, type ObserverEvent, type ObserverStep } from '../../../worker/core/observer/step.ts';
import type { Policy } from '../../../worker/core/policy.ts';
import type { Ear, Flight } from './edge.ts';
import { LOST, type Path } from './network.ts';
import { ObjectHost } from './object-host.ts';
import type { EventQueue } from './queue.ts';
import type { Random } from './random.ts';

const REPORT_TIMEOUT_MS = 5_000;
const NOBODY: ReadonlySet<string> = new Set();

/** Where reports go. Undefined: nobody answered. */
export interface ReportSink {
  report(report: Report): ReportReply | undefined;
}

interface ObserverParts {
  readonly queue: EventQueue;
  readonly random: Random;
  readonly identity: ObserverIdentity;
  readonly policy: Policy;
  /** From this observer to the arbiter, for reports and polls alike. */
  readonly path: Path;
  readonly arbiter: ReportSink;
  /** Snapshots take the way through JSON; otherwise they are kept as they are, which is faster. */
  readonly isFaithful: boolean;
}

/** An observer's object: imitates worker/objects/observer.ts around the production core. */
export class ObserverHost extends ObjectHost implements Ear {
  readonly path: Path;
  /** Rows written. */
  stores = 0;
  /** A lying observer's tongue. */
  distort: ((report: Report) => Report) | undefined;
  /** A beat was taken in, by the simulation's clock. */
  onHeard: ((flight: Flight, nowMs: number) => void) | undefined;
  readonly #parts: ObserverParts;
  #snapshot: Snapshot | undefined;
  readonly #returns = new Map<string, HeardNode>();
  #state!: ObserverState;
  #reporting = false;
  #reportAgain = false;

  constructor(parts: ObserverParts) {
    super(parts.queue, parts.random);
    this.#parts = parts;
    this.path = parts.path;
  }

  /** As it is in memory now; for assertions only. */
  get state(): ObserverState | undefined {
    return this.#state;
  }

  hear(flight: Flight): BeatAnswer | undefined {
    if (this.isAway) return undefined;
    if (this.isStalled) {
      // It is in the queue of a stalled isolate, and nobody waits that long for the answer.
      this.queue.at(this.stalledUntilMs, () => this.hear(flight));
      return undefined;
    }
    const { beat, jws, keyX } = flight;
    this.wake();
    const registered = this.#state.registered.get(beat.node);
    let event: ObserverEvent;
    if (registered?.keys.some((key) => key.x === keyX)) event = { kind: 'beat', beat, jws, digest: jws };
    else if (registered?.oldKeys?.some((key) => key.x === keyX)) event = { kind: 'old-key', beat };
    else event = { kind: 'stranger', name: beat.node };
    const step = this.#step(event);
    if (event.kind === 'beat') this.onHeard?.(flight, this.queue.nowMs);
    const { observer } = this.#state.identity;
    return (
      step.answer ?? { kind: 'refused', observer, code: 'stranger', why: 'not a key that its Node names' }
    );
  }

  /** The arbiter's poll. Undefined: not there, or not in time. */
  ask(suspects: readonly string[]): Report | undefined {
    if (this.isAway || this.isStalled) return undefined;
    this.wake();
    this.#step({ kind: 'tick' });
    return this.#report(new Set(suspects));
  }

  protected override load(alarmDueAtMs: number | undefined): void {
    this.#reporting = false;
    this.#reportAgain = false;
    const { identity, policy, isFaithful } = this.#parts;
    const stored = this.#snapshot && withReturns(this.#snapshot, this.#returns);
    const snapshot =
      isFaithful && stored !== undefined ? (JSON.parse(JSON.stringify(stored)) as Snapshot) : stored;
    this.#state = restore(identity, policy, snapshot, alarmDueAtMs, this.ownNowMs);
  }

  protected override tick(): void {
    this.wake();
    this.#step({ kind: 'tick' });
  }

  #step(event: ObserverEvent): ObserverStep {
    const step = stepObserver(this.#state, event, this.ownNowMs);
    this.#state = step.state;
    for (const effect of step.effects) {
      switch (effect.kind) {
        case 'store':
          this.stores += 1;
          this.#snapshot = effect.snapshot;
          this.#returns.clear();
          break;
        case 'store-return':
          this.#returns.set(effect.name, effect.node);
          break;
        case 'report':
          this.#sendReports();
          break;
      }
    }
    this.arm(step.wakeAtMs);
    return step;
  }

  #report(suspects: ReadonlySet<string>): Report {
    const report = reportOf(this.#state, suspects, this.ownNowMs);
    return this.distort === undefined ? report : this.distort(report);
  }

  /** One report at a time; what happens meanwhile goes into the next. */
  #sendReports(): void {
    this.#reportAgain = true;
    if (this.#reporting) return;
    this.#reporting = true;
    this.pending += 1;
    this.#sendReport(this.life);
  }

  #sendReport(life: number): void {
    this.#reportAgain = false;
    const report = this.#report(NOBODY);
    const sentAtMs = this.queue.nowMs;
    const goMs = this.path.there.transmit(sentAtMs);
    if (goMs === LOST) {
      this.queue.at(sentAtMs + REPORT_TIMEOUT_MS, () => this.#reported(life, undefined));
      return;
    }
    this.queue.at(sentAtMs + goMs, () => {
      const reply = this.#parts.arbiter.report(report);
      const backMs = this.path.back.transmit(this.queue.nowMs);
      const answeredAtMs =
        reply === undefined || backMs === LOST ? sentAtMs + REPORT_TIMEOUT_MS : this.queue.nowMs + backMs;
      this.queue.at(answeredAtMs, () => this.#reported(life, backMs === LOST ? undefined : reply));
    });
  }

  #reported(life: number, reply: ReportReply | undefined): void {
    if (life !== this.life) return;
    if (this.isStalled) {
      this.queue.at(this.stalledUntilMs, () => this.#reported(life, reply));
      return;
    }
    this.wake();
    if (reply?.registry !== undefined)
      this.#step({ kind: 'registry', registry: copyOf(reply.registry, this.#parts.isFaithful) });
    this.#step({ kind: 'reported', ok: reply !== undefined });
    if (this.#reportAgain) {
      this.#sendReport(life);
      return;
    }
    this.#reporting = false;
    this.pending -= 1;
  }
}

function copyOf(registry: Registry, isFaithful: boolean): Registry {
  return isFaithful ? structuredClone(registry) : registry;
}
