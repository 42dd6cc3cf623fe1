import { RefusalBudget } from './refusal-budget.ts';
import { ShortMemory } from './short-memory.ts';

/** A beacon tries a refused beat again after 1, 2, 4 and 7 s: one fan-out for all of them, and not for longer. */
const STRANGER_TTL_MS = 10_000;
const MAX_STRANGERS = 1_000;

/** Twice the longest interval that the wire allows. */
const KNOWN_TTL_MS = 600_000;
const MAX_KNOWN = 20_000;

/** What a beat says of itself, and the address it came from. Only `digest` and `address` are not mere claims. */
export interface Caller {
  readonly cluster: string;
  readonly node: string;
  readonly kid: string;
  readonly address: string;
  readonly digest: string;
}

export type Admitted =
  | { readonly kind: 'admitted'; readonly known: boolean }
  | { readonly kind: 'stranger' }
  | { readonly kind: 'rate-limited'; readonly retryAfterSeconds: number };

/**
 * What came of a beat that was let through, all asked observers taken together. `verified`: at least one has checked
 * its signature and found it good, whether or not it recorded the beat.
 */
export type Settled = 'verified' | 'refused' | 'strange-to-all' | 'unanswered';

/**
 * Keeps garbage from being multiplied by the number of observers, and must never help to silence a node:
 *
 * 1. Who was verified lately is never limited. Known is (cluster, node, key id, address): names and key ids are no
 *    secrets, so a known name from elsewhere is unknown, and pays like everybody if it is refused.
 * 2. A stranger's beat is remembered by its digest, not by whom it names. Otherwise garbage in a node's name, sent
 *    first to an isolate that does not know the node, would have the node itself refused.
 * 3. Only the unanimous answer `stranger` is remembered, and what the memory refuses does not prolong it: after ten
 *    seconds the same beat is asked about again.
 */
export class Admission {
  readonly #strangers = new ShortMemory(STRANGER_TTL_MS, MAX_STRANGERS);
  readonly #known = new ShortMemory(KNOWN_TTL_MS, MAX_KNOWN);
  readonly #budget = new RefusalBudget();

  admit(caller: Caller, nowMs: number): Admitted {
    if (this.#known.has(identityOf(caller), nowMs)) return { kind: 'admitted', known: true };
    if (this.#strangers.has(caller.digest, nowMs)) return { kind: 'stranger' };
    const retryAfterSeconds = this.#budget.take(caller.address, nowMs);
    if (retryAfterSeconds > 0) return { kind: 'rate-limited', retryAfterSeconds };
    return { kind: 'admitted', known: false };
  }

  /** To be called once for every admitted beat. */
  settle(caller: Caller, known: boolean, settled: Settled, nowMs: number): void {
    if (!known && (settled === 'verified' || settled === 'unanswered'))
      this.#budget.giveBack(caller.address, nowMs);
    if (settled === 'verified') this.#known.add(identityOf(caller), nowMs);
    if (settled === 'strange-to-all') this.#strangers.add(caller.digest, nowMs);
  }
}

/** The key id is free text and comes last, so no two identities are written alike. */
function identityOf({ address, cluster, node, kid }: Caller): string {
  return `${address} ${cluster} ${node} ${kid}`;
}
