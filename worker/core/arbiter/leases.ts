import type { LeaseCopy } from '../cluster-port.ts';
import type { Heard } from './share.ts';
import { lookAtLease, WATCH_LOOK_MS } from './signs.ts';
import type { ArbiterState, LeasePulse } from './state.ts';

/*
 * One paged list of all Leases instead of many single reads: the second pulse of many watched nodes, and the only way
 * out of a hold for nodes that are really dead.
 */

/** From this many nodes on, one list is cheaper for the API server than single reads. */
export const LIST_ABOVE = 20;

/** A hold that has lasted this long may end for nodes whose Leases say so. */
const HOLD_LEASES_AFTER_MS = 300_000;
/** So long must a held node's Lease stand still, while those of heard nodes move. */
const HOLD_LEASE_STILL_MS = 120_000;
/** A live kubelet's Lease moves each 10 s, and is looked at each 20 s. */
const LEASE_MOVES_WITHIN_MS = 45_000;

/** When the Leases are to be listed next; infinite when nobody wants them. */
export function leasesDueMs(state: ArbiterState, watched: number, unenrolled: boolean): number {
  const { memory, settings, hold } = state;
  if (!settings.hasApi || settings.policy.leaseEvidence === 'off') return Number.POSITIVE_INFINITY;
  return watched > LIST_ABOVE || hold !== undefined || unenrolled
    ? Math.max(memory.leasesListedAtMs, memory.leasesTakenAtMs) + WATCH_LOOK_MS
    : Number.POSITIVE_INFINITY;
}

/** Takes in a whole list. Watched nodes are looked at by it. */
export function takeLeases(state: ArbiterState, listed: readonly LeaseCopy[], nowMs: number): void {
  const { memory } = state;
  const pulses = new Map<string, LeasePulse>();
  const gapMs = nowMs - memory.leasesTakenAtMs;
  const counts = othersMove(state, listed);
  for (const { node: name, renewTimeMs } of listed) {
    const before = memory.leases.get(name);
    const same = before !== undefined && before.renewTimeMs === renewTimeMs;
    pulses.set(name, {
      renewTimeMs,
      movedAtMs: same ? before.movedAtMs : nowMs,
      firstSeenAtMs: before?.firstSeenAtMs ?? nowMs,
      ...(same && {
        stillForMs: (before.stillForMs ?? 0) + (counts && gapMs <= LEASE_MOVES_WITHIN_MS ? gapMs : 0),
      }),
    });
    const node = state.nodes.get(name);
    if (node?.phase === 'watched' && node.watch?.hasLease === true) {
      state.nodes.set(name, { ...node, watch: lookAtLease(node.watch, renewTimeMs, nowMs) });
    }
  }
  memory.leases = pulses;
  memory.leasesTakenAtMs = nowMs;
}

/** Whether a Lease was seen to move at all: one left over from before `enableNodeLease: false` never is. */
export function hasMovedEver(pulse: LeasePulse): boolean {
  return pulse.movedAtMs > pulse.firstSeenAtMs;
}

/**
 * Whether at least half of the Leases that can move did so since the last list: then it means something that another one
 * did not. Those of nodes with a verdict are not expected to.
 */
function othersMove({ memory, nodes }: ArbiterState, listed: readonly LeaseCopy[]): boolean {
  let moving = 0;
  let still = 0;
  for (const { node: name, renewTimeMs } of listed) {
    const before = memory.leases.get(name);
    const node = nodes.get(name);
    if (before === undefined || node === undefined || node.phase === 'down') continue;
    if (before.renewTimeMs !== renewTimeMs) moving += 1;
    else if (hasMovedEver(before)) still += 1;
  }
  // As seen from one of those that stand still: the others are one fewer.
  return moving > 0 && moving >= still - 1;
}

/**
 * Held nodes that are dead by their Leases: those stand still while the Leases of nodes that are heard go on, so the
 * API server and the kubelets' way to it are well. Nobody, while nobody is heard.
 */
export function deadByLease(
  state: ArbiterState,
  all: readonly Heard[],
  missing: readonly string[],
  nowMs: number,
): readonly string[] {
  const { hold, memory } = state;
  if (hold === undefined || nowMs - hold.sinceMs < HOLD_LEASES_AFTER_MS) return [];
  const isMissing = new Set(missing);
  const heard = all.filter(({ node }) => !isMissing.has(node.name));
  const moving = heard.filter(({ node }) => {
    const pulse = memory.leases.get(node.name);
    return pulse !== undefined && nowMs - pulse.movedAtMs < LEASE_MOVES_WITHIN_MS;
  });
  // One Lease that stands still among the heard, and it may be the API server that does.
  if (heard.length === 0 || moving.length < heard.length) return [];
  return missing.filter((name) => {
    const pulse = memory.leases.get(name);
    if (pulse === undefined || !hold.nodes.includes(name)) return false;
    return nowMs - Math.max(pulse.movedAtMs, pulse.firstSeenAtMs) >= HOLD_LEASE_STILL_MS;
  });
}
