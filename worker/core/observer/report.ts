import type { Report, ReportedNode } from '../../../protocol/report.ts';
import { blindness, deadlinesOf, sightOf } from './sight.ts';
import type { HeardNode, ObserverState } from './state.ts';

/** Refusals and duplicates are told for this long after they were last seen. */
const MENTION_MS = 600_000;

/**
 * All that this observer sees, in durations.
 *
 * @param suspects nodes whose newest beat is to be sent along as proof
 */
export function reportOf(state: ObserverState, suspects: ReadonlySet<string>, nowMs: number): Report {
  const blind = blindness(state, nowMs);
  return {
    observer: state.identity.observer,
    region: state.identity.region,
    shard: state.identity.shard,
    listeningForMs: nowMs - state.listeningSinceMs,
    ...(blind !== undefined && { blind }),
    nodes: Array.from(state.nodes, ([name, node]) =>
      reportedNode(state, name, node, suspects.has(name), nowMs),
    ),
    strangers: [...state.strangers],
    registryVersion: state.registry.version,
  };
}

function reportedNode(
  state: ObserverState,
  name: string,
  node: HeardNode,
  withProof: boolean,
  nowMs: number,
): ReportedNode {
  const sight = sightOf(state, node, nowMs);
  const deadlines = deadlinesOf(state, node);
  const { boot, highestSeq, sentAtMs } = node.streams[0] ?? { boot: '', highestSeq: 0, sentAtMs: 0 };
  const proof = withProof ? state.proofs.get(name) : undefined;
  const heardAgoMs = nowMs - node.heardAtMs;
  const listenedForMs = nowMs - (deadlines.silentAtMs - deadlines.timeoutMs);
  return {
    name,
    uid: node.uid,
    boot,
    seq: highestSeq,
    sentAtMs,
    sight,
    heardAgoMs,
    intervalMs: deadlines.intervalMs,
    timeoutMs: deadlines.timeoutMs,
    ...(listenedForMs < heardAgoMs && { listenedForMs: Math.max(0, listenedForMs) }),
    ...(sight === 'listening' && { judgesInMs: deadlines.silentAtMs - nowMs }),
    kubelet: node.kubelet,
    api: node.api,
    ...(node.leaving !== undefined && {
      leaving: { ...node.leaving, forMs: Math.max(0, node.leaving.forMs - heardAgoMs) },
    }),
    ...(node.refused !== undefined &&
      nowMs - node.refused.atMs < MENTION_MS && {
        refused: { code: node.refused.code, agoMs: nowMs - node.refused.atMs },
      }),
    ...(node.duplicateAtMs !== undefined && nowMs - node.duplicateAtMs < MENTION_MS && { duplicate: true }),
    beacon: node.beacon,
    ...(node.checks !== undefined && { checks: node.checks }),
    ...(node.features !== undefined && { features: node.features }),
    ...(proof !== undefined && { proof }),
  };
}
