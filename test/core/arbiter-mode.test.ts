import { describe, expect, test } from 'vitest';
import { checkMode } from '../../worker/cluster/check-mode.ts';
import { suspect, intend, written } from '../../worker/core/arbiter/episode.ts';
import type { ModeFinding } from '../../worker/core/arbiter/mode.ts';
import type { ArbiterState } from '../../worker/core/arbiter/state.ts';
import { statusOf } from '../../worker/core/arbiter/status.ts';
import { stepArbiter, type ArbiterEffect } from '../../worker/core/arbiter/step.ts';
import type {
  ClusterFailure,
  ClusterPort,
  ConditionStatus,
  NodeCopy,
  PodCopy,
} from '../../worker/core/cluster-port.ts';
import { aCopy, allReport, anArbiter, nodeOf, reported, silent } from '../support/simulator/builders.ts';

const T = 1_800_000_000_000;
const NAMES = ['node-1', 'node-2', 'node-3', 'node-4', 'node-5'];

/** These nodes were written at T, and are silent. */
function writtenAt(names: readonly string[], over: Parameters<typeof anArbiter>[2] = {}): ArbiterState {
  const state = anArbiter(NAMES, T, over);
  allReport(
    state,
    NAMES.map((name) => (names.includes(name) ? silent(name, 25_000) : reported(name))),
    T,
  );
  for (const name of names) {
    const node = suspect(state, nodeOf(state, name), 'host-silent', T - 25_000, T - 1_000);
    const intending = intend(state, node, 'host-silent', 'no beat', aCopy(name), {}, T);
    if (intending.intent === undefined) throw new Error('no intent');
    state.nodes.set(name, written(state, intending, intending.intent, T));
  }
  return state;
}

function looks(state: ArbiterState, nowMs: number): string[] {
  return lookedAt(stepArbiter(state, { kind: 'tick' }, nowMs).effects);
}

function lookedAt(effects: readonly ArbiterEffect[]): string[] {
  return effects.flatMap((effect) => (effect.kind === 'check-mode' ? [effect.name] : []));
}

function found(state: ArbiterState, name: string, finding: ModeFinding, nowMs: number): string[] {
  return lookedAt(stepArbiter(state, { kind: 'mode-checked', name, finding }, nowMs).effects);
}

function codes(state: ArbiterState, nowMs: number): string[] {
  return statusOf(state, nowMs).alerts.map(({ code }) => code);
}

describe('the pods of a node that we wrote are looked at', () => {
  test('15 s after the write, one node at a time', () => {
    const state = writtenAt(['node-1', 'node-2']);
    expect(looks(state, T + 14_999)).toEqual([]);
    expect(looks(state, T + 15_000)).toEqual(['node-1']);
    expect(looks(state, T + 15_100)).toEqual([]);
    expect(found(state, 'node-1', { kind: 'nothing-to-tell' }, T + 15_200)).toEqual(['node-2']);
  });

  test.for([{ mode: 'observe' }, { mode: 'compat' }] as const)('not in mode $mode', ({ mode }) => {
    expect(looks(writtenAt(['node-1'], { mode }), T + 20_000)).toEqual([]);
  });
});

describe('what the look finds', () => {
  test.for<{
    readonly name: string;
    readonly finding: ModeFinding;
    readonly alerts: readonly string[];
    readonly state: string;
    /** Whose pods are looked at next, 15 s later. */
    readonly next: readonly string[];
  }>([
    {
      name: 'a pod that a controller marked: it listens, and nobody else written by then is looked at',
      finding: { kind: 'marked' },
      alerts: [],
      state: 'judging',
      next: [],
    },
    {
      name: 'no pod that could tell: the next node is looked at',
      finding: { kind: 'nothing-to-tell' },
      alerts: [],
      state: 'judging',
      next: ['node-2'],
    },
    {
      name: 'pods that are all Ready: alert, hold, and a second look',
      finding: { kind: 'untouched' },
      alerts: ['wrong-mode'],
      state: 'hold',
      next: ['node-1'],
    },
    {
      name: 'that it may not look: told, and writes go on',
      finding: { kind: 'failed', why: '403 Forbidden' },
      alerts: ['mode-unchecked'],
      state: 'judging',
      next: ['node-1'],
    },
  ])('$name', ({ finding, alerts, state: clusterState, next }) => {
    const state = writtenAt(['node-1', 'node-2']);
    looks(state, T + 15_000);
    const at = found(state, 'node-1', finding, T + 15_500);
    expect(codes(state, T + 15_500).filter((code) => code.includes('mode'))).toEqual(alerts);
    expect(statusOf(state, T + 15_500).state).toBe(clusterState);
    if (at.includes('node-2')) found(state, 'node-2', { kind: 'nothing-to-tell' }, T + 15_600);
    const later = [...at.filter((name) => next.includes(name)), ...looks(state, T + 30_500)];
    expect(later).toEqual(next);
  });

  test('the hold ends when a later look finds that the controller acts', () => {
    const state = writtenAt(['node-1']);
    looks(state, T + 15_000);
    found(state, 'node-1', { kind: 'untouched' }, T + 15_500);
    looks(state, T + 30_500);
    found(state, 'node-1', { kind: 'marked' }, T + 30_900);
    expect(state.modeHold).toBeUndefined();
    expect(codes(state, T + 31_000)).not.toContain('wrong-mode');
  });

  test('it is looked again for five minutes, then only the operator ends the hold', () => {
    const state = writtenAt(['node-1']);
    let looksTaken = 0;
    for (let ms = 15_000; ms < 900_000; ms += 15_000) {
      for (const name of looks(state, T + ms)) {
        looksTaken += 1;
        found(state, name, { kind: 'untouched' }, T + ms + 1);
      }
    }
    expect(looksTaken).toBe(20);
    expect(state.modeHold).toMatchObject({ sinceMs: T + 15_001, node: 'node-1' });
  });
});

describe('the hold for a wrong mode', () => {
  function held(): ArbiterState {
    const state = writtenAt(['node-1']);
    looks(state, T + 15_000);
    found(state, 'node-1', { kind: 'untouched' }, T + 15_500);
    return state;
  }

  test('is shown with its id, its node, and what to do', () => {
    const status = statusOf(held(), T + 16_000);
    expect(status.hold).toEqual({
      id: 'mode-hold-3',
      sinceMs: T + 15_500,
      nodes: ['node-1'],
      share: 0,
      kind: 'mode',
    });
    expect(status.alerts).toContainEqual(
      expect.objectContaining({
        code: 'wrong-mode',
        node: 'node-1',
        message: expect.stringContaining('--node-liveness-source=external') as string,
      }),
    );
  });

  test.for([
    { name: 'is released by its id', id: 'mode-hold-3', released: true },
    { name: 'is not released by another id', id: 'hold-3', released: false },
  ])('$name', ({ id, released }) => {
    const state = held();
    const { released: answer } = stepArbiter(state, { kind: 'release', holdId: id }, T + 60_000);
    expect(answer?.released).toBe(released);
    expect(state.modeHold === undefined).toBe(released);
    // The node that was found is not looked at again: only the next write is.
    if (released) expect(looks(state, T + 120_000)).toEqual([]);
  });

  test('is gone when another mode is configured', () => {
    const state = held();
    const configured = { ...state, settings: { ...state.settings, mode: 'compat' as const } };
    stepArbiter(configured, { kind: 'tick' }, T + 60_000);
    expect(configured.modeHold).toBeUndefined();
  });
});

describe('pods and Node, as read for the check', () => {
  const STAMP = '2027-01-15T08:00:00Z';
  const TARGET = { name: 'node-1', uid: 'uid-node-1', lastTransitionTime: STAMP };

  function aPod(ready: ConditionStatus | undefined, marked?: true): PodCopy {
    const base = { namespace: 'default', name: 'web', uid: 'u', resourceVersion: '1', ready };
    return { ...base, ...(marked && { marked }) };
  }

  function node(status: ConditionStatus, over: Partial<NodeCopy> = {}, lastTransitionTime = STAMP): NodeCopy {
    const ready = { status, reason: '', message: '', lastTransitionTime, lastHeartbeatTime: '' };
    return aCopy('node-1', { ready, ...over });
  }

  const FORBIDDEN = { kind: 'refused', status: 403, why: 'no' } as const;

  test.for<{
    readonly name: string;
    readonly pods: readonly PodCopy[] | ClusterFailure;
    readonly node?: NodeCopy | ClusterFailure;
    readonly kind: ModeFinding['kind'];
  }>([
    { name: 'one was marked', pods: [aPod('True'), aPod('False', true)], kind: 'marked' },
    { name: 'all are Ready, and the Node is still ours', pods: [aPod('True')], kind: 'untouched' },
    {
      name: 'one is Ready, another crashes all the time',
      pods: [aPod('True'), aPod('False')],
      kind: 'untouched',
    },
    { name: 'there are none', pods: [], kind: 'nothing-to-tell' },
    {
      name: 'none was Ready before',
      pods: [aPod('False'), aPod(undefined)],
      kind: 'nothing-to-tell',
    },
    {
      name: 'all are Ready, for the kubelet is back',
      pods: [aPod('True')],
      node: node('True'),
      kind: 'nothing-to-tell',
    },
    {
      name: 'all are Ready, and the Unknown is by somebody else',
      pods: [aPod('True')],
      node: node('Unknown', {}, '2027-01-15T09:00:00Z'),
      kind: 'nothing-to-tell',
    },
    {
      name: 'all are Ready, on another instance of the Node',
      pods: [aPod('True')],
      node: node('Unknown', { uid: 'uid-new' }),
      kind: 'nothing-to-tell',
    },
    {
      name: 'all are Ready, and the Node is gone',
      pods: [aPod('True')],
      node: { kind: 'not-found' },
      kind: 'nothing-to-tell',
    },
    { name: 'they may not be listed', pods: FORBIDDEN, kind: 'failed' },
    { name: 'the Node cannot be read', pods: [aPod('True')], node: FORBIDDEN, kind: 'failed' },
  ])('$name: $kind', async ({ pods, node: copy = node('Unknown'), kind }) => {
    const port = {
      listPods: () => Promise.resolve('kind' in pods ? pods : { kind: 'ok', value: pods }),
      readNode: () => Promise.resolve('kind' in copy ? copy : { kind: 'ok', value: copy }),
    } as unknown as ClusterPort;
    expect((await checkMode(port, TARGET)).kind).toBe(kind);
  });
});
