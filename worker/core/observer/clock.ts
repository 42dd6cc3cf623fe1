import type { HeardNode, ObserverState } from './state.ts';

/**
 * Moves all known times with the object's clock when that was set back: left in the future, they would keep a dead node
 * "heard" until the clock gets there. Set forward, it looks like an own outage, and is treated as one.
 */
export function followClock(state: ObserverState, byMs: number): void {
  for (const [name, node] of state.nodes) state.nodes.set(name, movedBy(node, byMs));
  state.listeningSinceMs += byMs;
  state.startedAtMs += byMs;
  if (state.previousStartedAtMs !== undefined) state.previousStartedAtMs += byMs;
  state.counts = { ...state.counts, sinceMs: state.counts.sinceMs + byMs };
  state.snapshot = { ...state.snapshot, atMs: state.snapshot.atMs + byMs };
  state.reportDueAtMs += byMs;
  state.wakeAtMs += byMs;
  state.lastEventAtMs += byMs;
}

function movedBy(node: HeardNode, byMs: number): HeardNode {
  const { refused, duplicateAtMs } = node;
  return {
    ...node,
    heardAtMs: node.heardAtMs + byMs,
    streams: node.streams.map((stream) => ({ ...stream, advancedAtMs: stream.advancedAtMs + byMs })),
    ...(refused !== undefined && { refused: { ...refused, atMs: refused.atMs + byMs } }),
    ...(duplicateAtMs !== undefined && { duplicateAtMs: duplicateAtMs + byMs }),
  };
}
