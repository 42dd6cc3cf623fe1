import { claimsOn, lastHeardMs, newestClaim } from './witness.ts';
import type { ArbiterNode, ArbiterState } from './state.ts';

/*
 * Rules 4 and 5: how much of the cluster fell silent with a node, and what that does to the verdict. The more nodes
 * go at once, the likelier it is that we are the ones who are cut off (kubernetes/kubernetes#77864, #105617).
 */

/** When a node was last heard, and its interval and timeout, from the newest reports. */
export interface Heard {
  readonly node: ArbiterNode;
  readonly heardAtMs: number;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** Its beats say that the kubelet is down: it counts as lost, whatever its beats say. */
  readonly kubeletDown: boolean;
  /** It has no beacon; these are the moves of its Lease, which are slower than beats. */
  readonly byLease?: true;
}

/** All enrolled nodes that any observer has ever heard. */
export function heardNodes(state: ArbiterState): readonly Heard[] {
  const heard: Heard[] = [];
  for (const node of state.nodes.values()) {
    // Observers remember for a while who beat before its Node lost its key.
    if (node.keys.length === 0) continue;
    const claims = claimsOn(state, node);
    const newest = newestClaim(claims);
    if (newest === undefined) continue;
    heard.push({
      node,
      heardAtMs: lastHeardMs(claims),
      intervalMs: newest.reported.intervalMs,
      timeoutMs: newest.reported.timeoutMs,
      kubeletDown: node.kubeletDown !== undefined,
    });
  }
  return heard;
}

/** A node that we wrote and that has not returned counts as lost for this long. */
const WRITTEN_COUNTS_MS = 3_600_000;

/** In a cluster this small a written node leaves the share at once: it would hold every later verdict. */
const SMALL_CLUSTER = 4;

/** More of the cluster than this, and nothing is written. */
export const HOLD_ABOVE = 0.5;

export interface Share {
  readonly lost: readonly string[];
  readonly of: number;
  readonly share: number;
  /** The same, those counted in that were missing with the suspect and came back lately. For the doubt only. */
  readonly wave: number;
  /** When the last of those came back. */
  readonly returnedAtMs?: number;
}

function isWritten(node: ArbiterNode, nowMs: number): boolean {
  const write = node.phase === 'down' ? node.episode?.write : undefined;
  return write !== undefined && write.outcome !== 'failed' && nowMs - write.atMs < WRITTEN_COUNTS_MS;
}

/** A node that was missing with a suspect and is back counts for so many timeouts; the longest doubt is 1.6. */
const RETURNED_COUNTS_TIMEOUTS = 2;

/**
 * When a node that was missing together with the suspect returned, unwritten: then the suspect is likely to do the same.
 * Not counted, the share would shrink with every return, and with it the wait of those whose return is next.
 */
function returnedAtMs({ node }: Heard, suspect: Heard, nowMs: number): number | undefined {
  const { lastAbsence } = node;
  if (lastAbsence === undefined) return undefined;
  const firstMissedMs = suspect.heardAtMs + suspect.intervalMs;
  const wasMissingToo = lastAbsence.lastBeatAtMs < firstMissedMs && lastAbsence.returnedAtMs >= firstMissedMs;
  const isLately = nowMs - lastAbsence.returnedAtMs < RETURNED_COUNTS_TIMEOUTS * suspect.timeoutMs;
  return wasMissingToo && isLately ? lastAbsence.returnedAtMs : undefined;
}

/**
 * The share of the cluster that is lost, as seen from one suspect.
 *
 * Lost: not heard since the suspect's first missed beat fell due, whether silent yet or only late. Counting only the
 * silent ones would write the first live nodes of a total outage. Of: those that were beating before its last beat.
 */
export function shareAround(all: readonly Heard[], suspect: Heard, nowMs: number): Share {
  const firstMissedMs = suspect.heardAtMs + suspect.intervalMs;
  const small = all.length <= SMALL_CLUSTER;
  const lost: string[] = [];
  let back = 0;
  let lastBackAtMs: number | undefined;
  let of = 0;
  for (const other of all) {
    const written = other !== suspect && isWritten(other.node, nowMs);
    if (written && small) continue;
    const wasBeating = other.heardAtMs >= suspect.heardAtMs - other.timeoutMs;
    if (!wasBeating && !written) continue;
    of += 1;
    const isMissing = other === suspect || other.kubeletDown || other.heardAtMs < firstMissedMs;
    if (written || isMissing) {
      lost.push(other.node.name);
      continue;
    }
    const backAtMs = returnedAtMs(other, suspect, nowMs);
    if (backAtMs === undefined) continue;
    back += 1;
    lastBackAtMs = Math.max(lastBackAtMs ?? 0, backAtMs);
  }
  return {
    lost,
    of,
    share: lost.length / of,
    wave: (lost.length + back) / of,
    ...(lastBackAtMs !== undefined && { returnedAtMs: lastBackAtMs }),
  };
}

/** A share of up to this much, or of one node, costs no extra wait. */
const DOUBT_FREE = 0.1;
/** Extra wait for all of the cluster beyond that, in timeouts. */
const DOUBT_TIMEOUTS = 4;

/**
 * Extra wait for a suspect in a wave: none up to a tenth of the cluster (or one node), then proportionate, so that
 * half the cluster waits 1.6 timeouts more. A rack of 30 in 100 waits 0.8 timeouts.
 */
export function doubtMs(share: Share, timeoutMs: number): number {
  return timeoutMs * DOUBT_TIMEOUTS * Math.max(0, share.wave - Math.max(DOUBT_FREE, 1 / share.of));
}

/** No suspect is judged before every node has had the time to miss a beat too. */
export function longestIntervalMs(all: readonly Heard[]): number {
  return summaryOf(all).longestIntervalMs;
}

/** The entry of one node, if any observer has heard it. */
export function heardOf(all: readonly Heard[], node: ArbiterNode): Heard | undefined {
  const heard = summaryOf(all).byName.get(node.name);
  return heard?.node === node ? heard : undefined;
}

interface Summary {
  readonly byName: ReadonlyMap<string, Heard>;
  readonly longestIntervalMs: number;
}

/** Worked out once per step: when a thousand nodes are missing, each of them asks. */
const summaries = new WeakMap<readonly Heard[], Summary>();
function summaryOf(all: readonly Heard[]): Summary {
  let summary = summaries.get(all);
  if (summary === undefined) {
    summary = {
      byName: new Map(all.map((heard) => [heard.node.name, heard])),
      longestIntervalMs: all.reduce(
        (longest, heard) => (heard.byLease === true ? longest : Math.max(longest, heard.intervalMs)),
        0,
      ),
    };
    summaries.set(all, summary);
  }
  return summary;
}
