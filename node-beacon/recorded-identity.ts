import { replaceFile } from './atomic-file.ts';
import type { Clock } from './clock.ts';
import { type EnrolmentRecord, readEnrolment } from './enrolment-file.ts';
import { recheckSpanMs } from './identity.ts';
import type { KubeAccess } from './kubeconfig.ts';
import type { Log } from './log.ts';
import { whyOf } from './text.ts';

/** A small file on a local disk, read while nothing is known; and seldom, for a change. */
const READ_FIRST_EVERY_MS = 1_000;
const READ_EVERY_MS = 10_000;

interface RecordedIdentityParts {
  readonly node: string;
  readonly enrolmentFile: string;
  readonly enrolWantedFile: string;
  /** From --node-uid. */
  readonly firstUid: string | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Which Node this is, as `enrol` has recorded it: this process has no credential to ask with. When observers do not
 * know it, it writes a file that a unit of systemd watches, and waits.
 */
export class RecordedIdentity {
  readonly #parts: RecordedIdentityParts;
  #record: EnrolmentRecord | undefined;
  #said: string | undefined;
  #doubts = 0;
  #askAtMs: number | undefined;

  constructor(parts: RecordedIdentityParts) {
    this.#parts = parts;
  }

  get uid(): string | undefined {
    return this.#record?.uid ?? this.#parts.firstUid;
  }

  /** How to reach the API server, once an enrolment has found out. */
  readonly access = (): Promise<Pick<KubeAccess, 'server' | 'trust'>> => {
    const api = this.#record?.api;
    if (api === undefined) return Promise.reject(new Error('no enrolment has found the API server yet'));
    const { server, ca, servername, rejectUnauthorized } = api;
    const trust = {
      ...(ca === undefined ? {} : { ca }),
      ...(servername === undefined ? {} : { servername }),
      ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
    };
    return Promise.resolve({ server: new URL(server), trust });
  };

  /** The observers do not know this beacon or its uid: asks for an enrolment, ever less often while that does not help. */
  doubt(): void {
    if (this.#askAtMs !== undefined) return;
    const { clock } = this.#parts;
    this.#askAtMs = clock.monotonicMs() + clock.random() * recheckSpanMs(this.#doubts);
    this.#doubts += 1;
  }

  /** A beat was recorded: whatever was doubted is settled. */
  confirm(): void {
    this.#doubts = 0;
    this.#askAtMs = undefined;
  }

  /** Reads the record now; before the first beat it saves that one an interval. */
  async read(): Promise<void> {
    const { node, enrolmentFile, log } = this.#parts;
    const found = await readEnrolment(enrolmentFile);
    if (found.kind === 'none')
      return this.#say('none', () => log.info('not-enrolled-yet', { file: enrolmentFile }));
    if (found.kind === 'unusable') {
      return this.#say(found.why, () =>
        log.warn('enrolment-unusable', { file: enrolmentFile, why: found.why }),
      );
    }
    const { record } = found;
    if (record.node !== node) {
      const why = `it is the one of the Node ${record.node}`;
      return this.#say(why, () => log.warn('enrolment-unusable', { file: enrolmentFile, why }));
    }
    const before = this.#record?.uid;
    this.#record = record;
    const { uid, outcome, why } = record;
    if (before !== undefined && uid !== before) log.warn('node-recreated', { node, was: before, uid });
    this.#say(`${outcome} ${uid} ${why}`, () =>
      outcome === 'enrolled'
        ? log.info('enrolled', { node, uid })
        : log.warn('not-enrolled', { node, kind: outcome, why }),
    );
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts;
    while (!signal.aborted) {
      await this.read();
      if (this.#askAtMs !== undefined && this.#askAtMs <= clock.monotonicMs()) await this.#ask();
      await clock.sleep(this.uid === undefined ? READ_FIRST_EVERY_MS : READ_EVERY_MS, signal);
    }
  }

  async #ask(): Promise<void> {
    const { enrolWantedFile, log } = this.#parts;
    this.#askAtMs = undefined;
    log.info('asking-for-enrolment', { why: 'observers do not know this key or uid' });
    try {
      await replaceFile(enrolWantedFile, 'the observers do not know this key or uid\n');
    } catch (error) {
      log.warn('cannot-ask-for-enrolment', { file: enrolWantedFile, why: whyOf(error) });
    }
  }

  /** Each thing once. */
  #say(what: string, say: () => void): void {
    if (what !== this.#said) say();
    this.#said = what;
  }
}
