import { describe, expect, test } from 'vitest';
import { learn } from '../../worker/core/arbiter/inventory.ts';
import { takeLeases } from '../../worker/core/arbiter/leases.ts';
import type { ArbiterState } from '../../worker/core/arbiter/state.ts';
import { statusOf } from '../../worker/core/arbiter/status.ts';
import { stepArbiter } from '../../worker/core/arbiter/step.ts';
import { anArbiter, keyOf, nodeOf } from '../support/simulator/builders.ts';

const T = 1_800_000_000_000;
const LOOK_MS = 20_000;
const NAMES = ['node-1', 'node-2', 'node-3', 'node-4', 'node-5'];

/** Five nodes without beacons, whose Leases have moved until T. */
function pulsing(over: Parameters<typeof anArbiter>[2] = {}): ArbiterState {
  const state = anArbiter([], T - 60_000, { watchUnenrolled: true, ...over });
  for (const name of NAMES) {
    learn(state, { name, uid: `uid-${name}`, labels: {}, annotations: {} }, T - 60_000);
  }
  for (const ms of [-40_000, -20_000, 0]) list(state, T + ms, []);
  return state;
}

/** One list of all Leases. Those named stand still since T. */
function list(
  state: ArbiterState,
  nowMs: number,
  still: readonly string[],
  absent: readonly string[] = [],
): void {
  const leases = NAMES.filter((name) => !absent.includes(name)).map((node) => ({
    node,
    renewTimeMs: (still.includes(node) ? T : nowMs) - 3_000,
  }));
  takeLeases(state, leases, nowMs);
}

/** So many lists, 20 s apart. */
function lists(state: ArbiterState, count: number, still: readonly string[], everyMs = LOOK_MS): number {
  for (let i = 1; i <= count; i += 1) list(state, T + i * everyMs, still);
  return T + count * everyMs;
}

function stillForMs(state: ArbiterState, name: string): number | undefined {
  return state.memory.leases.get(name)?.stillForMs;
}

describe('a Lease that stands still', () => {
  test.for([
    { name: 'counts while all the others move', still: ['node-1'], forMs: 60_000 },
    { name: 'counts while half of the others move', still: ['node-1', 'node-2', 'node-3'], forMs: 60_000 },
    { name: 'does not while most others stand still', still: NAMES.slice(0, 4), forMs: 0 },
    { name: 'does not while all stand still: it is the list', still: NAMES, forMs: 0 },
  ])('$name', ({ still, forMs }) => {
    const state = pulsing();
    lists(state, 3, still);
    expect(stillForMs(state, 'node-1')).toBe(forMs);
  });

  test('does not count the time in which nobody looked', () => {
    const state = pulsing();
    lists(state, 3, ['node-1'], 50_000);
    expect(stillForMs(state, 'node-1')).toBe(0);
  });

  test('begins anew when it has moved', () => {
    const state = pulsing();
    lists(state, 2, ['node-1']);
    list(state, T + 60_000, []);
    expect(stillForMs(state, 'node-1')).toBeUndefined();
  });
});

describe('a node without a beacon', () => {
  function phaseAt(state: ArbiterState, nowMs: number): { phase: string; why: string } {
    stepArbiter(state, { kind: 'tick' }, nowMs);
    const { phase, why } = statusOf(state, nowMs).nodes[0] ?? { phase: '', why: '' };
    return { phase, why };
  }

  test.for<{
    readonly name: string;
    readonly over?: Parameters<typeof anArbiter>[2];
    readonly lists: number;
    readonly still?: readonly string[];
    readonly arrange?: (state: ArbiterState) => void;
    readonly phase: string;
    readonly why?: RegExp;
  }>([
    { name: 'is left alone for a minute', lists: 2, phase: 'unenrolled' },
    { name: 'is suspect after it, and asked for like everybody', lists: 3, phase: 'suspect' },
    {
      name: 'is suspect and not judged, when most others stand still too',
      lists: 4,
      still: NAMES.slice(0, 4),
      phase: 'suspect',
      why: /and so do those of most others/,
    },
    {
      name: 'is left alone where that is not configured',
      over: { watchUnenrolled: false },
      lists: 9,
      phase: 'unenrolled',
    },
    {
      name: 'is left alone when its Lease was never seen to move',
      lists: 9,
      arrange: ({ memory }) =>
        (memory.leases = new Map([...memory.leases].filter(([name]) => name !== 'node-1'))),
      phase: 'unenrolled',
    },
    {
      name: 'is left alone when it is paused',
      lists: 9,
      arrange: (state) => {
        state.nodes.set('node-1', { ...nodeOf(state, 'node-1'), paused: { untilMs: null, reason: 'disk' } });
      },
      phase: 'unenrolled',
    },
  ])('$name', ({ over, lists: count, still = ['node-1'], arrange, phase, why }) => {
    const state = pulsing(over);
    arrange?.(state);
    const nowMs = lists(state, count, still);
    const found = phaseAt(state, nowMs);
    expect(found.phase).toBe(phase);
    if (why !== undefined) expect(found.why).toMatch(why);
  });

  test('is asked for by a list every 20 s, and no list is wanted when all have beacons', () => {
    const asks = (state: ArbiterState, nowMs: number): boolean =>
      stepArbiter(state, { kind: 'tick' }, nowMs).effects.some(({ kind }) => kind === 'list-leases');
    expect(asks(pulsing(), T + LOOK_MS - 1)).toBe(false);
    expect(asks(pulsing(), T + LOOK_MS)).toBe(true);
    expect(asks(anArbiter(NAMES, T, { watchUnenrolled: true }), T + LOOK_MS)).toBe(false);
  });

  test.for([
    { name: 'whose Lease moves again is unenrolled again', still: [] as string[], absent: [] as string[] },
    { name: 'whose Lease is gone is unenrolled again', still: ['node-1'], absent: ['node-1'] },
  ])('that is suspect and $name', ({ still, absent }) => {
    const state = pulsing();
    expect(phaseAt(state, lists(state, 3, ['node-1'])).phase).toBe('suspect');
    list(state, T + 80_000, still, absent);
    expect(phaseAt(state, T + 80_000).phase).toBe('unenrolled');
  });

  test('that is suspect and enrols begins anew, by its beats', () => {
    const state = pulsing();
    phaseAt(state, lists(state, 3, ['node-1']));
    const annotations = { 'farpulse/beacon-key': keyOf('node-1') };
    learn(state, { name: 'node-1', uid: 'uid-node-1', labels: {}, annotations }, T + 61_000);
    expect(nodeOf(state, 'node-1')).toMatchObject({ phase: 'new' });
    expect(nodeOf(state, 'node-1').episode).toBeUndefined();
  });

  test('stays suspect when its Node is read: it still has no key', () => {
    const state = pulsing();
    phaseAt(state, lists(state, 3, ['node-1']));
    learn(state, { name: 'node-1', uid: 'uid-node-1', labels: {}, annotations: {} }, T + 61_000);
    expect(nodeOf(state, 'node-1').phase).toBe('suspect');
  });
});
