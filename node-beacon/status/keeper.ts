import { replaceFile } from '../atomic-file.ts';
import type { Signs } from '../beat-maker.ts';
import type { Clock } from '../clock.ts';
import type { Delivery, Outcome } from '../deliver.ts';
import type { Log } from '../log.ts';
import { whyOf } from '../text.ts';
import { metricsText } from './metrics.ts';
import type { BeaconStatus } from './status.ts';

/** What does not change while a beacon runs. */
type Constant = Pick<
  BeaconStatus,
  'beacon' | 'deployment' | 'cluster' | 'node' | 'kid' | 'boot' | 'intervalMs'
>;

interface StatusKeeperParts {
  readonly constant: Constant;
  readonly uid: () => string | undefined;
  readonly signs: () => Signs;
  readonly transport: () => string;
  readonly statusFile: string | undefined;
  readonly metricsFile: string | undefined;
  readonly clock: Clock;
  readonly uptimeMs: () => number;
  readonly log: Log;
}

/** Observers come and go with the configuration; what a foreign answer claims must not grow for ever. */
const MAX_OBSERVERS = 64;

/** Keeps the status and writes it after each beat, never in a beat's way: while one write hangs there is no other. */
export class StatusKeeper {
  readonly #parts: StatusKeeperParts;
  readonly #startedAtMs: number;
  #beats = 0;
  #delivered = 0;
  #lastBeat: BeaconStatus['lastBeat'];
  #lastAck: BeaconStatus['lastAck'];
  readonly #observers = new Map<string, number>();
  #writing = false;
  #complained = false;

  constructor(parts: StatusKeeperParts) {
    this.#parts = parts;
    this.#startedAtMs = parts.uptimeMs();
  }

  get status(): BeaconStatus {
    const { constant, uid, signs } = this.#parts;
    const known = uid();
    const { kubelet, api, checks = [] } = signs();
    return {
      ...constant,
      ...(known === undefined ? {} : { uid: known }),
      startedAtMs: this.#startedAtMs,
      beats: this.#beats,
      delivered: this.#delivered,
      ...(this.#lastBeat === undefined ? {} : { lastBeat: this.#lastBeat }),
      ...(this.#lastAck === undefined ? {} : { lastAck: this.#lastAck }),
      observers: Object.fromEntries(this.#observers),
      kubelet,
      api,
      checks: [...checks],
    };
  }

  /** A beat has come to its end. Settles when that is written; never rejects. */
  async note(seq: number, { outcome, tries, recordedBy }: Delivery): Promise<void> {
    if (outcome.kind === 'interrupted') return;
    const { uptimeMs, clock, transport } = this.#parts;
    const atMs = uptimeMs();
    this.#beats += 1;
    const why = whyNot(outcome);
    this.#lastBeat = { seq, atMs, outcome: outcome.kind, tries, ...(why === undefined ? {} : { why }) };
    for (const observer of recordedBy) {
      this.#observers.delete(observer); // to the end: the first one is the one longest unheard of
      this.#observers.set(observer, atMs);
    }
    for (const [observer] of this.#observers) {
      if (this.#observers.size <= MAX_OBSERVERS) break;
      this.#observers.delete(observer);
    }
    if (outcome.kind === 'delivered') {
      this.#delivered += 1;
      const { endpoint, roundTripMs } = outcome;
      this.#lastAck = {
        atMs,
        wallMs: clock.wallMs(),
        recordedBy: [...recordedBy],
        endpoint,
        transport: transport(),
        roundTripMs: Math.round(roundTripMs),
      };
    }
    await this.write();
  }

  /** Never rejects. */
  async write(): Promise<void> {
    const { statusFile, metricsFile, log } = this.#parts;
    if (this.#writing) return;
    this.#writing = true;
    const { status } = this;
    const options = { mode: 0o644, durable: false };
    try {
      if (statusFile !== undefined) await replaceFile(statusFile, `${JSON.stringify(status)}\n`, options);
      if (metricsFile !== undefined) await replaceFile(metricsFile, metricsText(status), options);
      this.#complained = false;
    } catch (error) {
      if (!this.#complained) log.warn('status-unwritable', { why: whyOf(error) });
      this.#complained = true;
    } finally {
      this.#writing = false;
    }
  }
}

/** Why a beat was not recorded by a quorum, in one line. */
export function whyNot(outcome: Outcome): string | undefined {
  switch (outcome.kind) {
    case 'delivered':
      return undefined;
    case 'short': {
      const missing = outcome.missing.map(({ observer, code }) => `${observer} (${code})`).join(', ');
      return `fewer observers than the quorum of ${outcome.quorum} have it; missing: ${missing}`;
    }
    case 'refused':
      return `refused: ${outcome.code}: ${outcome.why}`;
    case 'failed':
      return `${outcome.failure}: ${outcome.why}`;
    case 'interrupted':
      return 'the next beat came first';
  }
}
