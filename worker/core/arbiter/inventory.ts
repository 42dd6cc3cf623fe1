import { KEY_ANNOTATION, parseKeyAnnotation, type PublicKey } from '../../../protocol/keys.ts';
import type { Registry } from '../../../protocol/report.ts';
import type { InventoryNode } from '../cluster-port.ts';
import { fromRfc3339 } from '../rfc3339.ts';
import { shardOf } from '../shard.ts';
import type { ArbiterNode, ArbiterState } from './state.ts';
import type { Phase } from './view.ts';

/*
 * The Node object is the registry: its annotations name the beacon's keys and an operator's wishes, and whoever may
 * write them is decided by the cluster (NodeRestriction lets a kubelet change only its own Node).
 */

/** The inventory is listed anew this often. */
export const LIST_EVERY_MS = 300_000;
/** After a failed or refused list. */
export const LIST_RETRY_MS = 30_000;
/** Strangers are looked up at most this often, for the whole cluster. */
export const LOOK_UP_EVERY_MS = 10_000;

/** `farpulse/pause: until=2026-12-01T10:00:00Z reason=disk swap`, or just a reason: until it is taken off. */
const PAUSE_ANNOTATION = 'farpulse/pause';
/** `farpulse/ignore: "true"`: never judged. */
const IGNORE_ANNOTATION = 'farpulse/ignore';

const ZONE_LABEL = 'topology.kubernetes.io/zone';

/** A beat signed with a key that its Node no longer names is proof of life for this long. */
const OLD_KEY_MS = 86_400_000;

/** A list that lacks more than this share of the known nodes is taken for incomplete. */
const MAX_MISSING_SHARE = 0.05;

export function pauseOf(annotations: Readonly<Record<string, string>>): ArbiterNode['paused'] {
  if (annotations[IGNORE_ANNOTATION] === 'true') return { untilMs: null, reason: 'ignored by annotation' };
  const text = annotations[PAUSE_ANNOTATION];
  if (text === undefined) return undefined;
  const until = /(?:^|\s)until=(\S+)/.exec(text)?.[1];
  const untilMs = until === undefined ? undefined : fromRfc3339(until);
  const reason = (/(?:^|\s)reason=(.*)$/.exec(text)?.[1] ?? text).slice(0, 200);
  return { untilMs: untilMs ?? null, reason };
}

export function isPaused(node: ArbiterNode, nowMs: number): boolean {
  return node.paused !== undefined && (node.paused.untilMs === null || nowMs < node.paused.untilMs);
}

function sameKeys(a: readonly PublicKey[], b: readonly PublicKey[]): boolean {
  return a.length === b.length && a.every((key) => b.some((other) => other.x === key.x));
}

/** Which Node names each key. */
type Owners = Map<string, string>;

function ownersOf(state: ArbiterState): Owners {
  const owners: Owners = new Map();
  for (const { name, keys } of state.nodes.values()) for (const key of keys) owners.set(key.x, name);
  return owners;
}

function phaseOf(same: ArbiterNode | undefined, isEnrolled: boolean): Phase {
  if (same === undefined) return isEnrolled ? 'new' : 'unenrolled';
  // Judged without a beacon: a verdict stands; what was only suspected is left to the beats from now on.
  const isJudged = same.episode?.unenrolled === true;
  if (!isEnrolled) return isJudged ? same.phase : 'unenrolled';
  return same.phase === 'unenrolled' || (isJudged && same.phase !== 'down') ? 'new' : same.phase;
}

/** Takes in one Node's metadata, from a list or a fresh read. A new uid is a new node: nothing of the old one stays. */
export function learn(
  state: ArbiterState,
  seen: InventoryNode,
  nowMs: number,
  owners: Owners = ownersOf(state),
): void {
  const known = state.nodes.get(seen.name);
  const keys = parseKeyAnnotation(seen.annotations[KEY_ANNOTATION]).filter(
    // A key found on two Nodes is void for the later one: one machine must not speak for two.
    (key) => (owners.get(key.x) ?? seen.name) === seen.name,
  );
  for (const key of keys) owners.set(key.x, seen.name);
  const paused = pauseOf(seen.annotations);
  const same = known?.uid === seen.uid ? known : undefined;
  const phase = phaseOf(same, keys.length > 0);
  const { paused: _, ...base } = (phase === 'new' && same !== undefined ? withoutEpisode(same) : same) ?? {
    name: seen.name,
    uid: seen.uid,
    zone: '',
    keys: [],
    oldKeys: [],
    phase,
    sinceMs: nowMs,
    paused: undefined,
  };
  const gone = base.keys.filter((key) => !keys.some((now) => now.x === key.x));
  const next: ArbiterNode = {
    ...base,
    zone: seen.labels[ZONE_LABEL] ?? '',
    keys,
    oldKeys: [
      ...base.oldKeys.filter((old) => old.untilMs > nowMs && !keys.some((key) => key.x === old.key.x)),
      ...gone.map((key) => ({ key, untilMs: nowMs + OLD_KEY_MS })),
    ],
    ...(paused !== undefined && { paused }),
    phase,
    sinceMs: phase === base.phase ? base.sinceMs : nowMs,
  };
  if (same === undefined || !sameKeys(same.keys, keys)) state.registryVersion += 1;
  state.nodes.set(seen.name, next);
}

function withoutEpisode({ episode: _e, watch: _w, cause: _c, ...node }: ArbiterNode): ArbiterNode {
  return node;
}

/** A Node that its own GET did not find is gone, and so is its key. */
export function forget(state: ArbiterState, name: string): void {
  if (state.nodes.delete(name)) state.registryVersion += 1;
}

export type ListVerdict =
  /** Names that are known and not listed: each is asked for by its own GET before it is believed to be gone. */
  | { readonly kind: 'taken'; readonly missing: readonly string[] }
  | { readonly kind: 'refused'; readonly why: string };

/** Takes in a whole inventory, unless so much of it is missing that it cannot be whole. */
export function takeInventory(
  state: ArbiterState,
  listed: readonly InventoryNode[],
  nowMs: number,
): ListVerdict {
  const names = new Set(listed.map((node) => node.name));
  const missing = [...state.nodes.keys()].filter((name) => !names.has(name));
  if (missing.length > Math.max(1, state.nodes.size * MAX_MISSING_SHARE)) {
    return { kind: 'refused', why: `the list lacks ${missing.length} of ${state.nodes.size} known Nodes` };
  }
  const owners = ownersOf(state);
  for (const node of listed) learn(state, node, nowMs, owners);
  return { kind: 'taken', missing };
}

/** The part of the registry that one shard's observers verify with. */
export function registryFor(state: ArbiterState, shard: number, nowMs: number): Registry {
  const { shards } = state.settings;
  return {
    version: state.registryVersion,
    nodes: [...state.nodes.values()]
      .filter((node) => shardOf(node.name, shards) === shard && node.keys.length + node.oldKeys.length > 0)
      .map((node) => ({
        name: node.name,
        uid: node.uid,
        keys: node.keys,
        oldKeys: node.oldKeys.filter((old) => old.untilMs > nowMs).map((old) => old.key),
      })),
  };
}
