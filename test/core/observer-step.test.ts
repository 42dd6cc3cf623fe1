import { describe, expect, test } from 'vitest';
import { reportOf } from '../../worker/core/observer/report.ts';
import { sightOf } from '../../worker/core/observer/sight.ts';
import { restore, takeSnapshot, withReturns, type Snapshot } from '../../worker/core/observer/snapshot.ts';
import type { ObserverState } from '../../worker/core/observer/state.ts';
import { stepObserver, type ObserverEvent, type ObserverStep } from '../../worker/core/observer/step.ts';
import { aBeat, anObserver, heardNode, hears } from '../support/simulator/builders.ts';

const T = 1_000_000;

function kinds(step: ObserverStep): readonly string[] {
  return step.effects.map((effect) => effect.kind);
}

function stored(step: ObserverStep): Snapshot | undefined {
  return step.effects.flatMap((effect) => (effect.kind === 'store' ? [effect.snapshot] : []))[0];
}

/** Nodes that were stored on their own, and when they were heard. */
function returns(step: ObserverStep): readonly (readonly [string, number])[] {
  return step.effects.flatMap((effect) =>
    effect.kind === 'store-return' ? [[effect.name, effect.node.heardAtMs] as const] : [],
  );
}

function tick(state: ObserverState, nowMs: number): ObserverStep {
  return stepObserver(state, { kind: 'tick' }, nowMs);
}

/** A busy observer: ten nodes, a second apart, for some minutes; the first one is `node-0`. */
function busy(untilMs: number): ObserverState {
  const names = Array.from({ length: 10 }, (_, i) => `node-${i}`);
  const state = anObserver(names, T);
  for (let ms = T; ms < untilMs; ms += 1_000) hears(state, `node-${(ms / 1_000) % 10}`, ms);
  return state;
}

describe('snapshots and reports', () => {
  test('a beat on time costs neither', () => {
    const state = busy(T + 120_000);
    expect(kinds(hears(state, 'node-0', T + 120_000))).toEqual([]);
  });

  test('with a lone node, every beat is stored with itself, as complete', () => {
    const state = anObserver(['node-1'], T);
    for (let ms = T; ms < T + 50_000; ms += 10_000) hears(state, 'node-1', ms);
    expect(stored(hears(state, 'node-1', T + 50_000))).toMatchObject({ complete: true, atMs: T + 50_000 });
  });

  test('a beat after a promise of silence takes it back first', () => {
    const state = anObserver(['node-1', 'node-2'], T);
    hears(state, 'node-1', T + 100_000);
    tick(state, T + 100_001);
    expect(state.snapshot.complete).toBe(true);
    hears(state, 'node-2', T + 104_000);
    expect(state.snapshot.complete).toBe(false);
  });

  test('silence is reported at once', () => {
    const state = busy(T + 120_000);
    for (let ms = T + 120_000; ms < T + 132_000; ms += 1_000) {
      const name = `node-${(ms / 1_000) % 10}`;
      if (name !== 'node-0') hears(state, name, ms);
    }
    expect(kinds(tick(state, T + 131_999))).not.toContain('report');
    expect(kinds(tick(state, T + 132_000))).toContain('report');
  });

  test('the return of a node whose beat was missed is stored before it is acked', () => {
    const state = busy(T + 120_000);
    for (let ms = T + 121_000; ms < T + 135_000; ms += 1_000) {
      const name = `node-${(ms / 1_000) % 10}`;
      if (name !== 'node-0') hears(state, name, ms);
    }
    const step = hears(state, 'node-0', T + 135_000);
    expect(step.answer?.kind).toBe('recorded');
    expect(returns(step)).toEqual([['node-0', T + 135_000]]);
  });

  test('a return that was stored on its own is known after a crash, and lends its node no credit', () => {
    const state = busy(T + 120_000);
    for (let ms = T + 121_000; ms < T + 135_000; ms += 1_000) {
      const name = `node-${(ms / 1_000) % 10}`;
      if (name !== 'node-0') hears(state, name, ms);
    }
    const before = takeSnapshot(state, T + 134_000, false);
    const step = hears(state, 'node-0', T + 135_000);
    const rows = step.effects.flatMap((effect) =>
      effect.kind === 'store-return' ? [[effect.name, effect.node] as const] : [],
    );
    const whole = withReturns(before, new Map(rows));
    const restarted = restore(state.identity, state.policy, whole, undefined, T + 136_000);
    expect(heardNode(restarted, 'node-0')).toMatchObject({ heardAtMs: T + 135_000, creditMs: 0 });
    expect([...restarted.nodes.values()].map(({ heardAtMs }) => heardAtMs)).toEqual(
      [...restarted.nodes.values()].map(({ heardAtMs }) => heardAtMs).toSorted((a, b) => a - b),
    );
  });

  test('a thousand nodes that return together store a row each and a whole every three seconds', () => {
    const names = Array.from({ length: 1_000 }, (_, i) => `node-${i}`);
    const state = anObserver(names, T);
    for (const name of names) hears(state, name, T);
    for (let ms = T + 1_000; ms <= T + 60_000; ms += 1_000) tick(state, ms);
    const effects: string[] = [];
    names.forEach((name, i) => effects.push(...kinds(hears(state, name, T + 60_000 + i * 10))));
    expect(effects.filter((kind) => kind === 'store').length).toBeLessThanOrEqual(4);
    expect(effects.filter((kind) => kind === 'store-return').length).toBeGreaterThanOrEqual(996);
  });

  test('a thousand beats after a restart do not make a thousand snapshots', () => {
    const names = Array.from({ length: 1_000 }, (_, i) => `node-${i}`);
    const state = anObserver(names, T);
    for (const name of names) hears(state, name, T);
    const snapshot = stored(stepObserver(state, { kind: 'registry', registry: state.registry }, T + 1_000));
    const restarted = restore(state.identity, state.policy, snapshot, T + 5_000, T + 30_000);
    let stores = 0;
    names.forEach((name, i) => {
      stores += kinds(hears(restarted, name, T + 30_000 + i * 10)).filter((kind) => kind === 'store').length;
    });
    expect(stores).toBeLessThan(10);
  });

  test('a report is due about once a minute', () => {
    const state = busy(T + 60_000);
    let reports = 0;
    for (let ms = T + 60_000; ms < T + 360_000; ms += 1_000) {
      reports += kinds(hears(state, `node-${(ms / 1_000) % 10}`, ms)).filter(
        (kind) => kind === 'report',
      ).length;
    }
    expect(reports).toBe(5);
  });

  test('a changed sign is reported with its beat', () => {
    const state = busy(T + 60_000);
    const kubelet = { state: 'down', okThisBoot: true } as const;
    expect(kinds(hears(state, 'node-0', T + 60_000, { kubelet }))).toContain('report');
  });

  test('a check that fails is reported with its beat, one that goes on failing is not', () => {
    const state = busy(T + 60_000);
    const checks = [{ name: 'gpu', state: 'failed' }] as const;
    const first = hears(state, 'node-0', T + 60_000, { checks: [...checks] });
    expect(kinds(first)).toContain('report');
    const reported = reportOf(state, new Set(), T + 60_000).nodes.find(({ name }) => name === 'node-0');
    expect(reported?.checks).toEqual(checks);
    const again = hears(state, 'node-0', T + 61_000, {
      checks: [{ name: 'gpu', state: 'failed', why: 'as before' }],
    });
    expect(kinds(again)).not.toContain('report');
  });

  test('a node with a longer interval does not hide the lateness of another', () => {
    const state = anObserver(['node-1', 'node-2'], T);
    hears(state, 'node-1', T + 100_000, { intervalMs: 30_000 });
    const { wakeAtMs } = hears(state, 'node-2', T + 101_000);
    expect(wakeAtMs).toBeLessThanOrEqual(T + 112_000);
  });
});

describe('refusals', () => {
  test.for([
    { name: 'another uid', over: { uid: 'uid-of-another' }, code: 'wrong-uid' },
    { name: 'an interval far above the policy', over: { intervalMs: 31_000 }, code: 'bad-interval' },
    { name: 'a replay', over: { seq: 1 }, code: 'replayed' },
  ])('a beat with $name is answered with $code and leaves the last one as it was', ({ over, code }) => {
    const state = anObserver(['node-1'], T);
    hears(state, 'node-1', T + 10_000);
    expect(hears(state, 'node-1', T + 15_000, over).answer).toMatchObject({ kind: 'refused', code });
    expect(heardNode(state, 'node-1')).toMatchObject({ heardAtMs: T + 10_000, refused: { code } });
    expect(reportOf(state, new Set(), T + 16_000).nodes[0]?.refused).toEqual({ code, agoMs: 1_000 });
  });

  test('an old key is proof of life and no beat', () => {
    const state = anObserver(['node-1'], T);
    hears(state, 'node-1', T);
    const step = stepObserver(state, { kind: 'old-key', beat: aBeat('node-1', T + 9_000) }, T + 9_000);
    expect(step.answer).toMatchObject({ kind: 'refused', code: 'old-key' });
    expect(heardNode(state, 'node-1').heardAtMs).toBe(T);
  });

  test('strangers are told, by name, until the arbiter has heard of them', () => {
    const state = anObserver([], T);
    expect(kinds(stepObserver(state, { kind: 'stranger', name: 'node-9' }, T + 1))).toContain('report');
    expect(reportOf(state, new Set(), T + 2).strangers).toEqual(['node-9']);
    stepObserver(state, { kind: 'reported', ok: true }, T + 3);
    expect(reportOf(state, new Set(), T + 4).strangers).toEqual([]);
  });

  test('a node that left the registry, or came back as another, is forgotten', () => {
    const state = anObserver(['node-1', 'node-2'], T);
    for (const name of ['node-1', 'node-2']) hears(state, name, T);
    const nodes = [{ name: 'node-1', uid: 'uid-of-another', keys: [] }];
    stepObserver(state, { kind: 'registry', registry: { version: 2, nodes } }, T + 1);
    expect([...state.nodes.keys()]).toEqual([]);
  });
});

describe('after its memory was lost', () => {
  const EVENTS: readonly ObserverEvent[] = [{ kind: 'tick' }];

  /** Node 0 is silent since T + 110 s; the memory is lost later, with the snapshot of that moment. */
  function lateAt(snapshotMs: number): { state: ObserverState; snapshot: Snapshot } {
    const state = busy(T + 111_000);
    for (let ms = T + 111_000; ms < snapshotMs; ms += 1_000) {
      const name = `node-${(ms / 1_000) % 10}`;
      if (name !== 'node-0') hears(state, name, ms);
    }
    const snapshot = stored(stepObserver(state, { kind: 'registry', registry: state.registry }, snapshotMs));
    if (snapshot === undefined) throw new Error('nothing was stored');
    return { state, snapshot };
  }

  test.for([
    {
      name: 'a node is silent only after a full timeout of listening again',
      snapshotMs: T + 115_000,
      restartMs: T + 116_000,
      silentAfterMs: 22_000,
    },
    {
      name: 'a missed beat that was listened for before is credited',
      snapshotMs: T + 124_000,
      restartMs: T + 125_000,
      silentAfterMs: 8_000,
    },
    {
      name: 'the credit leaves at least the first retries and a second',
      snapshotMs: T + 131_000,
      restartMs: T + 131_500,
      silentAfterMs: 3_000,
    },
    {
      name: 'a snapshot older than an interval and five seconds is worth nothing',
      snapshotMs: T + 131_000,
      restartMs: T + 147_000,
      silentAfterMs: 22_000,
    },
  ])('$name', ({ snapshotMs, restartMs, silentAfterMs }) => {
    const { state, snapshot } = lateAt(snapshotMs);
    const restored = restore(state.identity, state.policy, snapshot, undefined, restartMs);
    const node = heardNode(restored, 'node-0');
    expect(sightOf(restored, node, restartMs + silentAfterMs - 1)).not.toBe('silent');
    expect(sightOf(restored, node, restartMs + silentAfterMs)).toBe('silent');
  });

  test('woken on time from a complete snapshot, it was only asleep', () => {
    const state = anObserver(['node-1'], T);
    for (let ms = T; ms < T + 50_000; ms += 10_000) hears(state, 'node-1', ms);
    const snapshot = stored(hears(state, 'node-1', T + 50_000));
    const restored = restore(state.identity, state.policy, snapshot, T + 72_000, T + 72_500);
    expect(restored.listeningSinceMs).toBe(state.listeningSinceMs);
    expect(sightOf(restored, heardNode(restored, 'node-1'), T + 72_500)).toBe('silent');
  });

  test('woken long after its alarm was due, it listens anew', () => {
    const state = anObserver(['node-1'], T);
    const snapshot = stored(hears(state, 'node-1', T));
    const restored = restore(state.identity, state.policy, snapshot, T + 11_000, T + 60_000);
    expect(restored.listeningSinceMs).toBe(T + 60_000);
  });

  test('an event long after the moment it should have woken at shows an own outage', () => {
    const state = busy(T + 60_000);
    for (const event of EVENTS) stepObserver(state, event, T + 100_000);
    expect(state.listeningSinceMs).toBe(T + 100_000);
  });

  test('the report says how much of the silence was listened to', () => {
    const { state, snapshot } = lateAt(T + 115_000);
    const restored = restore(state.identity, state.policy, snapshot, undefined, T + 116_000);
    const node = reportOf(restored, new Set(), T + 120_000).nodes.find(({ name }) => name === 'node-0');
    expect(node).toMatchObject({ heardAgoMs: 10_000, listenedForMs: 4_000 });
  });

  test('without a snapshot it knows nobody and judges nobody', () => {
    const state = anObserver(['node-1'], T);
    const restored = restore(state.identity, state.policy, undefined, undefined, T + 1_000);
    expect(reportOf(restored, new Set(), T + 60_000).nodes).toEqual([]);
  });
});
