import { describe, expect, test } from 'vitest';
import { deadByLease } from '../../worker/core/arbiter/leases.ts';
import { heardNodes } from '../../worker/core/arbiter/share.ts';
import type { LeasePulse } from '../../worker/core/arbiter/state.ts';
import { allReport, anArbiter, reported, silent } from '../support/simulator/builders.ts';

const T = 1_000_000;
const MISSING = ['node-1', 'node-2', 'node-3'];
const HEARD = ['node-4', 'node-5'];

/** A Lease that was seen to move so long ago, and is listed for so long. */
function pulse(movedAgoMs: number, listedForMs = 600_000): LeasePulse {
  return { renewTimeMs: 1, movedAtMs: T - movedAgoMs, firstSeenAtMs: T - listedForMs };
}

const STILL = pulse(130_000);
const MOVING = pulse(10_000);

describe('held nodes that are dead by their Leases', () => {
  test.for<{
    readonly name: string;
    readonly leases: Readonly<Record<string, LeasePulse>>;
    readonly heldForMs?: number;
    readonly heldNodes?: readonly string[];
    readonly noneHeard?: true;
    readonly dead: readonly string[];
  }>([
    {
      name: 'those whose Leases stood still while those of all heard nodes moved',
      leases: { 'node-1': STILL, 'node-2': MOVING, 'node-3': STILL, 'node-4': MOVING, 'node-5': MOVING },
      dead: ['node-1', 'node-3'],
    },
    {
      name: 'nobody, in the first five minutes of the hold',
      leases: { 'node-1': STILL, 'node-4': MOVING, 'node-5': MOVING },
      heldForMs: 299_000,
      dead: [],
    },
    {
      name: 'nobody whose Lease has stood still for less than two minutes',
      leases: { 'node-1': pulse(119_000), 'node-4': MOVING, 'node-5': MOVING },
      dead: [],
    },
    {
      name: 'nobody whose Lease is known for less than two minutes',
      leases: { 'node-1': pulse(60_000, 60_000), 'node-4': MOVING, 'node-5': MOVING },
      dead: [],
    },
    {
      name: 'nobody without a Lease',
      leases: { 'node-4': MOVING, 'node-5': MOVING },
      dead: [],
    },
    {
      name: 'nobody, when one heard node has a Lease that stands still: it may be the API server that does',
      leases: { 'node-1': STILL, 'node-4': MOVING, 'node-5': pulse(46_000) },
      dead: [],
    },
    {
      name: 'nobody, while nobody is heard',
      leases: { 'node-1': STILL, 'node-2': STILL, 'node-3': STILL, 'node-4': MOVING, 'node-5': MOVING },
      noneHeard: true,
      dead: [],
    },
    {
      name: 'nobody who is not held',
      leases: { 'node-1': STILL, 'node-2': STILL, 'node-4': MOVING, 'node-5': MOVING },
      heldNodes: ['node-2'],
      dead: ['node-2'],
    },
  ])('$name', ({ leases, heldForMs = 300_000, heldNodes = MISSING, noneHeard, dead }) => {
    const names = [...MISSING, ...HEARD];
    const state = anArbiter(names, T);
    const missing = noneHeard === true ? names : MISSING;
    allReport(
      state,
      names.map((name) => (missing.includes(name) ? silent(name, 400_000) : reported(name))),
      T,
    );
    state.hold = { id: 'hold-1', sinceMs: T - heldForMs, nodes: heldNodes, share: 0.6 };
    state.memory.leases = new Map(Object.entries(leases));
    expect(deadByLease(state, heardNodes(state), missing, T)).toEqual(dead);
  });

  test('nobody, where there is no hold', () => {
    const state = anArbiter(['node-1', 'node-4'], T);
    state.memory.leases = new Map([
      ['node-1', STILL],
      ['node-4', MOVING],
    ]);
    expect(deadByLease(state, heardNodes(state), ['node-1'], T)).toEqual([]);
  });
});
