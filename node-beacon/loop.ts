import type { LeavingSign } from '../protocol/beat.ts';
import type { BeatMaker } from './beat-maker.ts';
import type { Clock } from './clock.ts';
import { deliver, type Delivery } from './deliver.ts';
import { DeliveryLog } from './delivery-log.ts';
import type { Identity } from './identity.ts';
import type { Log } from './log.ts';
import { whyOf } from './text.ts';
import type { Transport } from './transport/transport.ts';
import { planTries, smoothRoundTripMs, type PlannedTry } from './tries.ts';

/** A beat this much late (a paused process, a stalled machine) starts a new rhythm instead of catching up. */
const RESYNC_AFTER = 0.1;
/** A gap of so many intervals is worth a line. */
const GAP_INTERVALS = 2;
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
}

/**
 * The pulse. Every interval a beat is made and tried; nothing but the transport is ever waited for, and the next
 * beat does not wait for the last one's end.
 */
export class BeatLoop {
  readonly #parts: LoopParts;
  readonly #deliveries: DeliveryLog;
  #smoothedRoundTripMs = 0;
  /** The endpoint that took the last beat is asked first. */
  #preferred: string | undefined;
  #lastUptimeMs: number | undefined;
  #waiting = false;

  constructor(parts: LoopParts) {
    this.#parts = parts;
    this.#deliveries = new DeliveryLog(parts.log);
  }

  /** Beats until the signal fires. The start is jittered over one interval, and the phase is kept: no herds. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, intervalMs } = this.#parts;
    await clock.sleep(clock.random() * intervalMs, signal);
    let dueMs = clock.monotonicMs();
    while (!signal.aborted) {
      const slot = new AbortController();
      const beating = this.#beat(slot.signal);
      dueMs = this.#nextDueMs(dueMs);
      await clock.sleep(dueMs - clock.monotonicMs(), signal);
      slot.abort();
      if (signal.aborted) await beating; // settles at once: its tries were cut short
    }
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
    this.#noticeGap();
    const { uid } = identity;
    if (uid === undefined) {
      if (!this.#waiting) log.info('waiting-for-uid', { why: 'the Node has not been read yet' });
      this.#waiting = true;
      return;
    }
    this.#waiting = false;
    try {
      const plan = planTries(intervalMs, this.#smoothedRoundTripMs);
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
    const { transport, clock } = this.#parts;
    const endpoints = this.#endpointsInOrder();
    const startedAtMs = clock.monotonicMs();
    const delivery = await deliver({
      beat,
      plan,
      startedAtMs,
      endsAtMs,
      endpoints,
      transport,
      clock,
      signal,
    });
    const { outcome } = delivery;
    if (outcome.kind === 'delivered') {
      this.#preferred = outcome.endpoint;
      this.#smoothedRoundTripMs = smoothRoundTripMs(this.#smoothedRoundTripMs, outcome.roundTripMs);
    }
    return delivery;
  }

  #endpointsInOrder(): string[] {
    const { endpoints } = this.#parts;
    const first = Math.max(0, endpoints.indexOf(this.#preferred ?? ''));
    return [...endpoints.slice(first), ...endpoints.slice(0, first)];
  }

  #noticeGap(): void {
    const { intervalMs, log } = this.#parts;
    const uptimeMs = this.#parts.uptimeMs();
    const gapMs = uptimeMs - (this.#lastUptimeMs ?? uptimeMs);
    this.#lastUptimeMs = uptimeMs;
    if (gapMs > GAP_INTERVALS * intervalMs)
      log.warn('gap', { seconds: Math.round(gapMs / 1000), why: 'suspended or stopped' });
  }
}
