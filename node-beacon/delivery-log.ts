import type { Delivery } from './deliver.ts';
import type { Log } from './log.ts';

/** Tells how the beats fare: one line when that changes, every beat only at the debug level. */
export class DeliveryLog {
  readonly #log: Log;
  /** What was told since beats were last well, or unwell: two endpoints that fail differently are told once each. */
  readonly #told = new Set<string>();
  #isWell = false;
  /** Beats since the last one that was delivered. */
  #undelivered = 0;

  constructor(log: Log) {
    this.#log = log;
  }

  note(seq: number, { outcome, tries, recordedBy }: Delivery): void {
    if (outcome.kind === 'interrupted') return;
    const fields = { seq, tries, recordedBy: recordedBy.join(',') || undefined };
    this.#log.debug('beat', { ...fields, outcome: outcome.kind });
    switch (outcome.kind) {
      case 'delivered': {
        const { endpoint, roundTripMs } = outcome;
        const undelivered = this.#undelivered || undefined;
        this.#undelivered = 0;
        if (this.#enter('delivered')) {
          this.#log.info('beats-delivered', {
            ...fields,
            undelivered,
            endpoint,
            roundTripMs: Math.round(roundTripMs),
          });
        }
        return;
      }
      case 'short': {
        const missing = outcome.missing.map(({ observer, code }) => `${observer}:${code}`).join(',');
        this.#undelivered += 1;
        if (this.#enter(`short ${missing}`)) {
          this.#log.warn('beats-short-of-quorum', { ...fields, quorum: outcome.quorum, missing });
        }
        return;
      }
      case 'refused':
        this.#undelivered += 1;
        if (this.#enter(`refused ${outcome.code}`)) {
          this.#log.warn('beats-refused', { ...fields, code: outcome.code, why: outcome.why });
        }
        return;
      case 'failed':
        this.#undelivered += 1;
        if (this.#enter(`failed ${outcome.failure}`)) {
          this.#log.warn('beats-failing', { ...fields, failure: outcome.failure, why: outcome.why });
        }
        return;
    }
  }

  #enter(state: string): boolean {
    const isWell = state === 'delivered';
    if (isWell !== this.#isWell) this.#told.clear();
    this.#isWell = isWell;
    const isNews = !this.#told.has(state);
    this.#told.add(state);
    return isNews;
  }
}
