import type { Cause, ClusterStatus, NodeStatus, Phase } from '../../core/arbiter/view.ts';

/*
 * How states are said on the page. Every state has a word and a sign of its own, so that colour only helps.
 */

/** How a thing is toned: only these four colours mean anything. */
export type Tone = 'bad' | 'warn' | 'info' | 'good';

export interface Word {
  readonly sign: string;
  readonly text: string;
  readonly tone: Tone;
}

/** In the order in which people should look. */
export const PHASE_WORDS: Readonly<Record<Phase, Word>> = {
  down: { sign: '✕', text: 'Down', tone: 'bad' },
  suspect: { sign: '?', text: 'Suspect', tone: 'warn' },
  watched: { sign: '◎', text: 'Watched', tone: 'warn' },
  leaving: { sign: '→', text: 'Leaving', tone: 'info' },
  paused: { sign: '‖', text: 'Paused', tone: 'info' },
  new: { sign: '◌', text: 'New', tone: 'info' },
  unenrolled: { sign: '–', text: 'Unenrolled', tone: 'info' },
  alive: { sign: '●', text: 'Alive', tone: 'good' },
};

export const STATE_WORDS: Readonly<Record<ClusterStatus['state'], Word>> = {
  judging: { sign: '●', text: 'Judging', tone: 'good' },
  hold: { sign: '‖', text: 'Hold: nothing is written', tone: 'bad' },
  'cool-down': { sign: '◌', text: 'Cooling down: nothing is written yet', tone: 'warn' },
  'cannot-see': { sign: '?', text: 'Cannot see: nothing is judged', tone: 'bad' },
  'breaker-open': { sign: '✕', text: 'Breaker open: nothing is written', tone: 'bad' },
};

export const MODE_WORDS: Readonly<Record<ClusterStatus['mode'], string>> = {
  observe: 'observe: decides, writes nothing',
  external: 'external: writes Ready=Unknown',
  compat: 'compat: writes Ready=Unknown and marks pods',
};

const CAUSE_WORDS: Readonly<Record<Cause, string>> = {
  'host-silent': 'host silent',
  'kubelet-down': 'kubelet down',
  leaving: 'leaving',
  'beacon-lost': 'beacon lost',
  'api-path-cut': 'API path cut',
  'edge-path-cut': 'path to the edge cut',
  contradicted: 'contradicted by the kubelet',
  'refused-beats': 'beats refused',
  'duplicate-identity': 'duplicate identity',
  reboot: 'reboot',
};

export function causeWord(cause: Cause): string {
  return CAUSE_WORDS[cause];
}

/** Whether a node needs no words: its kind is shown as a plain list. */
export function isQuiet(node: NodeStatus): boolean {
  return (
    node.cause === undefined &&
    (node.phase === 'alive' || node.phase === 'new' || node.phase === 'unenrolled')
  );
}

const PHASE_ORDER = Object.keys(PHASE_WORDS);

/** What needs looking at first, then the newest, then by name. A node that is alive with a cause comes after the suspects. */
export function byUrgency(a: NodeStatus, b: NodeStatus): number {
  const rank = ({ phase }: NodeStatus): number => (phase === 'alive' ? 1.5 : PHASE_ORDER.indexOf(phase));
  return rank(a) - rank(b) || b.sinceMs - a.sinceMs || byName(a, b);
}

const NAMES = new Intl.Collator('en', { numeric: true });

/** node-2 before node-10. */
export function byName(a: { readonly name: string }, b: { readonly name: string }): number {
  return NAMES.compare(a.name, b.name);
}

/** A length of time in the coarsest unit that still says enough. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} d`;
}

/** A moment of today as people write it into an incident's timeline. */
export function clock(epochMs: number): string {
  return `${new Date(epochMs).toISOString().slice(11, 19)} UTC`;
}

const MAX_TEXT_LENGTH = 300;

/**
 * Text that came from a node or a cluster, made fit to show: cut, and without control and formatting characters, which
 * could turn the line around it (Unicode TR36, 2.5). Escaping is JSX's part.
 */
export function shown(text: string, maxLength = MAX_TEXT_LENGTH): string {
  const plain = text.replace(/[\p{Cc}\p{Cf}]/gu, ' ');
  return plain.length <= maxLength ? plain : `${plain.slice(0, maxLength - 1)}…`;
}
