import { describe, expect, test } from 'vitest';
import { sightOf } from '../../worker/core/observer/sight.ts';
import { restore, type Snapshot } from '../../worker/core/observer/snapshot.ts';
import type { KeptNode, ObserverState } from '../../worker/core/observer/state.ts';
import { stepObserver, type ObserverStep } from '../../worker/core/observer/step.ts';
import { anObserver, heardNode, hears } from '../support/simulator/builders.ts';

/* What an observer stores, and what it remembers, when nodes beat over sockets that keep their last beat. */

const T = 1_000_000;

function stored(step: ObserverStep): Snapshot | undefined {
  return step.effects.flatMap((effect) => (effect.kind === 'store' ? [effect.snapshot] : []))[0];
}

function opens(state: ObserverState, name: string, nowMs: number): ObserverStep {
  return stepObserver(state, { kind: 'socket-opened', name }, nowMs);
}

function closes(state: ObserverState, name: string, nowMs: number): ObserverStep {
  return stepObserver(state, { kind: 'socket-closed', name }, nowMs);
}

/** What the sockets of these nodes keep now. */
function keptBy(state: ObserverState, ...names: readonly string[]): Map<string, KeptNode> {
  return new Map(names.map((name) => [name, { node: heardNode(state, name), jws: `jws of ${name}` }]));
}

function wake(
  state: ObserverState,
  snapshot: Snapshot | undefined,
  nowMs: number,
  kept?: Map<string, KeptNode>,
): ObserverState {
  return restore(state.identity, state.policy, snapshot, nowMs + 1_000, nowMs, kept);
}

/** A lone node that has beaten by its socket until `untilMs`, and all that was stored meanwhile. */
function aloneOnSocket(untilMs: number): { state: ObserverState; snapshots: readonly Snapshot[] } {
  const state = anObserver(['node-1', 'node-2'], T);
  const steps = [hears(state, 'node-1', T), opens(state, 'node-1', T)];
  for (let ms = T + 10_000; ms <= untilMs; ms += 10_000) steps.push(hears(state, 'node-1', ms));
  return { state, snapshots: steps.flatMap((step) => stored(step) ?? []) };
}

describe('what is stored', () => {
  test('a lone node on a socket costs no row a beat', () => {
    const { snapshots } = aloneOnSocket(T + 200_000);
    expect(snapshots.length).toBeLessThanOrEqual(2);
    expect(snapshots.at(-1)).toMatchObject({ complete: false, completeWith: ['node-1'] });
  });

  test('the same node without a socket costs one each', () => {
    const state = anObserver(['node-1'], T);
    let rows = 0;
    for (let ms = T; ms < T + 200_000; ms += 10_000) rows += stored(hears(state, 'node-1', ms)) ? 1 : 0;
    expect(rows).toBe(20);
  });

  test('a node beside it that beats by HTTPS takes the promise back', () => {
    const { state } = aloneOnSocket(T + 50_000);
    expect(stored(hears(state, 'node-2', T + 50_500))).toBeDefined();
  });

  test('the end of a socket stores what only it has kept, once the object may sleep', () => {
    const { state } = aloneOnSocket(T + 50_000);
    const snapshot = stored(closes(state, 'node-1', T + 50_100));
    expect(snapshot).toMatchObject({ complete: true });
    expect(snapshot?.completeWith).toBeUndefined();
    expect(snapshot?.nodes[0]?.[1].heardAtMs).toBe(T + 50_000);
  });

  test('a node that leaves the registry is kept by nobody', () => {
    const { state } = aloneOnSocket(T + 50_000);
    stepObserver(state, { kind: 'registry', registry: { version: 2, nodes: [] } }, T + 51_000);
    expect([...state.kept]).toEqual([]);
  });

  test('a socket of a node that was never heard keeps nothing', () => {
    const state = anObserver(['node-1'], T);
    opens(state, 'node-1', T);
    expect([...state.kept]).toEqual([]);
  });
});

describe('what is remembered after sleep', () => {
  test('the last beat, though no row has it, and that nothing was missed', () => {
    const { state, snapshots } = aloneOnSocket(T + 50_000);
    const woken = wake(state, snapshots.at(-1), T + 60_000, keptBy(state, 'node-1'));
    expect(woken.listeningSinceMs).toBe(state.listeningSinceMs);
    expect(woken.startedAtMs).toBe(state.startedAtMs);
    expect(heardNode(woken, 'node-1').heardAtMs).toBe(T + 50_000);
    expect(woken.proofs.get('node-1')).toBe('jws of node-1');
    expect(sightOf(woken, heardNode(woken, 'node-1'), T + 72_500)).toBe('silent');
    // And it goes on without a row.
    expect(stored(hears(woken, 'node-1', T + 60_000))).toBeUndefined();
  });

  test.for<{ name: string; kept: (state: ObserverState) => Map<string, KeptNode> }>([
    { name: 'the socket is gone with what it kept', kept: () => new Map() },
    {
      name: 'the socket is one of another instance of the node',
      kept: (state) => {
        const node = { ...heardNode(state, 'node-1'), uid: 'another' };
        return new Map([['node-1', { node, jws: '' }]]);
      },
    },
  ])('it listens anew when $name', ({ kept }) => {
    const { state, snapshots } = aloneOnSocket(T + 50_000);
    const woken = wake(state, snapshots.at(-1), T + 60_000, kept(state));
    expect(woken.listeningSinceMs).toBe(T + 60_000);
    expect(sightOf(woken, heardNode(woken, 'node-1'), T + 72_500)).toBe('listening');
  });

  test('code that does not know of sockets listens anew', () => {
    const { snapshots } = aloneOnSocket(T + 50_000);
    expect(snapshots.at(-1)?.complete).toBe(false);
  });

  test('a beat that came another way since is the newer one', () => {
    const { state } = aloneOnSocket(T + 20_000);
    const kept = keptBy(state, 'node-1');
    hears(state, 'node-1', T + 25_000);
    const snapshot = stored(closes(state, 'node-1', T + 25_100));
    const woken = wake(state, snapshot, T + 30_000, kept);
    expect(heardNode(woken, 'node-1').heardAtMs).toBe(T + 25_000);
    expect(woken.proofs.has('node-1')).toBe(false);
  });

  test('nodes stay in the order of their last beat, which deadlines are found by', () => {
    const state = anObserver(['node-1', 'node-2', 'node-3'], T);
    for (const name of ['node-1', 'node-2', 'node-3']) hears(state, name, T);
    const snapshot = stored(stepObserver(state, { kind: 'registry', registry: state.registry }, T + 1_000));
    opens(state, 'node-1', T + 2_000);
    hears(state, 'node-1', T + 5_000);
    const woken = wake(state, snapshot, T + 6_000, keptBy(state, 'node-1'));
    expect([...woken.nodes.keys()]).toEqual(['node-2', 'node-3', 'node-1']);
  });

  test('a clock that was set back meanwhile leaves no beat in the future', () => {
    const { state, snapshots } = aloneOnSocket(T + 200_000);
    const woken = wake(state, snapshots.at(-1), T + 100_000, keptBy(state, 'node-1'));
    expect(heardNode(woken, 'node-1').heardAtMs).toBe(T + 100_000);
    expect(woken.listeningSinceMs).toBe(T + 100_000);
  });
});
