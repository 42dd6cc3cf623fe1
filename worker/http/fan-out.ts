import { REFUSAL_CODES, type RefusalCode } from '../../protocol/beat.ts';
import type { BeatAnswer, ObserverId } from '../../protocol/report.ts';
import type { ClusterConfig, LocationHint } from '../config.ts';
import { observerIdOf, shardOf } from '../core/shard.ts';
import type { AppDeps, ObserverPort } from './ports.ts';

/** One observer that hears a node, by what the configuration says. */
export interface ObserverRef {
  readonly id: ObserverId;
  readonly region: LocationHint;
  readonly shard: number;
}

/** A beat as it came, and its digest. */
export interface SignedBeat {
  readonly jws: string;
  readonly digest: string;
}

/** What came of asking one observer. Silence and exceptions have become `unavailable`. */
export interface ObserverAnswer {
  readonly observer: ObserverId;
  readonly refusal?: {
    readonly code: RefusalCode;
    readonly why?: string;
    readonly highestSeq?: number;
    /** With `unavailable`: too much is asked of it, so it must be left alone. */
    readonly overloaded?: boolean;
  };
}

export interface FanOut {
  /** At the deadline at the latest: one answer for each observer that was asked, in the order of the configuration. */
  readonly answers: Promise<readonly ObserverAnswer[]>;
  /** Resolves when the last call has ended: to be kept alive past the answer, since a late recording is still life. */
  readonly done: Promise<unknown>;
}

/** The observers of one node: one a region, all of the same shard. */
export function observersOf(cluster: ClusterConfig, node: string): readonly ObserverRef[] {
  const shard = shardOf(node, cluster.shards);
  return cluster.regions.map((region) => ({
    id: observerIdOf(region, shard, cluster.shards),
    region,
    shard,
  }));
}

/** How long a beat waits for its observers: a second, or a quarter of a shorter interval. The beacon's tries build on it. */
export function deadlineMsOf(cluster: ClusterConfig): number {
  return Math.min(1_000, cluster.policy.intervalMs / 4);
}

/** With a quorum the beat is delivered; so much longer the others may still be named in the ack. */
const GRACE_MS = 100;

/**
 * Asks all of `observers` at once, and answers when each has answered, a moment after `needed` of them have recorded
 * the beat, or when the deadline is over. A beacon's first try ends after a second, so waiting that long for one
 * observer that hangs would cost every beat a second try.
 *
 * Nothing is asked twice here: the runtime itself repeats calls that were not delivered, an overloaded object must not
 * be asked again, and the beacon's next try comes within a second anyway.
 */
export function fanOut(
  deps: AppDeps,
  cluster: ClusterConfig,
  observers: readonly ObserverRef[],
  signed: SignedBeat,
  needed: number,
): FanOut {
  const came = new Map<ObserverId, ObserverAnswer>();
  const enough = Promise.withResolvers<void>();
  let recorded = 0;
  const done = Promise.all(
    observers.map(async (observer) => {
      const answer = await ask(deps, cluster, observer, signed);
      came.set(observer.id, answer);
      if (answer.refusal === undefined) recorded += 1;
      if (recorded >= needed) enough.resolve();
    }),
  );
  const settled = Promise.race([done, enough.promise.then(() => deps.withTimeout(done, GRACE_MS))]);
  const answers = deps.withTimeout(settled, deadlineMsOf(cluster)).then(() =>
    observers.map(({ id }): ObserverAnswer => {
      const answer = came.get(id);
      if (answer !== undefined) return answer;
      deps.counters.observerFault(cluster.name, id, 'timed-out');
      return { observer: id, refusal: { code: 'unavailable' } };
    }),
  );
  return { answers, done };
}

function ask(
  deps: AppDeps,
  cluster: ClusterConfig,
  observer: ObserverRef,
  { jws, digest }: SignedBeat,
): Promise<ObserverAnswer> {
  return answerFrom(deps, cluster, observer, (port) => port.beat(jws, digest));
}

/** What one observer says to a beat, however it is asked. */
export async function answerFrom(
  deps: AppDeps,
  cluster: ClusterConfig,
  { id, region, shard }: ObserverRef,
  question: (port: ObserverPort) => Promise<BeatAnswer>,
): Promise<ObserverAnswer> {
  try {
    return answerOf(id, await question(deps.observer(cluster.name, region, shard)));
  } catch (error) {
    // What broke inside the platform is for its own logs; the sender learns only that nobody was there.
    const overloaded = isOverloaded(error);
    deps.counters.observerFault(cluster.name, id, overloaded ? 'overloaded' : 'failed');
    return { observer: id, refusal: { code: 'unavailable', overloaded } };
  }
}

/** The observer's own name for itself is not used: a retry's header is compared with names from the configuration. */
function answerOf(observer: ObserverId, answer: BeatAnswer): ObserverAnswer {
  if (answer.kind === 'recorded') return { observer };
  const { code, why, highestSeq } = answer;
  // During a deploy a newer observer may know a code that this router does not.
  if (!REFUSAL_CODES.includes(code)) return { observer, refusal: { code: 'unavailable' } };
  return { observer, refusal: { code, why, ...(highestSeq !== undefined && { highestSeq }) } };
}

/** The platform's own flag: the object's queue is too deep (Durable Objects, error handling). */
function isOverloaded(error: unknown): boolean {
  return error instanceof Error && 'overloaded' in error && error.overloaded === true;
}
