import { timeoutMs, type Policy } from '../policy.ts';
import { deadlinesOf } from './sight.ts';
import type { HeardNode, ObserverState } from './state.ts';

/**
 * How long a node must at least be listened to again after an own outage, whatever was listened to before: the
 * first retries of one beat (at 1 and 2 s of a 10 s interval) and a second more.
 */
function listenAgainMs(policy: Policy): number {
  return policy.intervalMs * 0.2 + 1_000;
}

/** What was seen longer ago than an interval and this tells nothing about who was being waited for. */
const CREDIT_AGE_MS = 5_000;

/**
 * Silence before the outage that still counts. A node whose missed beat had been listened for at `heardUpToMs` was
 * truly not heard until then: memory had every beat, and its return is stored before it is acked. Without this credit, a redeploy
 * every 20 s would postpone every verdict for ever.
 */
function creditOf(state: ObserverState, node: HeardNode, heardUpToMs: number, nowMs: number): number {
  const intervalMs = Math.max(state.policy.intervalMs, node.intervalMs);
  if (nowMs - heardUpToMs > intervalMs + CREDIT_AGE_MS) return 0;
  if (heardUpToMs < deadlinesOf(state, node).vouchedLateAtMs) return 0;
  const listenedMs = heardUpToMs - Math.max(node.heardAtMs, state.listeningSinceMs - node.creditMs);
  return Math.max(0, Math.min(listenedMs, timeoutMs(state.policy, intervalMs) - listenAgainMs(state.policy)));
}

/**
 * After an own outage: beats may have come and gone unheard, so silence counts from now, plus what was truly
 * listened to until `heardUpToMs`.
 */
export function listenAnew(state: ObserverState, heardUpToMs: number, nowMs: number): void {
  for (const [name, node] of state.nodes) {
    state.nodes.set(name, { ...node, creditMs: creditOf(state, node, heardUpToMs, nowMs) });
  }
  state.listeningSinceMs = nowMs;
}
