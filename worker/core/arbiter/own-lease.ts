import type { ClusterResult, OwnLeaseCopy, OwnLeaseRenewal } from '../cluster-port.ts';
import { observerIdOf } from '../shard.ts';
import type { ArbiterState } from './state.ts';

/*
 * Our own Lease. It shows in the cluster when the detector was last well, and keeps two deployments that judge one
 * cluster by mistake from writing both: whoever holds it writes. As with every Lease, no two machines' clocks are
 * compared: that another holder is at work is seen by its renewTime changing between our looks.
 */

/** ms between two renewals. One small write a minute is all that farpulse costs an API server while all is well. */
export const RENEW_EVERY_MS = 60_000;
/** ms for which a renewal is good for writes: before anybody else may take over. */
const GOOD_FOR_MS = 120_000;
/** ms without a move after which another holder is taken to be gone. */
export const TAKE_OVER_MS = 180_000;
/** ms between two looks at another holder's Lease. */
const LOOK_EVERY_MS = 30_000;
/** ms after a call without an answer, and after a refusal, which only a person can mend. */
const RETRY_MS = 10_000;
const REFUSED_RETRY_MS = 60_000;
/** ms of failed calls, while the API server answers others, after which they are told like a refusal. */
const FAILING_MS = 60_000;
/** A region that has not reported for longer does not see. */
const REPORT_GOOD_FOR_MS = 240_000;

/** What is known of our Lease. Stored, so that a restart neither gives it up nor mistakes its own renewal. */
export interface OwnLease {
  /** Of the copy to be written next; absent when it must be read first. */
  readonly resourceVersion?: string;
  /** What we wrote last and what we sent last. Any other value under our name is another deployment of that name. */
  readonly writtenTimeMs?: number;
  readonly sentTimeMs?: number;
  /** When the last renewal that was taken had been sent. */
  readonly renewedAtMs?: number;
  /** Not asked again before. */
  readonly retryAtMs?: number;
  readonly failingSinceMs?: number;
  /** Somebody else holds it. */
  readonly other?: {
    readonly holder: string;
    readonly renewTimeMs: number | undefined;
    /** When it was first seen there, and when its renewTime was last seen to change: by our clock. */
    readonly sinceMs: number;
    readonly movedAtMs: number;
  };
  /** It cannot be had: told, and writes go on without it. */
  readonly trouble?: { readonly sinceMs: number; readonly why: string };
}

export type LeaseAsk =
  | { readonly kind: 'read-own-lease' }
  | { readonly kind: 'renew-own-lease'; readonly renewal: OwnLeaseRenewal };

/** Whether a Lease is kept at all: not where nothing is written. */
function holderOf({ settings }: ArbiterState): string | undefined {
  return settings.mode === 'observe' || !settings.hasApi ? undefined : settings.lease?.holder;
}

/** A quorum of regions has reported lately and can judge. */
function isWell({ settings: { regions, shards, quorum }, reports }: ArbiterState, nowMs: number): boolean {
  const seeing = regions.filter((region) =>
    Array.from({ length: shards }, (_, shard) => reports.get(observerIdOf(region, shard, shards))).every(
      (stored) =>
        stored !== undefined &&
        stored.report.blind === undefined &&
        nowMs - stored.receivedAtMs < REPORT_GOOD_FOR_MS,
    ),
  );
  return seeing.length >= quorum;
}

/** What is to be asked of the Lease next, and from when on. Undefined: nothing, in this mode or as long as we are not well. */
export function nextLeaseAsk(
  state: ArbiterState,
  nowMs: number,
): { readonly atMs: number; readonly ask: LeaseAsk } | undefined {
  const holder = holderOf(state);
  if (holder === undefined || !isWell(state, nowMs)) return undefined;
  const { resourceVersion, renewedAtMs, retryAtMs = 0, other } = state.ownLease ?? {};
  if (resourceVersion === undefined) return { atMs: retryAtMs, ask: { kind: 'read-own-lease' } };
  // Taken over with the version that was looked at: should its holder have renewed since, that is a conflict.
  const renewAtMs =
    other === undefined ? (renewedAtMs ?? 0) + RENEW_EVERY_MS : other.movedAtMs + TAKE_OVER_MS;
  const renewal = { resourceVersion, holder, renewTimeMs: nowMs };
  if (other === undefined || nowMs >= renewAtMs) {
    return { atMs: Math.max(renewAtMs, retryAtMs), ask: { kind: 'renew-own-lease', renewal } };
  }
  return { atMs: Math.min(renewAtMs, retryAtMs), ask: { kind: 'read-own-lease' } };
}

/** Before a renewal is sent: what is there afterwards is recognised, also when its answer is lost. */
export function noteSent(state: ArbiterState, ask: LeaseAsk): void {
  if (ask.kind === 'renew-own-lease')
    state.ownLease = { ...state.ownLease, sentTimeMs: ask.renewal.renewTimeMs };
}

export function onOwnLeaseRead(
  state: ArbiterState,
  result: ClusterResult<OwnLeaseCopy>,
  nowMs: number,
): void {
  if (result.kind !== 'ok') {
    state.ownLease = failed(state, result, nowMs);
    return;
  }
  const { resourceVersion, holder, renewTimeMs } = result.value;
  const { trouble: _t, failingSinceMs: _f, retryAtMs: _r, other, ...own } = state.ownLease ?? {};
  const { writtenTimeMs, sentTimeMs } = own;
  const isNew = writtenTimeMs === undefined && sentTimeMs === undefined;
  const isOurs =
    holder === holderOf(state) && (isNew || renewTimeMs === writtenTimeMs || renewTimeMs === sentTimeMs);
  if (holder === undefined || isOurs) {
    state.ownLease = { ...own, resourceVersion };
    return;
  }
  const isSame = other?.holder === holder && other.renewTimeMs === renewTimeMs;
  const { renewedAtMs: _a, ...rest } = own;
  state.ownLease = {
    ...rest,
    resourceVersion,
    retryAtMs: nowMs + LOOK_EVERY_MS,
    other: {
      holder,
      renewTimeMs,
      sinceMs: other?.holder === holder ? other.sinceMs : nowMs,
      movedAtMs: isSame ? other.movedAtMs : nowMs,
    },
  };
}

export function onOwnLeaseRenewed(
  state: ArbiterState,
  result: ClusterResult<{ readonly resourceVersion: string }>,
  renewal: OwnLeaseRenewal,
  nowMs: number,
): void {
  switch (result.kind) {
    case 'ok': {
      const { trouble: _t, failingSinceMs: _f, retryAtMs: _r, other: _o, ...own } = state.ownLease ?? {};
      state.ownLease = {
        ...own,
        resourceVersion: result.value.resourceVersion,
        writtenTimeMs: renewal.renewTimeMs,
        renewedAtMs: renewal.renewTimeMs,
      };
      return;
    }
    case 'conflict':
      state.ownLease = toBeRead(state.ownLease);
      return;
    case 'not-found':
    case 'refused':
    case 'invalid':
    case 'busy':
    case 'unreachable':
      // It may have been taken after all: sent again with another time, it would not be recognised as ours.
      state.ownLease = toBeRead(failed(state, result, nowMs));
      return;
  }
}

/** Somebody may have written it since it was read, and it is looked who. */
function toBeRead(own: OwnLease | undefined): OwnLease {
  const { resourceVersion: _, ...rest } = own ?? {};
  return rest;
}

function failed(
  state: ArbiterState,
  failure: Exclude<ClusterResult<unknown>, { kind: 'ok' }>,
  nowMs: number,
): OwnLease {
  const own = state.ownLease ?? {};
  const why = failure.kind === 'not-found' ? 'there is no such Lease' : failure.why;
  const trouble = { sinceMs: own.trouble?.sinceMs ?? nowMs, why };
  if (failure.kind !== 'busy' && failure.kind !== 'unreachable') {
    const { resourceVersion: _r, other: _o, ...rest } = own;
    return { ...rest, trouble, retryAtMs: nowMs + REFUSED_RETRY_MS };
  }
  const failingSinceMs = own.failingSinceMs ?? nowMs;
  // An API server that answers nobody is a state of its own, and nothing can be written meanwhile.
  const isTold = state.api.state !== 'unreachable' && nowMs - failingSinceMs >= FAILING_MS;
  const retryAtMs = nowMs + Math.max(RETRY_MS, failure.kind === 'busy' ? failure.retryAfterMs : 0);
  return { ...own, failingSinceMs, retryAtMs, ...(isTold && { trouble }) };
}

/** Who else holds this cluster's Lease, if anybody: then this deployment stands down. */
export function otherHolder(state: ArbiterState): OwnLease['other'] {
  return holderOf(state) === undefined ? undefined : state.ownLease?.other;
}

/** Why nothing may be written now, as far as the Lease goes, and when to ask again; undefined when it may. */
export function leaseForbids(
  state: ArbiterState,
  nowMs: number,
): { readonly untilMs: number; readonly why: string } | undefined {
  const { other, trouble, renewedAtMs } = state.ownLease ?? {};
  if (holderOf(state) === undefined || trouble !== undefined) return undefined;
  if (other !== undefined) return { untilMs: nowMs + LOOK_EVERY_MS, why: standsDown(other.holder) };
  if (renewedAtMs !== undefined && nowMs - renewedAtMs < GOOD_FOR_MS) return undefined;
  return { untilMs: nowMs + 1_000, why: "renewing this cluster's Lease first" };
}

export function standsDown(holder: string): string {
  return `another deployment, ${holder}, holds this cluster's Lease: this one stands down`;
}
