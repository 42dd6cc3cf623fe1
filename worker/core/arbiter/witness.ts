import type { Blindness, NodeSight, ReportedNode } from '../../../protocol/report.ts';
import { observerIdOf, shardOf } from '../shard.ts';
import type { ArbiterNode, ArbiterState } from './state.ts';

/*
 * Rule 1: push suspicion, pull confirmation. Silence needs a quorum of the configured observers, blind ones abstain,
 * and one proven beat vetoes.
 */

/** What one configured region says about one node, brought to this arbiter's clock. */
export interface Claim {
  readonly region: string;
  /**
   * - `absent`: it has not reported, or does not know the node. Abstains, like `blind`.
   * - `refused`: no beat, but well-signed ones that could not be taken. Never silence.
   */
  readonly kind: NodeSight | 'blind' | 'absent' | 'refused';
  readonly blindness?: Blindness;
  readonly heardAtMs: number;
  readonly receivedAtMs: number;
  readonly reported?: ReportedNode;
}

/**
 * One claim per configured region, from the newest reports.
 *
 * @param sinceMs a region that has not reported since then abstains; what it heard before still counts as heard
 */
export function claimsOn(
  state: ArbiterState,
  node: ArbiterNode,
  sinceMs = Number.NEGATIVE_INFINITY,
): readonly Claim[] {
  const { regions, shards } = state.settings;
  const shard = shardOf(node.name, shards);
  return regions.map((region): Claim => {
    const stored = state.reports.get(observerIdOf(region, shard, shards));
    const reported = stored && lookup(stored.report.nodes).get(node.name);
    if (stored === undefined || reported === undefined || reported.uid !== node.uid) {
      return {
        region,
        kind: 'absent',
        heardAtMs: Number.NEGATIVE_INFINITY,
        receivedAtMs: stored?.receivedAtMs ?? 0,
      };
    }
    const { blind } = stored.report;
    const refusedLately = reported.refused !== undefined && reported.refused.agoMs < reported.timeoutMs;
    const deaf = state.memory.deaf.has(region);
    const sight = reported.sight === 'silent' && refusedLately ? 'refused' : reported.sight;
    return {
      region,
      kind: stored.receivedAtMs < sinceMs ? 'absent' : blind === undefined && !deaf ? sight : 'blind',
      ...(blind !== undefined && { blindness: blind }),
      heardAtMs: stored.receivedAtMs - reported.heardAgoMs,
      receivedAtMs: stored.receivedAtMs,
      reported,
    };
  });
}

/** More than this share of what the others hear, and a region's silence says more about the region. */
const DEAF_ABOVE = 0.5;
/** Of fewer nodes than these no such share is taken. */
const DEAF_LEAST_NODES = 3;

/**
 * Regions that call most nodes silent which another region hears: the region is the suspect, and abstains.
 *
 * @param begunAtMs of the poll; only what was answered to it is compared, or an old report would stand against a new one
 */
export function deafRegions(state: ArbiterState, begunAtMs: number): ReadonlySet<string> {
  const deaf = new Set<string>();
  const answered = [...state.reports.values()].filter(({ receivedAtMs }) => receivedAtMs >= begunAtMs);
  for (const { report } of answered) {
    const elsewhere = new Set<string>();
    for (const other of answered) {
      if (other.report.region === report.region || other.report.blind !== undefined) continue;
      for (const { name, sight } of other.report.nodes) if (sight === 'heard') elsewhere.add(name);
    }
    const compared = report.nodes.filter(({ name }) => elsewhere.has(name));
    const silent = compared.filter(({ sight }) => sight === 'silent');
    if (compared.length >= DEAF_LEAST_NODES && silent.length > compared.length * DEAF_ABOVE)
      deaf.add(report.region);
  }
  return deaf;
}

/** Reports are arrays on the wire; each is indexed once. */
const indexes = new WeakMap<readonly ReportedNode[], ReadonlyMap<string, ReportedNode>>();
function lookup(nodes: readonly ReportedNode[]): ReadonlyMap<string, ReportedNode> {
  let index = indexes.get(nodes);
  if (index === undefined) {
    index = new Map(nodes.map((node) => [node.name, node]));
    indexes.set(nodes, index);
  }
  return index;
}

/** When the node was last heard, as far as a quorum can vouch for; see `newestClaim`. */
export function lastHeardMs(claims: readonly Claim[]): number {
  return newestClaim(claims)?.heardAtMs ?? Number.NEGATIVE_INFINITY;
}

/**
 * Since when the node's silence has been listened to without a gap, by the silent region that has done so longest: its
 * last beat, or later, after a restart that may have lost beats. What the kubelet did before that is no sign that it
 * outlived a missed beat.
 */
export function silentSinceMs(claims: readonly Claim[]): number {
  const since = claims.flatMap(({ kind, receivedAtMs, reported }) =>
    kind === 'silent' && reported !== undefined
      ? [receivedAtMs - (reported.listenedForMs ?? reported.heardAgoMs)]
      : [],
  );
  return Math.max(lastHeardMs(claims), since.length === 0 ? Number.NEGATIVE_INFINITY : Math.min(...since));
}

/**
 * The newest hearing of the node that a quorum of regions confirms: that many have heard it then or later. Not simply
 * the newest, nor the oldest: one region that says "a second ago" for ever, or "never", would move every deadline and
 * share. (A beat that one region alone has heard still vetoes, by its proof.)
 */
export function newestClaim(claims: readonly Claim[]): KnownClaim | undefined {
  // More than half of the configured regions, or of those that know the node: a new one is not known everywhere yet.
  const wanted = Math.min(Math.floor(claims.length / 2) + 1, claims.filter(isKnown).length);
  return claims.filter(isKnown).find(({ heardAtMs }) => {
    let newer = 0;
    let same = 0;
    for (const other of claims) {
      if (!isKnown(other)) continue;
      if (other.heardAtMs > heardAtMs) newer += 1;
      else if (other.heardAtMs === heardAtMs) same += 1;
    }
    return newer < wanted && wanted <= newer + same;
  });
}

type KnownClaim = Claim & { readonly reported: ReportedNode };

function isKnown(claim: Claim): claim is KnownClaim {
  return claim.reported !== undefined;
}

/**
 * Since when a quorum of regions listens without a gap. Nodes whose beats came and went unheard in that gap look as
 * lost as a dead one, until they have had an interval to beat again.
 */
export function quorumListensSinceMs(state: ArbiterState): number {
  const { regions, shards, quorum } = state.settings;
  const since = regions.map((region) => {
    const ofShards = Array.from({ length: shards }, (_, shard) => {
      const stored = state.reports.get(observerIdOf(region, shard, shards));
      return stored === undefined
        ? Number.NEGATIVE_INFINITY
        : stored.receivedAtMs - stored.report.listeningForMs;
    });
    return Math.max(...ofShards);
  });
  return since.toSorted((a, b) => a - b)[quorum - 1] ?? Number.NEGATIVE_INFINITY;
}

/** How many regions say silent. */
export function silentCount(claims: readonly Claim[]): number {
  return claims.filter((claim) => claim.kind === 'silent').length;
}

export type Confirmation =
  | { readonly kind: 'confirmed' }
  /** Somebody may still hear it, or will soon be able to say that it does not. */
  | { readonly kind: 'wait'; readonly untilMs: number; readonly why: string; readonly veto?: ReportedNode }
  | { readonly kind: 'too-few'; readonly why: string };

/**
 * Weighs fresh claims on a node that a quorum calls silent.
 *
 * A `heard` or `late` only counts against silence with a proof: the beat itself, verified, and newer than what the
 * silent ones heard. The same beat vetoes for one timeout, so a lying observer can delay a verdict, not prevent it.
 *
 * @param suspectSinceMs when the node became suspect: an observer that has not listened long enough is waited for
 *   from then on, at most one timeout
 */
export function confirmSilence(
  state: ArbiterState,
  node: ArbiterNode,
  claims: readonly Claim[],
  suspectSinceMs: number,
  nowMs: number,
): Confirmation {
  const silent = claims.filter((claim) => claim.kind === 'silent');
  const timeoutMs = newestClaim(claims)?.reported.timeoutMs ?? 0;
  for (const claim of claims) {
    const { kind, reported } = claim;
    if (reported === undefined || (kind !== 'heard' && kind !== 'late')) continue;
    if (reported.proof === undefined || !isNewerThanAll(reported, silent)) continue;
    const sameBeat = node.veto?.boot === reported.boot && node.veto.seq === reported.seq;
    if (sameBeat && nowMs >= node.veto.sinceMs + reported.timeoutMs) continue;
    return {
      kind: 'wait',
      untilMs: Math.min(claim.heardAtMs + reported.timeoutMs, nowMs + reported.intervalMs),
      why: `${claim.region} has heard it`,
      veto: reported,
    };
  }
  if (silent.length >= state.settings.quorum) return { kind: 'confirmed' };
  const listening = claims.filter((claim) => claim.kind === 'listening' || claim.kind === 'late');
  const waitUntilMs = suspectSinceMs + timeoutMs;
  if (silent.length + listening.length >= state.settings.quorum && nowMs < waitUntilMs) {
    const judges = listening.map((claim) => judgesAtMs(claim));
    return {
      kind: 'wait',
      untilMs: Math.min(waitUntilMs, Math.max(nowMs + 100, Math.min(...judges))),
      why: `${listening.map((claim) => claim.region).join(', ')} cannot say yet`,
    };
  }
  const missing = claims
    .filter((claim) => claim.kind !== 'silent')
    .map((claim) => `${claim.region} ${claim.blindness ?? claim.kind}`);
  return {
    kind: 'too-few',
    why: `${silent.length} of ${state.settings.quorum} needed regions say silent (${missing.join(', ')})`,
  };
}

/** When a region that is late, or listens again, can say silent. */
export function judgesAtMs(claim: Claim): number {
  const { reported } = claim;
  if (reported === undefined) return Number.POSITIVE_INFINITY;
  return reported.judgesInMs === undefined
    ? claim.heardAtMs + reported.timeoutMs
    : claim.receivedAtMs + reported.judgesInMs;
}

/** Sequences order beats within a boot. Another boot than the silent ones know is newer, or it is refused as a replay. */
function isNewerThanAll(reported: ReportedNode, silent: readonly Claim[]): boolean {
  return silent.every(
    (claim) =>
      claim.reported === undefined ||
      claim.reported.boot !== reported.boot ||
      reported.seq > claim.reported.seq,
  );
}
