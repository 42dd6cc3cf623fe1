import type { KubeletSign } from '../../protocol/beat.ts';
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { clip } from '../text.ts';
import { exchange, type Exchanged } from '../transport/exchange.ts';
import { repeatCheck, type Rhythm } from './repeat.ts';

/** The sign and how it came about. */
export interface KubeletState {
  readonly sign: KubeletSign;
  /** Failed looks in a row. */
  readonly failures: number;
}

/** What failing says about the kubelet itself; anything else (no file handles left here) says nothing. */
const KUBELET_ERRORS: ReadonlySet<string | undefined> = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE']);
const FAILURES_TO_BE_DOWN = 2;

export function firstKubeletState(okThisBoot: boolean): KubeletState {
  return { sign: { state: 'unknown', okThisBoot, why: 'not asked yet' }, failures: 0 };
}

/** The state after one more look. A first failure changes nothing: `down` needs a second one in a row. */
export function judgeKubelet({ sign, failures }: KubeletState, look: Exchanged): KubeletState {
  if (look.kind === 'answered' && look.status === 200 && look.body.trim() === 'ok') {
    return { sign: { state: 'ok', okThisBoot: true }, failures: 0 };
  }
  const { okThisBoot } = sign;
  if (look.kind === 'failed' && look.failure !== 'timeout' && !KUBELET_ERRORS.has(look.code)) {
    return { sign: { state: 'unknown', okThisBoot, why: look.why }, failures: 0 };
  }
  if (failures + 1 < FAILURES_TO_BE_DOWN) return { sign, failures: failures + 1 };
  const why = look.kind === 'answered' ? clip(`answered ${look.status}: ${look.body}`) : look.why;
  return { sign: { state: 'down', okThisBoot, why }, failures: failures + 1 };
}

interface KubeletParts {
  readonly url: URL;
  readonly rhythm: Rhythm;
  readonly clock: Clock;
  readonly log: Log;
  /** It has answered ok in this boot before this process started. */
  readonly okThisBoot: boolean;
  /** Called once, when it first answers ok in this boot. */
  readonly onFirstOk: () => void;
  /** Called when the kubelet has gone down or come back: observers should not wait for that. */
  readonly onChange?: () => void;
}

/** Asks the kubelet's /healthz again and again; `sign` is what it last came to. */
export class KubeletCheck {
  readonly #parts: KubeletParts;
  #state: KubeletState;

  constructor(parts: KubeletParts) {
    this.#parts = parts;
    this.#state = firstKubeletState(parts.okThisBoot);
  }

  get sign(): KubeletSign {
    return this.#state.sign;
  }

  run(signal: AbortSignal): Promise<void> {
    const { clock, rhythm, url } = this.#parts;
    return repeatCheck(clock, rhythm, signal, async (deadline) => {
      // A new connection each time: that the kubelet still accepts one is part of the question.
      const look = await exchange({ url, method: 'GET', maxAnswerBytes: 1_024 }, deadline);
      if (signal.aborted) return 'settled';
      this.#note(judgeKubelet(this.#state, look));
      return this.#state.failures > 0 ? 'again-soon' : 'settled';
    });
  }

  #note(next: KubeletState): void {
    const { log, onFirstOk, onChange } = this.#parts;
    const before = this.#state.sign;
    this.#state = next;
    if (next.sign.okThisBoot && !before.okThisBoot) onFirstOk();
    if (next.sign.state === before.state) return;
    if (next.sign.state === 'down' || before.state === 'down') onChange?.();
    const level = next.sign.state === 'ok' ? 'info' : 'warn';
    log[level](`kubelet-${next.sign.state}`, { was: before.state, why: next.sign.why });
  }
}
