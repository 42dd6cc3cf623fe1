import { describe, expect, test } from 'vitest';
import type { InventoryNode } from '../../worker/core/cluster-port.ts';
import { isPaused, learn, pauseOf, registryFor, takeInventory } from '../../worker/core/arbiter/inventory.ts';
import { anArbiter, keyOf, nodeOf } from '../support/simulator/builders.ts';

const T = 1_800_000_000_000;
const KEY = 'farpulse/beacon-key';

function listed(
  name: string,
  annotations: Record<string, string> = { [KEY]: keyOf(name) },
  uid = `uid-${name}`,
): InventoryNode {
  return { name, uid, labels: {}, annotations };
}

describe('a Node of the inventory', () => {
  test('without a key is unenrolled', () => {
    const state = anArbiter([], T);
    learn(state, listed('node-1', {}), T);
    expect(nodeOf(state, 'node-1').phase).toBe('unenrolled');
  });

  test('that lost its key becomes unenrolled, and its old key is known for a day', () => {
    const state = anArbiter(['node-1'], T);
    learn(state, listed('node-1', {}), T);
    expect(nodeOf(state, 'node-1')).toMatchObject({ phase: 'unenrolled', keys: [] });
    const oldKeysAt = (ms: number) => registryFor(state, 0, ms).nodes[0]?.oldKeys?.map((key) => key.x);
    expect(oldKeysAt(T + 86_399_999)).toEqual([keyOf('node-1')]);
    expect(oldKeysAt(T + 86_400_000)).toEqual([]);
  });

  test('with a new uid is a new node: nothing of the old one stays', () => {
    const state = anArbiter(['node-1'], T);
    state.nodes.set('node-1', { ...nodeOf(state, 'node-1'), phase: 'down' });
    learn(state, listed('node-1', undefined, 'uid-new'), T);
    expect(nodeOf(state, 'node-1')).toMatchObject({ uid: 'uid-new', phase: 'new' });
  });

  test('with a key that another Node names already does not get it', () => {
    const state = anArbiter(['node-1'], T);
    learn(state, listed('node-2', { [KEY]: keyOf('node-1') }), T);
    expect(nodeOf(state, 'node-2').keys).toEqual([]);
    expect(nodeOf(state, 'node-1').keys).toHaveLength(1);
  });

  test('with a changed key changes the registry, one that is only listed again does not', () => {
    const state = anArbiter(['node-1'], T);
    const before = state.registryVersion;
    learn(state, listed('node-1'), T);
    expect(state.registryVersion).toBe(before);
    learn(state, listed('node-1', { [KEY]: keyOf('other') }), T);
    expect(state.registryVersion).toBe(before + 1);
  });
});

describe('a list', () => {
  const names = (count: number) => Array.from({ length: count }, (_, i) => `node-${i}`);

  test.for([
    { name: 'that lacks one node is taken', known: 10, lacks: 1, kind: 'taken' },
    { name: 'that lacks two of ten is refused', known: 10, lacks: 2, kind: 'refused' },
    { name: 'that lacks five of a hundred is taken', known: 100, lacks: 5, kind: 'taken' },
    { name: 'that lacks six of a hundred is refused', known: 100, lacks: 6, kind: 'refused' },
    { name: 'that is empty is refused', known: 3, lacks: 3, kind: 'refused' },
  ])('$name', ({ known, lacks, kind }) => {
    const state = anArbiter(names(known), T);
    const verdict = takeInventory(
      state,
      names(known)
        .slice(lacks)
        .map((name) => listed(name)),
      T,
    );
    expect(verdict.kind).toBe(kind);
    // Whoever is missing is asked for by its own GET, before it is believed to be gone.
    expect(state.nodes.size).toBe(known);
  });

  test('names the missing ones', () => {
    const state = anArbiter(['node-1', 'node-2'], T);
    expect(takeInventory(state, [listed('node-2')], T)).toEqual({ kind: 'taken', missing: ['node-1'] });
  });
});

describe('a pause', () => {
  test.for([
    {
      name: 'with an end holds until then',
      text: 'until=2027-01-15T08:00:00Z reason=disk swap',
      untilMs: 1_800_000_000_000,
      reason: 'disk swap',
    },
    {
      name: 'without an end holds until it is taken off',
      text: 'waiting for parts',
      untilMs: null,
      reason: 'waiting for parts',
    },
    {
      name: 'with an end that is no time holds until it is taken off',
      text: 'until=soon reason=x',
      untilMs: null,
      reason: 'x',
    },
  ])('$name', ({ text, untilMs, reason }) => {
    expect(pauseOf({ 'farpulse/pause': text })).toEqual({ untilMs, reason });
  });

  test('is over when its end has come', () => {
    const state = anArbiter(['node-1'], T);
    const node = { ...nodeOf(state, 'node-1'), paused: { untilMs: T, reason: '' } };
    expect(isPaused(node, T - 1)).toBe(true);
    expect(isPaused(node, T)).toBe(false);
  });

  test('for ever is asked for by the ignore annotation', () => {
    expect(pauseOf({ 'farpulse/ignore': 'true' })?.untilMs).toBeNull();
    expect(pauseOf({ 'farpulse/ignore': 'false' })).toBeUndefined();
  });
});
