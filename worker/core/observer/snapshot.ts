import type { Registry } from '../../../protocol/report.ts';
import type { Policy } from '../policy.ts';
import { followClock } from './clock.ts';
import { listenAnew } from './listening.ts';
import {
  byName,
  newObserver,
  OUTAGE_MS,
  type HeardNode,
  type ObserverIdentity,
  type ObserverState,
} from './state.ts';

/** A node without its proof: that would triple the row, and an observer without it abstains. */
export type StoredNode = Omit<HeardNode, 'proof'>;

export function storedNode({ proof: _proof, ...node }: HeardNode): StoredNode {
  return node;
}

/**
 * All that an observer stores, keys included, so that an object that wakes can verify and judge without
 * asking anybody. Old code reads what new code wrote and the other way round: fields are only added, optional.
 */
export interface Snapshot {
  readonly v: 1;
  readonly atMs: number;
  /** Nothing was heard after this snapshot: whoever wakes from it on time has lost nothing. */
  readonly complete: boolean;
  readonly listeningSinceMs: number;
  readonly startedAtMs: number;
  readonly registry: Registry;
  readonly nodes: readonly (readonly [name: string, node: StoredNode])[];
}

export function takeSnapshot(state: ObserverState, nowMs: number, complete: boolean): Snapshot {
  return {
    v: 1,
    atMs: nowMs,
    complete,
    listeningSinceMs: state.listeningSinceMs,
    startedAtMs: state.startedAtMs,
    registry: state.registry,
    nodes: Array.from(state.nodes, ([name, node]) => [name, storedNode(node)] as const),
  };
}

/** A snapshot with the nodes that were stored on their own since, in the order of their last beat. */
export function withReturns(snapshot: Snapshot, returns: ReadonlyMap<string, StoredNode>): Snapshot {
  if (returns.size === 0) return snapshot;
  const nodes = new Map([...snapshot.nodes, ...returns]);
  return { ...snapshot, nodes: [...nodes].toSorted(([, a], [, b]) => a.heardAtMs - b.heardAtMs) };
}

/**
 * The state of an object whose memory is new, from its stored snapshot.
 *
 * Sleep is not deafness: an object sleeps after 10 s without events and any beat wakes it. Woken from a complete
 * snapshot no later than its alarm, it has missed nothing and goes on listening. Otherwise beats may have been
 * recorded in memory that is gone, and it listens anew.
 *
 * @param armedAtMs when the object's alarm is, or was, due; undefined when there is none
 */
export function restore(
  identity: ObserverIdentity,
  policy: Policy,
  snapshot: Snapshot | undefined,
  armedAtMs: number | undefined,
  nowMs: number,
): ObserverState {
  const fresh = newObserver(identity, policy, nowMs);
  if (snapshot === undefined) return fresh;
  if (snapshot.atMs > nowMs + OUTAGE_MS) {
    // The clock was set back meanwhile: nobody knows for how long it slept, so it goes on from where it was.
    const asleep = restore(identity, policy, snapshot, undefined, snapshot.atMs);
    followClock(asleep, nowMs - snapshot.atMs);
    return asleep;
  }
  const onTime = armedAtMs !== undefined && nowMs <= armedAtMs + OUTAGE_MS;
  const nothingLost = snapshot.complete && onTime;
  const state: ObserverState = {
    ...fresh,
    registry: snapshot.registry,
    registered: byName(snapshot.registry),
    nodes: new Map(snapshot.nodes),
    listeningSinceMs: snapshot.listeningSinceMs,
    // A life that ends in sleep is no restart.
    startedAtMs: nothingLost ? snapshot.startedAtMs : nowMs,
    ...(!nothingLost && { previousStartedAtMs: snapshot.startedAtMs }),
    snapshot: { atMs: snapshot.atMs, complete: snapshot.complete },
  };
  if (!nothingLost) listenAnew(state, snapshot.atMs, nowMs);
  return state;
}
