import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { ApiPathSign } from '../../protocol/beat.ts';
import type { Clock } from '../clock.ts';
import type { KubeAccess } from '../kubeconfig.ts';
import type { Log } from '../log.ts';
import { whyOf } from '../text.ts';
import { exchange, type Exchanged } from '../transport/exchange.ts';
import { BEACON_NAME } from '../version.ts';
import { repeatCheck, type Rhythm } from './repeat.ts';

/** The sign and how it came about. */
export interface ApiPathState {
  readonly sign: ApiPathSign;
  readonly failures: number;
}

/** One look: an exchange and how long it took, or why there could be none. */
export type ApiLook =
  | { readonly kind: 'looked'; readonly exchanged: Exchanged; readonly roundTripMs: number }
  | { readonly kind: 'could-not-look'; readonly why: string };

/** Least pause between two looks. 5,000 nodes are then 170 requests a second on kept connections, next to nothing. */
export const API_CHECK_PERIOD_MS = 30_000;

const FAILURES_TO_BE_CUT = 2;
/** Handshakes that failed because something in between broke them, not because a certificate is not trusted. */
const BROKEN_HANDSHAKE: ReadonlySet<string | undefined> = new Set(['ECONNRESET', 'EPIPE', 'ETIMEDOUT']);

export function firstApiPathState(why = 'not asked yet'): ApiPathState {
  return { sign: { state: 'unknown', why }, failures: 0 };
}

/** The state after one more look. Any HTTP answer, 403 and 500 too, shows that the path carries. */
export function judgeApiPath({ sign, failures }: ApiPathState, look: ApiLook): ApiPathState {
  if (look.kind === 'could-not-look') return firstApiPathState(look.why);
  const { exchanged, roundTripMs } = look;
  if (exchanged.kind === 'answered') {
    return { sign: { state: 'ok', roundTripMs: Math.round(roundTripMs) }, failures: 0 };
  }
  const { failure, code, why } = exchanged;
  // Somebody answered, with a certificate that this kubeconfig does not vouch for: that says nothing of the path.
  if (failure === 'tls' && !BROKEN_HANDSHAKE.has(code)) return firstApiPathState(why);
  if (failures + 1 < FAILURES_TO_BE_CUT) return { sign, failures: failures + 1 };
  return { sign: { state: 'cut', why: `${failure}: ${why}` }, failures: failures + 1 };
}

interface ApiPathParts {
  /** Asked before each look: addresses and trust come from a file that may change. */
  readonly loadAccess: () => Promise<Pick<KubeAccess, 'server' | 'trust'>>;
  readonly rhythm: Rhythm;
  readonly clock: Clock;
  readonly log: Log;
}

/** Asks the API server whether it is there, without a credential: only the path is in question. */
export class ApiPathCheck {
  readonly #parts: ApiPathParts;
  #state = firstApiPathState();
  #agent: HttpAgent | undefined;

  constructor(parts: ApiPathParts) {
    this.#parts = parts;
  }

  get sign(): ApiPathSign {
    return this.#state.sign;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, rhythm } = this.#parts;
    await repeatCheck(clock, rhythm, signal, async (deadline) => {
      const look = await this.#look(deadline);
      if (signal.aborted) return 'settled';
      this.#note(judgeApiPath(this.#state, look));
      return this.#state.failures === 1 ? 'again-soon' : 'settled';
    });
    this.#agent?.destroy();
  }

  async #look(deadline: AbortSignal): Promise<ApiLook> {
    const { loadAccess, clock } = this.#parts;
    try {
      const { server, trust } = await loadAccess();
      const startedAtMs = clock.monotonicMs();
      const exchanged = await exchange(
        {
          // Outside of API priority and fairness, open to anonymous callers; a slow etcd is not a cut path.
          url: new URL(`${server.href.replace(/\/$/, '')}/livez?exclude=etcd`),
          method: 'GET',
          headers: { 'user-agent': BEACON_NAME },
          tls: trust,
          agent: this.#agentFor(server),
          maxAnswerBytes: 4_096,
        },
        deadline,
      );
      return { kind: 'looked', exchanged, roundTripMs: clock.monotonicMs() - startedAtMs };
    } catch (error) {
      return { kind: 'could-not-look', why: whyOf(error) };
    }
  }

  /** Kept between looks: a handshake each time, from every node, would be what the API server notices. */
  #agentFor(server: URL): HttpAgent {
    this.#agent ??=
      server.protocol === 'https:' ? new HttpsAgent({ keepAlive: true }) : new HttpAgent({ keepAlive: true });
    return this.#agent;
  }

  #note(next: ApiPathState): void {
    const before = this.#state.sign;
    this.#state = next;
    if (next.sign.state === before.state) return;
    const level = next.sign.state === 'ok' ? 'info' : 'warn';
    this.#parts.log[level](`api-path-${next.sign.state}`, { was: before.state, why: next.sign.why });
  }
}
