import type { Policy } from '../policy.ts';
import type { FreshRead, KubeletSigns, Watch } from './state.ts';
import { fromRfc3339 } from '../rfc3339.ts';

/*
 * Rules 2 and 3: the kubelet's own traces. A node whose beacon is gone but whose kubelet still renews its Lease is
 * not dead, however silent it is to us.
 */

/** A kubelet renews its Lease every 10 to 10.4 s: 11 s without a move mean something. */
export const RENEWAL_MS = 11_000;

/**
 * ms between two looks at a watched node's signs; the first comes after `RENEWAL_MS`. A move is noticed up to one look
 * late, so a kubelet's death is found within `WATCH_LOOK_MS + WATCH_STILL_MS` of its last renewal. Shorter finds it
 * sooner, and costs the API server two reads a node each time (above `LIST_ABOVE` nodes one list for all).
 */
export const WATCH_LOOK_MS = 20_000;
/** ms without a move that are silence: five renewals of a live kubelet missed. Shorter is sooner, and wrong more often. */
export const WATCH_STILL_MS = 60_000;
/** Without a Lease only `lastHeartbeatTime` is left, which a healthy kubelet moves every 5 to 7.5 min. */
export const WATCH_STILL_WITHOUT_LEASE_MS = 960_000;

export function signsOf(read: FreshRead): KubeletSigns {
  const renewTimeMs = read.lease.kind === 'ok' ? read.lease.value.renewTimeMs : undefined;
  const heartbeatTime = read.node.kind === 'ok' ? read.node.value.ready?.lastHeartbeatTime : undefined;
  return {
    ...(renewTimeMs !== undefined && { renewTimeMs }),
    ...(heartbeatTime !== undefined && { heartbeatTime }),
  };
}

/** Any difference is a move: a clock that steps back still belongs to a kubelet that writes. */
export function moved(before: KubeletSigns, after: KubeletSigns): boolean {
  return (
    (after.renewTimeMs !== undefined && after.renewTimeMs !== before.renewTimeMs) ||
    (after.heartbeatTime !== undefined && after.heartbeatTime !== before.heartbeatTime)
  );
}

/**
 * Whether a Lease says anything about its kubelet. Not when the kubelet wrote its status after the next renewal was due:
 * then the Lease hangs, or is left over from before `enableNodeLease: false`, and that it stands still is no death. Both
 * stamps are of the node's own clock.
 */
export function leaseSpeaks({ renewTimeMs, heartbeatTime }: KubeletSigns): boolean {
  if (renewTimeMs === undefined) return false;
  const heartbeatMs = heartbeatTime === undefined ? undefined : fromRfc3339(heartbeatTime);
  return heartbeatMs === undefined || heartbeatMs <= renewTimeMs + RENEWAL_MS;
}

export type KubeletEvidence =
  /** It wrote after the beat that was missed: the kubelet outlived the beacon, or its path. */
  | { readonly kind: 'outlived' }
  /** Not a trace since. `hasLease`: on the strength of a Lease, not only of the slow heartbeat time. */
  | { readonly kind: 'still'; readonly hasLease: boolean }
  /** Cannot be told yet: it may renew until then. */
  | { readonly kind: 'wait'; readonly untilMs: number }
  | { readonly kind: 'unavailable'; readonly why: string };

/**
 * What a fresh read says about the kubelet of a node whose beats stopped.
 *
 * Both sides are the same node's clock: the Lease's renewTime and the last beat's own sender time. Only a 404 means
 * that there is no Lease; a 403 or a timeout means that we could not look.
 *
 * @param lastSentAtMs the sender's clock in the last beat anybody heard
 * @param firstMissedMs when the first missed beat fell due, by our clock
 */
export function kubeletEvidence(
  policy: Policy,
  read: FreshRead,
  lastSentAtMs: number,
  intervalMs: number,
  firstMissedMs: number,
): KubeletEvidence {
  const aliveAfterMs = lastSentAtMs + intervalMs;
  const signs = signsOf(read);
  const heartbeatMs = signs.heartbeatTime === undefined ? undefined : fromRfc3339(signs.heartbeatTime);
  const outlived =
    (signs.renewTimeMs ?? Number.NEGATIVE_INFINITY) > aliveAfterMs ||
    (heartbeatMs ?? Number.NEGATIVE_INFINITY) > aliveAfterMs;
  if (outlived) return { kind: 'outlived' };
  if (policy.leaseEvidence === 'off' || read.lease.kind === 'off' || read.lease.kind === 'not-found') {
    return { kind: 'still', hasLease: false };
  }
  if (read.lease.kind !== 'ok') {
    return policy.leaseEvidence === 'wait'
      ? { kind: 'unavailable', why: `its Lease cannot be read: ${read.lease.why}` }
      : { kind: 'still', hasLease: false };
  }
  if (!leaseSpeaks(signs)) return { kind: 'still', hasLease: false };
  const renewsUntilMs = firstMissedMs + RENEWAL_MS;
  if (policy.leaseEvidence === 'wait' && read.atMs < renewsUntilMs)
    return { kind: 'wait', untilMs: renewsUntilMs };
  return { kind: 'still', hasLease: true };
}

/** A heartbeat time has whole seconds: the moment it stands for may be almost one later. */
const SECOND_MS = 1_000;

/**
 * What a fresh read says about a kubelet whose Lease stood still in the lists, where nothing else speaks for or against
 * the node. Stricter than `leaseSpeaks`: a status that may have been written after the last renewal is a kubelet that
 * lives without renewing, as one does that was just restarted with `enableNodeLease: false`.
 *
 * @param listedRenewTimeMs as the newest list had it
 */
export function stillLeaseEvidence(
  read: FreshRead,
  listedRenewTimeMs: number | undefined,
  nowMs: number,
): KubeletEvidence {
  const { renewTimeMs, heartbeatTime } = signsOf(read);
  if (renewTimeMs === undefined) return { kind: 'unavailable', why: 'its Lease cannot be read' };
  if (renewTimeMs !== listedRenewTimeMs) return { kind: 'wait', untilMs: nowMs + WATCH_LOOK_MS };
  const heartbeatMs = heartbeatTime === undefined ? undefined : fromRfc3339(heartbeatTime);
  if (heartbeatMs !== undefined && heartbeatMs + SECOND_MS > renewTimeMs) {
    return {
      kind: 'unavailable',
      why: 'its kubelet wrote a status after its last renewal: the Lease may hang',
    };
  }
  return { kind: 'still', hasLease: true };
}

/** Compares a watched node's signs with the ones remembered. */
export function look(watch: Watch, read: FreshRead): Watch {
  const signs = signsOf(read);
  const isRenewed = signs.renewTimeMs !== watch.signs.renewTimeMs;
  return {
    signs: { ...watch.signs, ...signs },
    movedAtMs: moved(watch.signs, signs) ? read.atMs : watch.movedAtMs,
    lookedAtMs: read.atMs,
    // One that was not believed has to move first.
    hasLease: leaseSpeaks(signs) && (watch.hasLease || isRenewed),
  };
}

/** The same from a list of Leases, which shows nothing else. */
export function lookAtLease(watch: Watch, renewTimeMs: number | undefined, nowMs: number): Watch {
  const hasMoved = renewTimeMs !== undefined && renewTimeMs !== watch.signs.renewTimeMs;
  return {
    signs: { ...watch.signs, ...(renewTimeMs !== undefined && { renewTimeMs }) },
    movedAtMs: hasMoved ? nowMs : watch.movedAtMs,
    lookedAtMs: nowMs,
    hasLease: true,
  };
}

/** When a watched node that shows no further sign becomes silent. */
export function stillAtMs(watch: Watch): number {
  return watch.movedAtMs + (watch.hasLease ? WATCH_STILL_MS : WATCH_STILL_WITHOUT_LEASE_MS);
}

/**
 * When a watched node's signs are to be compared again, by our clock in ms. A first time as soon as a live kubelet must
 * have renewed: what it did just before its death is then not taken for a later sign of life. And at the very moment
 * from which it counts as silent, not up to one look after it.
 */
export function nextLookMs(watch: Watch): number {
  const dueMs = watch.lookedAtMs + (watch.isNew === true ? RENEWAL_MS : WATCH_LOOK_MS);
  const stillMs = stillAtMs(watch);
  return watch.lookedAtMs < stillMs ? Math.min(dueMs, stillMs) : dueMs;
}
