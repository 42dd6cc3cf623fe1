import { describe, expect, test } from 'vitest';
import {
  intend,
  onCheck,
  onPodsMarked,
  onWritten,
  suspect,
  written,
} from '../../worker/core/arbiter/episode.ts';
import type { ArbiterNode, ArbiterState, KubeletSigns } from '../../worker/core/arbiter/state.ts';
import { aCopy, anArbiter, aRead, nodeOf } from '../support/simulator/builders.ts';

const T = 1_800_000_000_123;

function intending(over: Parameters<typeof anArbiter>[2] = {}): { state: ArbiterState; node: ArbiterNode } {
  const state = anArbiter(['node-1'], T, over);
  const node = suspect(state, nodeOf(state, 'node-1'), 'host-silent', T - 22_000, T);
  return {
    state,
    node: intend(state, node, 'host-silent', 'no beat', aCopy('node-1'), { renewTimeMs: 5 }, T),
  };
}

function down(over: Parameters<typeof anArbiter>[2] = {}): { state: ArbiterState; node: ArbiterNode } {
  const { state, node } = intending(over);
  if (node.intent === undefined) throw new Error('no intent');
  return { state, node: written(state, node, node.intent, T + 100) };
}

describe('an intent', () => {
  test('names the copy that was read, in whole seconds, with a reason of ours', () => {
    expect(intending().node.intent).toMatchObject({
      uid: 'uid-node-1',
      resourceVersion: '7',
      reason: 'FarpulseHostSilent',
      lastTransitionTime: '2027-01-15T08:00:00Z',
    });
  });

  test.for([
    {
      name: 'that was applied is a verdict',
      result: { kind: 'ok', value: {} },
      phase: 'down',
      intent: false,
      outcome: 'written',
    },
    {
      name: 'with a conflict is judged again',
      result: { kind: 'conflict', why: '' },
      phase: 'suspect',
      intent: false,
    },
    {
      name: 'for a Node that is gone is dropped',
      result: { kind: 'not-found' },
      phase: 'suspect',
      intent: false,
    },
    {
      name: 'without an answer stays, until a read tells',
      result: { kind: 'unreachable', why: '' },
      phase: 'suspect',
      intent: true,
    },
    {
      name: 'that the API server is too busy for stays too',
      result: { kind: 'busy', retryAfterMs: 1, why: '' },
      phase: 'suspect',
      intent: true,
    },
    {
      name: 'that was forbidden has failed',
      result: { kind: 'refused', status: 403, why: 'no' },
      phase: 'suspect',
      intent: false,
      outcome: 'failed',
    },
  ] as const)('$name', ({ result, phase, intent, ...over }) => {
    const { state, node } = intending();
    const next = onWritten(state, node, result, T + 100);
    expect({
      phase: next.phase,
      intent: next.intent !== undefined,
      outcome: next.episode?.write?.outcome,
    }).toEqual({
      phase,
      intent,
      outcome: 'outcome' in over ? over.outcome : undefined,
    });
  });
});

describe('the Node of a verdict, read again', () => {
  const ready = aCopy('node-1').ready;
  if (ready === undefined) throw new Error('no condition');
  const unknown = { ready: { ...ready, status: 'Unknown' } } as const;

  /** Written after a look at these signs. */
  function downWith(signs: KubeletSigns): ReturnType<typeof down> {
    const { state, node } = down();
    const { episode } = node;
    if (episode?.followUp === undefined) throw new Error('no follow-up');
    return { state, node: { ...node, episode: { ...episode, followUp: { ...episode.followUp, signs } } } };
  }
  const heartbeatTime = ready.lastHeartbeatTime;

  test.for([
    { name: 'with the same signs', signs: { renewTimeMs: 5, heartbeatTime } },
    { name: 'with a Lease that could not be read before', signs: { heartbeatTime } },
    { name: 'with no sign at all that could be read before', signs: {} },
  ])('that is still Unknown $name is looked at again later', ({ signs }) => {
    const { state, node } = downWith(signs);
    const next = onCheck(state, node, aRead('node-1', T + 12_000, 5, unknown), T + 12_000);
    expect(next).toMatchObject({
      phase: 'down',
      episode: { followUp: { checks: 1, checkDueAtMs: T + 72_000 } },
    });
  });

  test('that a live kubelet made True at once is a contradiction: watched, not written again', () => {
    const { state, node } = down();
    const next = onCheck(state, node, aRead('node-1', T + 12_000, 9), T + 12_000);
    expect(next).toMatchObject({
      phase: 'watched',
      cause: 'contradicted',
      lastEpisode: { returnedAtMs: T + 12_000 },
    });
    expect(state.contradictionsAtMs).toEqual([T + 12_000]);
    expect(state.breakerOpenUntilMs).toBeUndefined();
  });

  test.for([
    {
      name: 'moved its heartbeat time: its watch is broken',
      signs: { renewTimeMs: 5, heartbeatTime: 'before' },
    },
    { name: 'renewed its Lease', signs: { renewTimeMs: 4, heartbeatTime } },
  ])('that is Unknown while its kubelet $name is contradicted as well', ({ signs }) => {
    const { state, node } = downWith(signs);
    const next = onCheck(state, node, aRead('node-1', T + 12_000, 5, unknown), T + 12_000);
    expect(next).toMatchObject({ phase: 'watched', cause: 'contradicted' });
    expect(state.contradictionsAtMs).toEqual([T + 12_000]);
  });

  test.for([
    { name: 'stood still meanwhile is no second pulse', agoMs: 0, hasLease: false },
    { name: 'moved meanwhile is one', agoMs: 10_000, hasLease: true },
  ])('a Lease that $name of a live kubelet that made it True', ({ agoMs, hasLease }) => {
    const renewTimeMs = Date.parse(heartbeatTime);
    const { state, node } = downWith({ renewTimeMs: renewTimeMs - agoMs, heartbeatTime: 'before' });
    const next = onCheck(state, node, aRead('node-1', T + 12_000, renewTimeMs), T + 12_000);
    expect(next.watch?.hasLease).toBe(hasLease);
  });

  test.for([
    { name: 'two contradictions in ten minutes open the breaker', secondMs: T + 600_000, open: true },
    { name: 'two contradictions further apart do not', secondMs: T + 700_000, open: false },
  ])('$name', ({ secondMs, open }) => {
    const { state, node } = down();
    onCheck(state, node, aRead('node-1', T + 12_000, 9), T + 12_000);
    onCheck(state, node, aRead('node-1', secondMs, 10), secondMs);
    expect(state.breakerOpenUntilMs !== undefined).toBe(open);
  });

  test('that became True without any sign of its kubelet may be written again: a backup was restored', () => {
    const { state, node } = downWith({ renewTimeMs: 5, heartbeatTime });
    expect(onCheck(state, node, aRead('node-1', T + 12_000, 5), T + 12_000).phase).toBe('suspect');
    expect(state.contradictionsAtMs).toEqual([]);
  });
});

describe('pods in compat mode', () => {
  test('are marked in two passes, the second for pods bound meanwhile', () => {
    const { node } = down({ mode: 'compat' });
    expect(node.episode?.followUp).toMatchObject({ podPassesLeft: 2, podsDueAtMs: T + 100 });
    const once = onPodsMarked(node, 3, true, T + 1_000);
    expect(once.episode).toMatchObject({
      write: { podsMarked: 3 },
      followUp: { podPassesLeft: 1, podsDueAtMs: T + 31_000 },
    });
    expect(onPodsMarked(once, 1, true, T + 32_000).episode).toMatchObject({
      write: { podsMarked: 4 },
      followUp: { podPassesLeft: 0 },
    });
  });

  test('a failed pass is repeated soon', () => {
    const { node } = down({ mode: 'compat' });
    expect(onPodsMarked(node, 1, false, T + 1_000).episode?.followUp).toMatchObject({
      podPassesLeft: 2,
      podsDueAtMs: T + 6_000,
    });
  });

  test('are left alone in external mode', () => {
    expect(down().node.episode?.followUp?.podPassesLeft).toBe(0);
  });
});
