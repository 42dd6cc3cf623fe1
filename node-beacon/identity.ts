import type { PublicKey } from '../protocol/keys.ts';
import { type Clock, withDeadline } from './clock.ts';
import { annotateCommand, enrol, type Enrolment } from './enrolment.ts';
import type { Log } from './log.ts';
import type { NodeApi } from './own-node.ts';

const RECHECK_EVERY_MS = 600_000;
const PASS_TIMEOUT_MS = 10_000;
/** After a failed pass: full jitter up to 1 s, 2 s, 4 s, ... */
const FIRST_RETRY_MS = 1_000;
const MAX_RETRY_MS = 60_000;
/** After `stranger` or `wrong-uid`: somewhere in the first 10 s, so that a whole cluster does not ask at once. */
const FIRST_RECHECK_MS = 10_000;

/** @param doubts how often in a row a look did not help */
export function recheckSpanMs(doubts: number): number {
  return Math.min(FIRST_RECHECK_MS * 2 ** doubts, RECHECK_EVERY_MS);
}

interface IdentityParts {
  readonly node: string;
  readonly key: PublicKey;
  /** Undefined where there is no kubeconfig: then an admin annotates, and the uid is the given one. */
  readonly api: NodeApi | undefined;
  /** From --node-uid or the last run: good enough to beat with until the API server has been asked. */
  readonly firstUid: string | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** Called when the Node's uid was learnt or has changed. */
  readonly onUid: (uid: string) => void;
}

/** Which Node this is. Runs beside the beats and never in their way. */
export class Identity {
  readonly #parts: IdentityParts;
  #uid: string | undefined;
  #failures = 0;
  #doubts = 0;
  #recheckAtMs = Infinity;
  #wake = new AbortController();
  #last: string | undefined;

  constructor(parts: IdentityParts) {
    this.#parts = parts;
    this.#uid = parts.firstUid;
  }

  /** The uid of the own Node, as far as known. Without it there is nothing to beat for. */
  get uid(): string | undefined {
    return this.#uid;
  }

  /** The observers do not know this beacon or its uid: the Node may have been re-created. Asked for as often as one likes. */
  doubt(): void {
    if (this.#recheckAtMs !== Infinity) return;
    const { clock } = this.#parts;
    this.#recheckAtMs = clock.monotonicMs() + clock.random() * recheckSpanMs(this.#doubts);
    this.#doubts += 1;
    this.#wake.abort();
  }

  /** A beat was recorded: whatever was doubted is settled. */
  confirm(): void {
    this.#doubts = 0;
  }

  /** Enrols, and looks again for as long as the signal allows. */
  async run(signal: AbortSignal): Promise<void> {
    const { api, clock, node, key, log } = this.#parts;
    if (api === undefined) {
      log.warn('not-enrolling', { why: 'no kubeconfig', admin: annotateCommand(node, key) });
      return;
    }
    while (!signal.aborted) {
      this.#recheckAtMs = Infinity;
      const outcome = await withDeadline(clock, PASS_TIMEOUT_MS, signal, (within) =>
        enrol(api, node, key, within),
      );
      if (signal.aborted) return;
      this.#note(outcome);
      await this.#sleepUntil(clock.monotonicMs() + this.#pauseMs(outcome), signal);
    }
  }

  #pauseMs(outcome: Enrolment): number {
    const { clock } = this.#parts;
    if (outcome.kind === 'enrolled' || outcome.kind === 'not-annotated') {
      this.#failures = 0;
      return RECHECK_EVERY_MS * (0.9 + 0.2 * clock.random());
    }
    const spanMs = Math.min(FIRST_RETRY_MS * 2 ** this.#failures, MAX_RETRY_MS);
    this.#failures += 1;
    return clock.random() * spanMs;
  }

  async #sleepUntil(atMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts;
    const stop = (): void => this.#wake.abort();
    signal.addEventListener('abort', stop);
    let passed = false;
    while (!passed && !signal.aborted) {
      const untilMs = Math.min(atMs, this.#recheckAtMs);
      passed = await clock.sleep(untilMs - clock.monotonicMs(), this.#wake.signal);
      if (!passed) this.#wake = new AbortController();
    }
    signal.removeEventListener('abort', stop);
  }

  #note(outcome: Enrolment): void {
    const { node, key, log, onUid } = this.#parts;
    if ('uid' in outcome && outcome.uid !== this.#uid) {
      if (this.#uid !== undefined) log.warn('node-recreated', { node, was: this.#uid, uid: outcome.uid });
      this.#uid = outcome.uid;
      onUid(outcome.uid);
    }
    const why = 'why' in outcome ? outcome.why : undefined;
    const said = `${outcome.kind} ${why ?? ''}`;
    if (outcome.kind === 'enrolled') {
      if (outcome.annotated || said !== this.#last) {
        log.info('enrolled', { node, uid: outcome.uid, annotated: outcome.annotated });
      }
    } else if (said !== this.#last) {
      // What time will not mend, an admin can.
      const hopeless = outcome.kind !== 'absent' && outcome.kind !== 'unreachable';
      const admin = hopeless ? annotateCommand(node, key) : undefined;
      log.warn('not-enrolled', { node, kind: outcome.kind, why, admin });
    }
    this.#last = said;
  }
}
