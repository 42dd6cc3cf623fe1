// Lists that cannot be whole, as an arbiter meets them: an API server that has lost its data, or was restored from an
// old backup. What a dead node becomes meanwhile is in `test/worker/api-trouble.test.ts`.
import { describe, expect, test } from 'vitest';
import { statusOf } from '../../worker/core/arbiter/status.ts';
import type { ArbiterState } from '../../worker/core/arbiter/state.ts';
import { stepArbiter, type ArbiterStep } from '../../worker/core/arbiter/step.ts';
import type { ClusterResult, InventoryNode } from '../../worker/core/cluster-port.ts';
import { allReport, anArbiter, keyOf, nodeOf, reported } from '../support/simulator/builders.ts';

const T = 1_800_000_000_000;
const NAMES = Array.from({ length: 10 }, (_, index) => `node-${index + 1}`);

function itemOf(name: string, over: Partial<InventoryNode> = {}): InventoryNode {
  return {
    name,
    uid: `uid-${name}`,
    labels: {},
    annotations: { 'farpulse/beacon-key': keyOf(name) },
    ...over,
  };
}

/** Ten nodes, listed and heard. */
function well(): ArbiterState {
  const state = anArbiter(NAMES, T);
  allReport(
    state,
    NAMES.map((name) => reported(name)),
    T,
  );
  listed(state, { kind: 'ok', value: NAMES.map((name) => itemOf(name)) }, T);
  return state;
}

function listed(
  state: ArbiterState,
  result: ClusterResult<readonly InventoryNode[]>,
  nowMs: number,
): ArbiterStep {
  return stepArbiter(state, { kind: 'listed', result }, nowMs);
}

function codes(state: ArbiterState, nowMs: number): string[] {
  return statusOf(state, nowMs).alerts.map(({ code }) => code);
}

describe('a list that', () => {
  test.for([
    { name: 'is empty', items: [], says: 'the list lacks 10 of 10 known Nodes' },
    {
      name: 'has only some of the Nodes',
      items: NAMES.slice(0, 6).map((name) => itemOf(name)),
      says: 'the list lacks 4 of 10 known Nodes',
    },
  ])('$name is refused and alerted; every node, its key and its phase stay', ({ items, says }) => {
    const state = well();
    const before = { version: state.registryVersion, nodes: structuredClone([...state.nodes]) };
    listed(state, { kind: 'ok', value: items }, T + 1_000);
    expect({ version: state.registryVersion, nodes: [...state.nodes] }).toEqual(before);
    expect(statusOf(state, T + 1_000).alerts).toEqual([
      { code: 'inventory-refused', sinceMs: T, message: says },
    ]);
    // The API server answers: that is another state.
    expect(state.api.state).toBe('ok');

    listed(state, { kind: 'ok', value: NAMES.map((name) => itemOf(name)) }, T + 31_000);
    expect(codes(state, T + 31_000)).toEqual([]);
  });

  test('breaks off between two pages is asked for again after 30 s, and nothing is taken from it', () => {
    const state = well();
    const before = structuredClone([...state.nodes]);
    state.askedListAtMs = T;
    delete state.listedAtMs;
    const { wakeAtMs } = listed(state, { kind: 'conflict', why: '410 Expired: too old' }, T + 1_000);
    expect([...state.nodes]).toEqual(before);
    expect(wakeAtMs).toBeLessThanOrEqual(T + 30_000);
    const { effects } = stepArbiter(state, { kind: 'tick' }, T + 30_000);
    expect(effects).toContainEqual({ kind: 'list' });
  });
});

describe('restored from an old backup, the API server', () => {
  test('no longer knows the newest Node: it is asked for by itself before that is believed', () => {
    const state = well();
    const { effects } = listed(
      state,
      { kind: 'ok', value: NAMES.slice(0, 9).map((name) => itemOf(name)) },
      T + 1_000,
    );
    expect(effects).toContainEqual({ kind: 'read', name: 'node-10', lease: true });
    expect(nodeOf(state, 'node-10').phase).toBe('alive');
  });

  test('names an older key: the newer one proves life for a day, and no beat becomes silence', () => {
    const state = well();
    const older = NAMES.map((name) => (name === 'node-1' ? itemOf(name, { annotations: {} }) : itemOf(name)));
    listed(state, { kind: 'ok', value: older }, T + 1_000);
    const node = nodeOf(state, 'node-1');
    expect(node.phase).toBe('unenrolled');
    expect(node.keys).toEqual([]);
    expect(node.oldKeys.map(({ key }) => key.x)).toEqual([keyOf('node-1')]);
  });

  test('knows an older instance of a Node: nothing of the newer one is held against it', () => {
    const state = well();
    const older = NAMES.map((name) =>
      name === 'node-1' ? itemOf(name, { uid: 'uid-of-before' }) : itemOf(name),
    );
    const { effects } = listed(state, { kind: 'ok', value: older }, T + 1_000);
    expect(nodeOf(state, 'node-1')).toMatchObject({ uid: 'uid-of-before', phase: 'new' });
    expect(effects.some(({ kind }) => kind === 'write')).toBe(false);
  });
});
