import { describe, expect, test } from 'vitest';
import { announce } from '../../worker/core/arbiter/announce.ts';
import type { ArbiterNode, ArbiterState, Episode } from '../../worker/core/arbiter/state.ts';
import { stepArbiter } from '../../worker/core/arbiter/step.ts';
import type { WriteStatus } from '../../worker/core/arbiter/view.ts';
import { allReport, amend, anArbiter, nodeOf, reported, silent } from '../support/simulator/builders.ts';

const T = 1_800_000_000_000;

const WRITE: WriteStatus = {
  outcome: 'written',
  atMs: T - 5,
  reason: 'FarpulseHostSilent',
  message: 'no beat',
};

function anEpisode(over: Partial<Episode> = {}): Episode {
  return {
    id: 'e1',
    node: 'node-1',
    uid: 'uid-node-1',
    cause: 'host-silent',
    lastBeatAtMs: T - 30_000,
    suspectAtMs: T - 8_000,
    verdictAtMs: T - 5_000,
    ...over,
  };
}

function withNode(
  node: Partial<ArbiterNode>,
  { duplicate = false, ...over }: Parameters<typeof anArbiter>[2] & { readonly duplicate?: boolean } = {},
): ArbiterState {
  const state = anArbiter(['node-1', 'node-2'], T, over);
  allReport(state, [reported('node-1', duplicate ? { duplicate } : {}), reported('node-2')], T);
  amend(state, 'node-1', { sinceMs: T - 1_000, ...node });
  return state;
}

const DOWN = { phase: 'down', cause: 'host-silent', episode: anEpisode({ write: WRITE }) } as const;

function watchedFor(cause: NonNullable<ArbiterNode['cause']>): Partial<ArbiterNode> {
  return { phase: 'watched', cause, episode: anEpisode() };
}

describe('an Event on the Node is told', () => {
  test.for<{
    readonly name: string;
    readonly node: Partial<ArbiterNode>;
    readonly over?: Parameters<typeof withNode>[1];
    readonly arrange?: (state: ArbiterState) => void;
    readonly says: string | undefined;
  }>([
    {
      name: 'when it was written, with the cause and the evidence',
      node: DOWN,
      says: `Warning FarpulseHostSilent Ready is Unknown: no beat ${T - 5_000}`,
    },
    {
      name: 'when it was written as leaving: no warning',
      node: {
        ...DOWN,
        cause: 'leaving',
        episode: anEpisode({ write: { ...WRITE, reason: 'FarpulseLeaving' } }),
      },
      says: `Normal FarpulseLeaving Ready is Unknown: no beat ${T - 5_000}`,
    },
    {
      name: 'when its beacon is lost',
      node: watchedFor('beacon-lost'),
      says: `Warning FarpulseBeaconLost no beats, but its kubelet shows life: is the beacon running, and can it reach the edge? ${T - 1_000}`,
    },
    {
      name: 'when the way to the edge is cut',
      node: watchedFor('edge-path-cut'),
      says: `Warning FarpulseEdgePathCut no beats, and a live kubelet took back what was written of another node: not written ${T - 1_000}`,
    },
    {
      name: 'when its kubelet contradicted',
      node: watchedFor('contradicted'),
      says: `Warning FarpulseContradicted its kubelet lives and took Unknown back: not written again before a new sign of life ${T - 1_000}`,
    },
    {
      name: 'when two machines beat with its key',
      node: { phase: 'alive' },
      over: { duplicate: true },
      says: `Warning FarpulseDuplicateIdentity two machines beat with its key: give one of them a key of its own ${T}`,
    },
    { name: 'never of a node that is alive', node: { phase: 'alive' }, says: undefined },
    { name: 'never of a suspect', node: { phase: 'suspect', episode: anEpisode() }, says: undefined },
    { name: 'never of refused beats alone', node: watchedFor('refused-beats'), says: undefined },
    {
      name: 'never of a verdict that somebody else wrote',
      node: { ...DOWN, episode: anEpisode() },
      says: undefined,
    },
    {
      name: 'never of a write that was not taken',
      node: { ...DOWN, episode: anEpisode({ write: { ...WRITE, outcome: 'failed' } }) },
      says: undefined,
    },
    { name: 'never in observe mode', node: DOWN, over: { mode: 'observe' }, says: undefined },
    { name: 'never without an API', node: DOWN, over: { hasApi: false }, says: undefined },
    {
      name: 'never while the API server is unreachable',
      node: DOWN,
      arrange: (state) => (state.api = { state: 'unreachable', sinceMs: T, retryAtMs: T, why: 'x' }),
      says: undefined,
    },
  ])('$name', ({ node, over = {}, arrange, says }) => {
    const state = withNode(node, over);
    arrange?.(state);
    const told = announce(state, T).map(({ event }) => {
      expect(event).toMatchObject({ node: 'node-1', uid: 'uid-node-1' });
      return `${event.type} ${event.reason} ${event.message} ${event.atMs}`;
    });
    expect(told).toEqual(says === undefined ? [] : [says]);
  });

  test.for([
    { name: 'a write', node: DOWN, over: {} },
    { name: 'a lost beacon', node: watchedFor('beacon-lost'), over: {} },
    { name: 'a duplicate', node: { phase: 'alive' as const }, over: { duplicate: true } },
  ])('once: $name, also by who has only what was stored', ({ node, over }) => {
    const state = withNode(node, over);
    expect(announce(state, T)).toHaveLength(1);
    const stored = JSON.parse(JSON.stringify([...state.nodes])) as [string, ArbiterNode][];
    expect(announce({ ...state, nodes: new Map(stored) }, T + 60_000)).toEqual([]);
  });

  test('again of another episode, and of another duplicate', () => {
    const state = withNode(DOWN, { duplicate: true });
    expect(announce(state, T)).toHaveLength(2);
    allReport(state, [reported('node-1')], T + 1_000);
    expect(announce(state, T + 1_000)).toEqual([]);
    allReport(state, [reported('node-1', { duplicate: true })], T + 2_000);
    amend(state, 'node-1', { episode: anEpisode({ id: 'e2', write: WRITE }) });
    expect(announce(state, T + 2_000)).toHaveLength(2);
  });

  test('once the API server is back, if it is still so', () => {
    const state = withNode(DOWN);
    state.api = { state: 'unreachable', sinceMs: T, retryAtMs: T, why: 'x' };
    expect(announce(state, T)).toEqual([]);
    state.api = { state: 'ok', sinceMs: T, retryAtMs: T };
    expect(announce(state, T + 1_000)).toHaveLength(1);
  });

  test('after everything a verdict asks for, and marked before it is sent', () => {
    const state = anArbiter(['node-1', 'node-2'], T);
    allReport(state, [silent('node-1', 30_000), reported('node-2')], T);
    amend(state, 'node-1', DOWN);
    const { effects } = stepArbiter(state, { kind: 'tick' }, T);
    expect(effects.at(-1)).toMatchObject({ kind: 'event' });
    expect(nodeOf(state, 'node-1').episode?.announced).toEqual(['written']);
  });
});
