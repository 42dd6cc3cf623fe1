import type { ReportedNode } from '../../../protocol/report.ts';
import type { NodeEvent } from '../cluster-port.ts';
import type { ArbiterNode, ArbiterState } from './state.ts';
import type { Cause } from './view.ts';

/*
 * What people are told in the cluster itself: Events on the Node, beside the status. Each is told once an episode, and
 * lost when it cannot be told: nothing waits for an Event, and no verdict rests on one.
 */

export interface EventEffect {
  readonly kind: 'event';
  readonly event: NodeEvent;
}

type Words = Pick<NodeEvent, 'reason' | 'message'>;

/** Of watched nodes, by cause. */
const WATCHED: Readonly<Partial<Record<Cause, Words>>> = {
  'beacon-lost': {
    reason: 'FarpulseBeaconLost',
    message: 'no beats, but its kubelet shows life: is the beacon running, and can it reach the edge?',
  },
  'edge-path-cut': {
    reason: 'FarpulseEdgePathCut',
    message: 'no beats, and a live kubelet took back what was written of another node: not written',
  },
  contradicted: {
    reason: 'FarpulseContradicted',
    message: 'its kubelet lives and took Unknown back: not written again before a new sign of life',
  },
};
const DUPLICATE: Words = {
  reason: 'FarpulseDuplicateIdentity',
  message: 'two machines beat with its key: give one of them a key of its own',
};

/**
 * The Events that are due, each marked as told in the state that is stored before it is sent. None while the API server
 * is unreachable: what is still so when it is back is told then.
 */
export function announce(state: ArbiterState, nowMs: number): readonly EventEffect[] {
  const { settings, api, nodes } = state;
  if (settings.mode === 'observe' || !settings.hasApi || api.state === 'unreachable') return [];
  const duplicates = duplicateNames(state);
  const effects: EventEffect[] = [];
  for (const known of nodes.values()) {
    if (known.episode === undefined && known.duplicateSinceMs === undefined && !duplicates.has(known.name))
      continue;
    let node = known;
    const tell = (told: Told | undefined): void => {
      if (told === undefined) return;
      node = told.node;
      if (told.event !== undefined) {
        effects.push({ kind: 'event', event: { node: node.name, uid: node.uid, ...told.event } });
      }
    };
    tell(ofEpisode(node));
    tell(ofDuplicate(node, duplicates.has(node.name), nowMs));
    if (node !== known) nodes.set(node.name, node);
  }
  return effects;
}

interface Told {
  readonly node: ArbiterNode;
  readonly event?: Omit<NodeEvent, 'node' | 'uid'>;
}

/** The time is part of an Event's name: a stored one, so that whoever tells it twice meets its own. */
function ofEpisode(node: ArbiterNode): Told | undefined {
  const { phase, cause, episode, sinceMs } = node;
  if (episode === undefined) return undefined;
  const { write, announced = [] } = episode;
  const mark = (alert: string): ArbiterNode => ({
    ...node,
    episode: { ...episode, announced: [...announced, alert] },
  });
  if (phase === 'down' && write?.outcome === 'written' && !announced.includes('written')) {
    const { reason, message } = write;
    const event = {
      // A leaving host was expected.
      type: cause === 'leaving' ? 'Normal' : 'Warning',
      reason,
      message: `Ready is Unknown: ${message}`,
      atMs: episode.verdictAtMs ?? write.atMs,
    } as const;
    return { node: mark('written'), event };
  }
  const words = phase === 'watched' && cause !== undefined ? WATCHED[cause] : undefined;
  if (words === undefined || cause === undefined || announced.includes(cause)) return undefined;
  return { node: mark(cause), event: { type: 'Warning', ...words, atMs: sinceMs } };
}

/** It has no episode: told when it begins, and again only after it was over. */
function ofDuplicate(node: ArbiterNode, isDuplicate: boolean, nowMs: number): Told | undefined {
  const { duplicateSinceMs, ...rest } = node;
  if (isDuplicate === (duplicateSinceMs !== undefined)) return undefined;
  if (!isDuplicate) return { node: rest };
  const event = { type: 'Warning', ...DUPLICATE, atMs: nowMs } as const;
  return { node: { ...rest, duplicateSinceMs: nowMs }, event };
}

function duplicateNames({ reports, nodes }: ArbiterState): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { report } of reports.values()) {
    for (const { name, uid } of duplicatesIn(report.nodes)) if (nodes.get(name)?.uid === uid) names.add(name);
  }
  return names;
}

/** Looked for once a report: nearly always there are none. */
const found = new WeakMap<readonly ReportedNode[], readonly ReportedNode[]>();
function duplicatesIn(reported: readonly ReportedNode[]): readonly ReportedNode[] {
  let duplicates = found.get(reported);
  if (duplicates === undefined) {
    duplicates = reported.filter(({ duplicate }) => duplicate === true);
    found.set(reported, duplicates);
  }
  return duplicates;
}
