import type { Registry } from '../../../protocol/report.ts';
import type { Policy } from '../policy.ts';
import { followClock } from './clock.ts';
import { listenAnew } from './listening.ts';
import {
  byName,
  newObserver,
  OUTAGE_MS,
  type HeardNode,
  type KeptNode,
  type ObserverIdentity,
  type ObserverState,
} from './state.ts';

/**
 * All that an observer stores, keys included, so that an object that wakes can verify and judge without
 * asking anybody. Old code reads what new code wrote and the other way round: fields are only added, optional.
 */
export interface Snapshot {
  readonly v: 1;
  readonly atMs: number;
  /** Nothing was heard after this snapshot: whoever wakes from it on time has lost nothing. */
  readonly complete: boolean;
  /**
   * The same, together with what the sockets of these nodes keep. `complete` is false then: code that does not know of
   * sockets has lost something.
   */
  readonly completeWith?: readonly string[];
  readonly listeningSinceMs: number;
  readonly startedAtMs: number;
  readonly registry: Registry;
  readonly nodes: readonly (readonly [name: string, node: HeardNode])[];
}

export function takeSnapshot(state: ObserverState, nowMs: number, complete: boolean): Snapshot {
  return {
    v: 1,
    atMs: nowMs,
    complete: complete && state.kept.size === 0,
    ...(complete && state.kept.size > 0 && { completeWith: [...state.kept] }),
    listeningSinceMs: state.listeningSinceMs,
    startedAtMs: state.startedAtMs,
    registry: state.registry,
    nodes: [...state.nodes],
  };
}

/** A snapshot with the nodes that were stored on their own since, in the order of their last beat. */
export function withReturns(snapshot: Snapshot, returns: ReadonlyMap<string, HeardNode>): Snapshot {
  if (returns.size === 0) return snapshot;
  const nodes = new Map([...snapshot.nodes, ...returns]);
  return { ...snapshot, nodes: [...nodes].toSorted(([, a], [, b]) => a.heardAtMs - b.heardAtMs) };
}

/** The same with what sockets keep, where that is newer: a node may have beaten another way since. */
function withKept(snapshot: Snapshot, kept: ReadonlyMap<string, KeptNode>): Snapshot {
  if (kept.size === 0) return snapshot;
  const stored = new Map(snapshot.nodes);
  const newer = [...kept].filter(([name, { node }]) => node.heardAtMs > (stored.get(name)?.heardAtMs ?? 0));
  return withReturns(snapshot, new Map(newer.map(([name, { node }]) => [name, node])));
}

/**
 * The state of an object whose memory is new, from its stored snapshot.
 *
 * Sleep is not deafness: an object sleeps after 10 s without events and any beat wakes it. Woken from a complete
 * snapshot no later than its alarm, it has missed nothing and goes on listening. Otherwise beats may have been
 * recorded in memory that is gone, and it listens anew. So it does when a socket is gone that should have kept a beat.
 *
 * @param armedAtMs when the object's alarm is, or was, due; undefined when there is none
 * @param kept what the object's sockets keep, by the node's name
 */
export function restore(
  identity: ObserverIdentity,
  policy: Policy,
  snapshot: Snapshot | undefined,
  armedAtMs: number | undefined,
  nowMs: number,
  kept: ReadonlyMap<string, KeptNode> = new Map(),
): ObserverState {
  const fresh = newObserver(identity, policy, nowMs);
  if (snapshot === undefined) return fresh;
  const registered = byName(snapshot.registry);
  const ofSockets = new Map([...kept].filter(([name, { node }]) => registered.get(name)?.uid === node.uid));
  const lastMs = Math.max(snapshot.atMs, ...[...ofSockets.values()].map(({ node }) => node.heardAtMs));
  if (lastMs > nowMs + OUTAGE_MS) {
    // The clock was set back meanwhile: nobody knows for how long it slept, so it goes on from where it was.
    const asleep = restore(identity, policy, snapshot, undefined, lastMs, kept);
    followClock(asleep, nowMs - lastMs);
    return asleep;
  }
  const onTime = armedAtMs !== undefined && nowMs <= armedAtMs + OUTAGE_MS;
  const { complete, completeWith = [] } = snapshot;
  const promised = complete || completeWith.length > 0;
  const nothingLost = promised && onTime && completeWith.every((name) => ofSockets.has(name));
  const nodes = new Map(withKept(snapshot, ofSockets).nodes);
  const state: ObserverState = {
    ...fresh,
    registry: snapshot.registry,
    registered,
    nodes,
    proofs: new Map(
      [...ofSockets]
        .filter(([name, { node }]) => nodes.get(name)?.heardAtMs === node.heardAtMs)
        .map(([name, { jws }]) => [name, jws]),
    ),
    kept: new Set(ofSockets.keys()),
    listeningSinceMs: snapshot.listeningSinceMs,
    // A life that ends in sleep is no restart.
    startedAtMs: nothingLost ? snapshot.startedAtMs : nowMs,
    ...(!nothingLost && { previousStartedAtMs: snapshot.startedAtMs }),
    snapshot: { atMs: snapshot.atMs, complete: promised, keptNodes: new Set(completeWith) },
  };
  if (!nothingLost) listenAnew(state, snapshot.atMs, nowMs);
  return state;
}
