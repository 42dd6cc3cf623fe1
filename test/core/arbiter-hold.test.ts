import { describe, expect, test } from 'vitest';
import { COOL_DOWN_MS, openHold, release, tendHold, WAVE_QUIET_MS } from '../../worker/core/arbiter/hold.ts';
import { heardNodes } from '../../worker/core/arbiter/share.ts';
import type { ArbiterState } from '../../worker/core/arbiter/state.ts';
import { allReport, anArbiter, reported, silent } from '../support/simulator/builders.ts';

const T = 1_000_000;
const NAMES = Array.from({ length: 10 }, (_, i) => `node-${i}`);

/** So many of ten nodes are missing, as just polled. */
function tend(state: ArbiterState, missing: number, nowMs: number): void {
  const nodes = NAMES.map((name, i) => (i < missing ? silent(name, 60_000 + nowMs - T) : reported(name)));
  allReport(state, nodes, nowMs);
  state.memory.polledAtMs = nowMs;
  tendHold(state, heardNodes(state), nowMs);
}

function held(missing = 6): ArbiterState {
  const state = anArbiter(NAMES, T);
  openHold(state, NAMES.slice(0, missing), missing / 10, T);
  return state;
}

describe('a hold', () => {
  test('keeps its name while it grows', () => {
    const state = held(6);
    openHold(state, NAMES.slice(0, 8), 0.8, T + 1_000);
    expect(state.hold).toMatchObject({ id: 'hold-1', sinceMs: T, nodes: NAMES.slice(0, 8) });
  });

  test.for([
    { name: 'stays while 40 % are missing', missing: 4, forMs: 600_000, ended: false },
    { name: 'stays until fewer have been missing for a minute', missing: 3, forMs: 59_000, ended: false },
    { name: 'ends when fewer have been missing for a minute', missing: 3, forMs: 60_000, ended: true },
  ])('$name', ({ missing, forMs, ended }) => {
    const state = held();
    tend(state, missing, T + 10_000);
    tend(state, missing, T + 10_000 + forMs);
    expect(state.hold === undefined).toBe(ended);
    expect(state.coolDown !== undefined).toBe(ended);
  });

  test('starts its minute anew when more are missing in between', () => {
    const state = held();
    tend(state, 3, T + 10_000);
    tend(state, 5, T + 40_000);
    tend(state, 3, T + 50_000);
    tend(state, 3, T + 75_000);
    expect(state.hold).toBeDefined();
    tend(state, 3, T + 110_000);
    expect(state.hold).toBeUndefined();
  });

  test('does not count those as missing whose beat fell due after the poll', () => {
    const state = held();
    tend(state, 0, T + 10_000);
    const lastBeat = (nowMs: number): void => {
      allReport(
        state,
        NAMES.map((name) => reported(name, { heardAgoMs: 9_000 })),
        nowMs,
      );
      state.memory.polledAtMs = nowMs;
    };
    lastBeat(T + 66_000);
    // Another event, before the next poll: all of them have beaten since, and nobody has said so yet.
    tendHold(state, heardNodes(state), T + 70_000);
    expect(state.hold).toBeUndefined();
  });

  test('is released by its name only', () => {
    const state = held();
    expect(release(state, 'hold-7', T + 1_000).released).toBe(false);
    expect(state.hold).toBeDefined();
    expect(release(state, 'hold-1', T + 1_000).released).toBe(true);
    expect(state).toMatchObject({
      released: { nodes: NAMES.slice(0, 6) },
      coolDown: { untilMs: T + 1_000 + COOL_DOWN_MS },
    });
    expect(state.hold).toBeUndefined();
  });

  test('that was released holds a node again that has returned meanwhile', () => {
    const state = held();
    release(state, 'hold-1', T + 1_000);
    tend(state, 6, T + 10_000);
    expect(state.released?.nodes).toEqual(NAMES.slice(0, 6));
    tend(state, 2, T + 20_000);
    expect(state.released?.nodes).toEqual(NAMES.slice(0, 2));
    tend(state, 0, T + 30_000);
    expect(state.released).toBeUndefined();
  });

  test('opens when every region hears nobody at all', () => {
    const state = anArbiter(NAMES, T);
    allReport(
      state,
      NAMES.map((name) => silent(name, 60_000)),
      T,
    );
    for (const [id, stored] of state.reports) {
      state.reports.set(id, { ...stored, report: { ...stored.report, blind: 'hears-nobody' } });
    }
    tendHold(state, heardNodes(state), T);
    expect(state.hold).toMatchObject({ share: 1, nodes: NAMES });
  });
});

describe('the cool-down after it', () => {
  test('lasts until none of the wave has returned for two minutes', () => {
    const state = held();
    tend(state, 3, T);
    tend(state, 3, T + 60_000);
    expect(state.coolDown).toMatchObject({ wave: NAMES.slice(0, 3), untilMs: T + 60_000 + COOL_DOWN_MS });
    tend(state, 2, T + 150_000);
    expect(state.coolDown).toMatchObject({ wave: NAMES.slice(0, 2), quietSinceMs: T + 150_000 });
    tend(state, 2, T + 150_000 + WAVE_QUIET_MS - 1);
    expect(state.coolDown).toBeDefined();
    tend(state, 2, T + 150_000 + WAVE_QUIET_MS);
    expect(state.coolDown).toBeUndefined();
  });
});
