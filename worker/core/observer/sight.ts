import type { Blindness, NodeSight } from '../../../protocol/report.ts';
import { LATE_GRACE_MS, timeoutMs } from '../policy.ts';
import type { HeardNode, ObserverState } from './state.ts';

/** The moments that decide how one node is seen. */
export interface Deadlines {
  /** The interval in force: a beat announces the next one's, and never shortens it below the policy's. */
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** By the last beat alone. */
  readonly lateAtMs: number;
  readonly dueSilentAtMs: number;
  /** The same by what this observer can vouch for: never before it has listened long enough. */
  readonly vouchedLateAtMs: number;
  readonly silentAtMs: number;
}

export function deadlinesOf(state: ObserverState, node: HeardNode): Deadlines {
  const intervalMs = Math.max(state.policy.intervalMs, node.intervalMs);
  const timeout = timeoutMs(state.policy, intervalMs);
  const vouchedFromMs = Math.max(node.heardAtMs, state.listeningSinceMs - node.creditMs);
  return {
    intervalMs,
    timeoutMs: timeout,
    lateAtMs: node.heardAtMs + intervalMs + LATE_GRACE_MS,
    dueSilentAtMs: node.heardAtMs + timeout,
    vouchedLateAtMs: vouchedFromMs + intervalMs + LATE_GRACE_MS,
    silentAtMs: vouchedFromMs + timeout,
  };
}

/**
 * How a node is seen now. `listening` is the honest answer while a beat may have come and gone unheard: an empty
 * memory must never judge (uptime-kuma#1159, kubernetes/kubernetes#32510).
 */
export function sightOf(state: ObserverState, node: HeardNode, nowMs: number): NodeSight {
  return sightAt(deadlinesOf(state, node), nowMs);
}

/** The same, for who has worked out the deadlines already. */
export function sightAt(at: Deadlines, nowMs: number): NodeSight {
  if (nowMs < at.lateAtMs) return 'heard';
  if (nowMs >= at.silentAtMs) return 'silent';
  return nowMs < at.vouchedLateAtMs || nowMs >= at.dueSilentAtMs ? 'listening' : 'late';
}

/** The next moment after `nowMs` at which the sight changes by itself; infinite once silent. */
export function nextChangeMs(at: Deadlines, nowMs: number): number {
  // Every beat asks this. The usual answer first: lateness is the earliest of the four.
  if (at.lateAtMs > nowMs) return at.lateAtMs;
  if (at.silentAtMs <= nowMs) return Number.POSITIVE_INFINITY;
  const moments = [at.vouchedLateAtMs, at.dueSilentAtMs, at.silentAtMs];
  return Math.min(...moments.filter((moment) => moment > nowMs), Number.POSITIVE_INFINITY);
}

/** An observer that refuses more than a tenth of its well-signed beats does not know its nodes' keys or boots. */
const MAX_REFUSED_SHARE = 0.1;
/** Below this many beats a share means nothing. */
const MIN_COUNTED_BEATS = 20;

/** Why this observer cannot judge any node, if it cannot. */
export function blindness(state: ObserverState, nowMs: number): Blindness | undefined {
  const stayUpMs = state.policy.intervalMs + LATE_GRACE_MS;
  const previousLifeMs = state.startedAtMs - (state.previousStartedAtMs ?? Number.NEGATIVE_INFINITY);
  if (previousLifeMs < stayUpMs && nowMs - state.startedAtMs < stayUpMs) {
    return 'restarting';
  }
  const { beats, refused } = state.counts;
  if (beats >= MIN_COUNTED_BEATS && refused > beats * MAX_REFUSED_SHARE) {
    return 'refusing';
  }
  // Only what was listened for counts: after a restart every node's last known beat is old, and that is no deafness.
  const hearsNobody = [...state.nodes.values()].every((node) => sightOf(state, node, nowMs) === 'silent');
  return state.nodes.size > 0 && hearsNobody ? 'hears-nobody' : undefined;
}
