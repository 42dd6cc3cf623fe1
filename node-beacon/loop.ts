import type { LeavingSign } from '../protocol/beat.ts';
import { afterBeat, backoffLevel, NO_BACKOFF } from './backoff.ts';
import type { BeatMaker } from './beat-maker.ts';
import type { Clock } from './clock.ts';
import { deliver, type Delivery } from './deliver.ts';
import { DeliveryLog } from './delivery-log.ts';
import { type ClockReading, gapBetween } from './gap.ts';
import type { Identity } from './identity.ts';
import type { Log } from './log.ts';
import { whyOf } from './text.ts';
import type { Transport } from './transport/transport.ts';
import { planTries, smoothRoundTripMs, type PlannedTry } from './tries.ts';

/** A beat this much late (a paused process, a stalled machine) starts a new rhythm instead of catching up. */
const RESYNC_AFTER = 0.1;
/** The clocks are read so often between two beats, but not more seldom than that: how soon a suspend is noticed. */
const LOOKS_PER_INTERVAL = 4;
const MAX_LOOK_MS = 5_000;
/** A gap of so many intervals is no mere lateness: an observer may have missed beats. */
const GAP_INTERVALS = 1;
/** The farewell's two tries, and all the time that a stopping service has for them. */
const FAREWELL_PLAN: readonly PlannedTry[] = [
  { startMs: 0, endMs: 400 },
  { startMs: 400, endMs: 800 },
];

interface LoopParts {
  readonly intervalMs: number;
  readonly endpoints: readonly string[];
  readonly maker: Pick<BeatMaker, 'make' | 'goOnAbove'>;
  readonly identity: Pick<Identity, 'uid' | 'doubt' | 'confirm'>;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly log: Log;
  /** Counts suspend, which the monotonic clock does not. */
  readonly uptimeMs: () => number;
  /** Told of each beat's end. */
  readonly onDelivery?: (seq: number, delivery: Delivery) => void;
}

/** Why the wait for the next beat is over. */
type Awaited = 'due' | 'early' | 'gap' | 'stopped';

/**
 * The pulse. Every interval a beat is made and tried; nothing but the transport is ever waited for, and the next
 * beat does not wait for the last one's end.
 */
export class BeatLoop {
  readonly #parts: LoopParts;
  readonly #deliveries: DeliveryLog;
  #smoothedRoundTripMs = 0;
  /** The endpoint that took the last beat is asked first; after a lost beat, the one whose turn it was. */
  #preferred: string | undefined;
  #backoff = NO_BACKOFF;
  readonly #pausedUntilMs = new Map<string, number>();
  #waiting = false;
  #wake = new AbortController();
  #hurried = false;
  #turnedAtMs: number;

  constructor(parts: LoopParts) {
    this.#parts = parts;
    this.#deliveries = new DeliveryLog(parts.log);
    this.#turnedAtMs = parts.clock.monotonicMs();
  }

  /** Since the loop has last done anything: more than an interval and some means that it hangs. */
  get idleMs(): number {
    return this.#parts.clock.monotonicMs() - this.#turnedAtMs;
  }

  /** Something has changed that observers should not wait for. One beat is sent early in each interval, not more. */
  hurry(): void {
    this.#hurried = true;
    this.#wake.abort();
  }

  /** Beats until the signal fires. The start is jittered over one interval, and the phase is kept: no herds. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, intervalMs, log } = this.#parts;
    const inMs = clock.random() * intervalMs;
    log.debug('first-beat', { inMs: Math.round(inMs) });
    await clock.sleep(inMs, signal);
    let dueMs = clock.monotonicMs();
    let isEarly = false;
    while (!signal.aborted) {
      const slot = new AbortController();
      this.#hurried = false; // this beat says it all
      const beating = this.#beat(slot.signal);
      if (!isEarly) dueMs = this.#nextDueMs(dueMs);
      const awaited = await this.#wait(dueMs, !isEarly, signal);
      slot.abort();
      isEarly = awaited === 'early';
      if (awaited === 'gap') dueMs = clock.monotonicMs();
      if (awaited === 'stopped') await beating; // settles at once: its tries were cut short
    }
  }

  /** In slices, so that lost time is noticed soon: timers do not count a suspend. */
  async #wait(dueMs: number, mayHurry: boolean, signal: AbortSignal): Promise<Awaited> {
    const { clock, intervalMs, log } = this.#parts;
    const stop = (): void => this.#wake.abort();
    signal.addEventListener('abort', stop);
    try {
      let before = this.#readClocks();
      for (;;) {
        this.#turnedAtMs = before.monotonicMs;
        if (signal.aborted) return 'stopped';
        if (this.#hurried && mayHurry) return 'early';
        const leftMs = dueMs - before.monotonicMs;
        if (leftMs <= 0) return 'due';
        const sliceMs = Math.min(leftMs, intervalMs / LOOKS_PER_INTERVAL, MAX_LOOK_MS);
        if (!(await clock.sleep(sliceMs, this.#wake.signal))) this.#wake = new AbortController();
        const after = this.#readClocks();
        const gap = gapBetween(before, after, sliceMs, GAP_INTERVALS * intervalMs);
        if (gap !== undefined) {
          log.warn('gap', { seconds: Math.round(gap.ms / 1000), why: gap.why });
          return 'gap';
        }
        before = after;
      }
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }

  #readClocks(): ClockReading {
    const { clock, uptimeMs } = this.#parts;
    return { uptimeMs: uptimeMs(), monotonicMs: clock.monotonicMs(), wallMs: clock.wallMs() };
  }

  /** The last beat: says that the silence to come is meant. Best effort, over within a second. */
  async farewell(leaving: LeavingSign): Promise<void> {
    const { identity, maker, log } = this.#parts;
    if (identity.uid === undefined) return;
    try {
      const beat = await maker.make(identity.uid, leaving);
      const delivery = await this.#deliver(beat, FAREWELL_PLAN, new AbortController().signal);
      log.info('leaving', { what: leaving.what, reason: leaving.reason, said: delivery.outcome.kind });
    } catch (error) {
      log.warn('leaving', { what: leaving.what, reason: leaving.reason, said: 'failed', why: whyOf(error) });
    }
  }

  #nextDueMs(dueMs: number): number {
    const { clock, intervalMs } = this.#parts;
    const lateMs = clock.monotonicMs() - dueMs;
    return intervalMs + (lateMs > RESYNC_AFTER * intervalMs ? clock.monotonicMs() : dueMs);
  }

  /** One interval's beat. Never throws: whatever is wrong with this beat, the next one is made. */
  async #beat(signal: AbortSignal): Promise<void> {
    const { intervalMs, identity, maker, clock, log } = this.#parts;
    const { uid } = identity;
    if (uid === undefined) {
      if (!this.#waiting) log.info('waiting-for-uid', { why: 'the Node has not been read yet' });
      this.#waiting = true;
      return;
    }
    this.#waiting = false;
    try {
      const level = backoffLevel(this.#backoff);
      const holdingBack = level === 0 ? undefined : { level, random: () => clock.random() };
      const plan = planTries(intervalMs, this.#smoothedRoundTripMs, holdingBack);
      const endsAtMs = clock.monotonicMs() + (plan.at(-1)?.endMs ?? 0);
      const first = await this.#attempt(uid, plan, endsAtMs, signal);
      // Once: an observer that names ever higher numbers gets its answer in the next interval.
      if (first !== undefined && maker.goOnAbove(first)) await this.#attempt(uid, plan, endsAtMs, signal);
    } catch (error) {
      log.error('beat-not-made', { why: whyOf(error) });
    }
  }

  /** Makes a beat and tries it. Answers the highest known sequence when that was its fault. */
  async #attempt(
    uid: string,
    plan: readonly PlannedTry[],
    endsAtMs: number,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { maker, identity } = this.#parts;
    const beat = await maker.make(uid);
    const delivery = await this.#deliver(beat, plan, signal, endsAtMs);
    this.#deliveries.note(beat.seq, delivery);
    this.#parts.onDelivery?.(beat.seq, delivery);
    const { outcome, objections, recordedBy } = delivery;
    if (objections.has('stranger') || objections.has('wrong-uid')) identity.doubt();
    else if (recordedBy.length > 0) identity.confirm();
    return outcome.kind === 'refused' && outcome.code === 'replayed' ? outcome.highestSeq : undefined;
  }

  async #deliver(
    beat: { readonly jws: string; readonly digest: string },
    plan: readonly PlannedTry[],
    signal: AbortSignal,
    endsAtMs = Infinity,
  ): Promise<Delivery> {
    const { transport, clock, intervalMs } = this.#parts;
    const endpoints = this.#endpointsInOrder();
    const startedAtMs = clock.monotonicMs();
    const delivery = await deliver({
      beat,
      plan,
      startedAtMs,
      endsAtMs,
      endpoints,
      pausedUntilMs: this.#pausedUntilMs,
      maxPauseMs: intervalMs, // a longer one would make a live node silent
      transport,
      clock,
      signal,
    });
    const { outcome, tries } = delivery;
    this.#backoff = afterBeat(this.#backoff, outcome.kind);
    if (outcome.kind === 'delivered') {
      this.#preferred = outcome.endpoint;
      this.#smoothedRoundTripMs = smoothRoundTripMs(this.#smoothedRoundTripMs, outcome.roundTripMs);
    } else if (outcome.kind !== 'interrupted') this.#preferred = endpoints[tries % endpoints.length];
    return delivery;
  }

  #endpointsInOrder(): string[] {
    const { endpoints } = this.#parts;
    const first = Math.max(0, endpoints.indexOf(this.#preferred ?? ''));
    return [...endpoints.slice(first), ...endpoints.slice(0, first)];
  }
}
