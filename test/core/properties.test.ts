import * as fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { stepArbiter } from '../../worker/core/arbiter/step.ts';
import { timeoutMs, type Policy } from '../../worker/core/policy.ts';
import type { Report } from '../../protocol/report.ts';
import { PRESETS, Simulation, type SimulationOptions } from '../support/simulator/simulation.ts';
import {
  API_TROUBLES,
  NODE_TROUBLES,
  OWN_TROUBLES,
  plan,
  type Trouble,
} from '../support/simulator/trouble.ts';

/** A slow machine must not fail what only takes its time. */
vi.setConfig({ testTimeout: 120_000 });

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;

/** Everybody has joined and been listed, and the first reports are through. */
const WARM_UP_MS = 4 * MINUTE_MS;

const seed = fc.integer({ min: 1, max: 1_000_000 });
const preset = fc.constantFrom(...(Object.keys(PRESETS) as (keyof typeof PRESETS)[]));

function troubles(
  kinds: readonly Trouble['kind'][],
  withinMs: number,
  maxLength: number,
): fc.Arbitrary<Trouble[]> {
  const trouble = fc.record({
    kind: fc.constantFrom(...kinds),
    afterMs: fc.integer({ min: 0, max: withinMs }),
    forMs: fc.integer({ min: SECOND_MS, max: 5 * MINUTE_MS }),
    which: fc.nat({ max: 30 }),
  });
  return fc.array(trouble, { maxLength });
}

function policyOf(name: keyof typeof PRESETS, leases: boolean): Policy {
  return leases ? PRESETS[name] : { ...PRESETS[name], leaseEvidence: 'off' };
}

function simulate(options: SimulationOptions): Simulation {
  const simulation = new Simulation({ isFaithful: true, ...options });
  // Whatever is decided, it is decided with the breaker closed and no hold.
  const { onDecided } = simulation.arbiter;
  simulation.arbiter.onDecided = (patch) => {
    const { hold, breakerOpenUntilMs = 0 } = simulation.arbiter.state;
    expect(hold).toBeUndefined();
    expect(breakerOpenUntilMs).toBeLessThanOrEqual(simulation.nowMs + simulation.arbiter.clockOffsetMs);
    onDecided?.(patch);
  };
  simulation.run(WARM_UP_MS);
  return simulation;
}

/** fast-check prints the seed and the shrunk scenario when a property fails. */
function holds<T>(runs: number, arbitrary: fc.Arbitrary<T>, check: (value: T) => void): void {
  fc.assert(
    fc.property(arbitrary, (value) => check(value)),
    { numRuns: runs, endOnFailure: false },
  );
}

describe('what must never happen', () => {
  test('a node whose beats reach a quorum is not written, whatever befalls the others and ourselves', () => {
    const scenario = fc.record({
      seed,
      preset,
      leases: fc.boolean(),
      nodes: fc.integer({ min: 1, max: 8 }),
      shards: fc.constantFrom(1, 2),
      troubles: troubles([...NODE_TROUBLES, ...OWN_TROUBLES, ...API_TROUBLES], 8 * MINUTE_MS, 8),
    });
    holds(60, scenario, ({ leases, preset: name, troubles: all, ...options }) => {
      const simulation = simulate({ ...options, leases, policy: policyOf(name, leases) });
      const [spared, ...others] = simulation.machines;
      for (const trouble of all) plan(simulation, trouble, others);
      simulation.run(16 * MINUTE_MS);
      expect(simulation.metrics.writes.filter((write) => write.node === spared?.name)).toEqual([]);
    });
  });

  test('a node without a beacon whose kubelet renews its Lease is not written, whatever befalls the others', () => {
    const scenario = fc.record({
      seed,
      nodes: fc.integer({ min: 2, max: 8 }),
      unenrolled: fc.integer({ min: 1, max: 8 }),
      troubles: troubles([...NODE_TROUBLES, ...OWN_TROUBLES, ...API_TROUBLES], 8 * MINUTE_MS, 8),
    });
    holds(30, scenario, ({ unenrolled, troubles: all, ...options }) => {
      const simulation = simulate(options);
      const [spared, ...others] = simulation.machines;
      for (const machine of simulation.machines.slice(0, unenrolled)) {
        delete machine.apiNode.annotations['farpulse/beacon-key'];
        machine.stopBeacon();
      }
      simulation.run(6 * MINUTE_MS);
      for (const trouble of all) plan(simulation, trouble, others);
      simulation.run(16 * MINUTE_MS);
      expect(simulation.metrics.writes.filter((write) => write.node === spared?.name)).toEqual([]);
    });
  });

  test('no more than one write between two returns of a node', () => {
    const scenario = fc.record({
      seed,
      preset,
      nodes: fc.integer({ min: 2, max: 6 }),
      troubles: troubles([...NODE_TROUBLES, ...OWN_TROUBLES, ...API_TROUBLES], 10 * MINUTE_MS, 10),
    });
    holds(40, scenario, ({ preset: name, troubles: all, ...options }) => {
      const simulation = simulate({ ...options, policy: PRESETS[name] });
      for (const trouble of all) plan(simulation, trouble, simulation.machines);
      simulation.run(20 * MINUTE_MS);
      for (const machine of simulation.machines) {
        const writes = simulation.metrics.writesFor(machine);
        for (const [index, write] of writes.entries()) {
          if (index < writes.length - 1) expect(write.takenBackAtMs).toBeDefined();
        }
      }
    });
  });

  test('a total outage writes nothing, however it comes and goes', () => {
    const scenario = fc.record({
      seed,
      preset,
      leases: fc.boolean(),
      nodes: fc.constantFrom(1, 2, 3, 4, 20),
      what: fc.constantFrom('network', 'uplinks', 'edge'),
      forMs: fc.integer({ min: 5 * SECOND_MS, max: 12 * MINUTE_MS }),
      staggerMs: fc.constantFrom(0, 500, 3_000, 20_000),
      own: troubles(
        ['arbiter-evicted', 'observer-evicted', 'arbiter-restart', 'all-observers-restart'],
        10 * MINUTE_MS,
        3,
      ),
    });
    holds(40, scenario, ({ leases, preset: name, what, forMs: lastsMs, staggerMs, own, ...options }) => {
      // A short outage with a slow return is no total one: the last nodes are then missing alone.
      const forMs = staggerMs === 0 ? lastsMs : MINUTE_MS + lastsMs;
      const simulation = simulate({ ...options, leases, policy: policyOf(name, leases) });
      for (const trouble of own) plan(simulation, trouble, []);
      outage(simulation, what, forMs, staggerMs);
      simulation.run(forMs + 10 * MINUTE_MS + staggerMs * simulation.machines.length);
      expect(simulation.metrics.writes).toEqual([]);
      expect(simulation.status().nodes.map((node) => node.phase)).toEqual(
        simulation.machines.map(() => 'alive'),
      );
    });
  });

  test.for([
    { nodes: 100, what: 'network', leases: true },
    { nodes: 100, what: 'uplinks', leases: false },
    { nodes: 1_000, what: 'edge', leases: true },
  ] as const)(
    'a total outage of $nodes nodes ($what, leases: $leases) writes nothing',
    ({ nodes, what, leases }) => {
      const simulation = simulate({
        seed: nodes,
        nodes,
        leases,
        policy: policyOf('steady', leases),
        isFaithful: false,
      });
      outage(simulation, what, MINUTE_MS, 200);
      simulation.run(3 * MINUTE_MS);
      expect(simulation.metrics.writes).toEqual([]);
    },
  );

  test('half the nodes coming back one after another writes nothing', () => {
    const scenario = fc.record({
      seed,
      preset,
      leases: fc.boolean(),
      nodes: fc.integer({ min: 4, max: 24 }),
      staggerMs: fc.integer({ min: 1_000, max: 50_000 }),
    });
    holds(15, scenario, ({ leases, preset: name, staggerMs, ...options }) => {
      const simulation = simulate({ ...options, leases, policy: policyOf(name, leases) });
      simulation.machines.forEach((machine, index) => {
        machine.cutAll();
        simulation.in(4 * MINUTE_MS + (index % 2) * index * staggerMs, () => machine.mendAll());
      });
      simulation.run(4 * MINUTE_MS + staggerMs * simulation.machines.length + 5 * MINUTE_MS);
      expect(simulation.metrics.writes).toEqual([]);
    });
  });

  test('a refused beat never makes a node silent', () => {
    const scenario = fc.record({
      seed,
      preset,
      why: fc.constantFrom('old-key', 'bad-interval', 'wrong-uid'),
      leases: fc.boolean(),
    });
    holds(12, scenario, ({ preset: name, why, leases, ...options }) => {
      const simulation = simulate({ ...options, leases, nodes: 5, policy: policyOf(name, leases) });
      const machine = simulation.machine(1);
      if (why === 'old-key') machine.apiNode.annotations['farpulse/beacon-key'] = 'x'.repeat(43);
      else if (why === 'bad-interval') machine.beacon.intervalMs *= 4;
      else machine.beacon.uid = 'uid-of-another';
      simulation.run(40 * MINUTE_MS);
      expect(simulation.metrics.writes).toEqual([]);
    });
  });
});

function outage(simulation: Simulation, what: string, forMs: number, staggerMs: number): void {
  if (what === 'edge') {
    for (const leg of simulation.legs) leg.cut();
    simulation.in(forMs, () => {
      for (const leg of simulation.legs) leg.mend();
    });
    return;
  }
  simulation.machines.forEach((machine, index) => {
    if (what === 'network') machine.cutAll();
    else machine.cutUplink();
    simulation.in(forMs + index * staggerMs, () =>
      what === 'network' ? machine.mendAll() : machine.mendUplink(),
    );
  });
}

describe('what must happen in time', () => {
  test('a dead node is noticed within its timeout and three seconds', () => {
    const scenario = fc.record({
      seed,
      preset,
      leases: fc.boolean(),
      nodes: fc.constantFrom(2, 3, 4, 5, 12, 30),
    });
    holds(50, scenario, ({ preset: name, leases, ...options }) => {
      const policy = policyOf(name, leases);
      const simulation = simulate({ ...options, leases, policy });
      simulation.run(simulation.random.between(0, 20_000));
      crash(simulation, 0);
      simulation.run(5 * MINUTE_MS);
      expectNoticed(simulation, timeoutMs(policy, policy.intervalMs) + 3_000);
    });
  });

  test('also when observers, arbiter or both are restarted again and again: within 40 s at 10 s beats', () => {
    const scenario = fc.record({
      seed,
      leases: fc.boolean(),
      nodes: fc.integer({ min: 3, max: 12 }),
      everyMs: fc.constantFrom(30_000, 45_000, 300_000),
      phaseMs: fc.integer({ min: 0, max: 30_000 }),
      arbiterToo: fc.boolean(),
    });
    holds(60, scenario, ({ leases, everyMs, phaseMs, arbiterToo, ...options }) => {
      const simulation = simulate({ ...options, leases, policy: policyOf('steady', leases) });
      const redeploy = (): void => {
        for (const observer of simulation.observers) observer.restart(300);
        if (arbiterToo) simulation.arbiter.restart(300);
        simulation.in(everyMs, redeploy);
      };
      redeploy();
      simulation.run(2 * MINUTE_MS + phaseMs);
      crash(simulation, 0);
      simulation.run(5 * MINUTE_MS);
      expectNoticed(simulation, 40_000);
      expect(simulation.metrics.mistakes).toEqual([]);
    });
  });

  test('a really dead node is written in the end, whatever came before', () => {
    const scenario = fc.record({
      seed,
      preset,
      nodes: fc.integer({ min: 3, max: 6 }),
      troubles: troubles([...NODE_TROUBLES, ...OWN_TROUBLES, ...API_TROUBLES], 15 * MINUTE_MS, 8),
    });
    holds(25, scenario, ({ preset: name, troubles: all, ...options }) => {
      const simulation = simulate({ ...options, policy: PRESETS[name] });
      const machine = simulation.machine(0);
      for (const trouble of all) plan(simulation, trouble, simulation.machines);
      simulation.run(22 * MINUTE_MS);
      if (machine.apiNode.ready?.status !== 'True') return;
      crash(simulation, 0);
      // A hold and its cool-down, a watched node's minute, and an open breaker's hour: all end.
      simulation.run(80 * MINUTE_MS);
      expect(machine.apiNode.ready?.status).toBe('Unknown');
    });
  });
});

function crash(simulation: Simulation, index: number): void {
  simulation.machine(index).crash();
  simulation.metrics.noteDeath(simulation.machine(index));
}

function expectNoticed(simulation: Simulation, withinMs: number): void {
  expect(simulation.metrics.undetected).toEqual([]);
  expect(Math.max(...simulation.metrics.detectionsMs)).toBeLessThanOrEqual(withinMs);
}

describe('one lying observer of three', () => {
  const LIES: Readonly<Record<string, (report: Report) => Report>> = {
    'hears everybody': (report) => ({
      ...report,
      nodes: report.nodes.map((node) => ({ ...node, sight: 'heard', heardAgoMs: 1_000 })),
    }),
    'hears nobody': (report) => ({
      ...report,
      nodes: report.nodes.map((node) => ({ ...node, sight: 'silent', heardAgoMs: 100_000 })),
    }),
    'shows an old beat as proof': (report) => ({
      ...report,
      nodes: report.nodes.map((node) => ({
        ...node,
        sight: 'heard',
        heardAgoMs: 1_000,
        seq: 1,
        proof: `${node.boot}:1`,
      })),
    }),
    'says that every kubelet is down': (report) => ({
      ...report,
      nodes: report.nodes.map((node) => ({ ...node, kubelet: { state: 'down', okThisBoot: true } })),
    }),
    'says that it is blind': (report) => ({ ...report, blind: 'hears-nobody' }),
    'knows nobody': (report) => ({ ...report, nodes: [] }),
  };

  test.for(Object.keys(LIES))('that %s can neither cause nor block a verdict', (lie) => {
    const scenario = fc.record({
      seed,
      preset,
      leases: fc.boolean(),
      nodes: fc.integer({ min: 3, max: 8 }),
      liar: fc.nat({ max: 2 }),
    });
    holds(8, scenario, ({ preset: name, leases, liar, ...options }) => {
      const policy = policyOf(name, leases);
      const simulation = simulate({ ...options, leases, policy });
      const observer = simulation.observers[liar];
      const distort = LIES[lie];
      if (observer === undefined || distort === undefined) throw new Error('no such lie');
      observer.distort = distort;
      simulation.run(3 * MINUTE_MS);
      crash(simulation, 0);
      simulation.run(5 * MINUTE_MS);
      expectNoticed(simulation, 5 * timeoutMs(policy, policy.intervalMs));
      expect(simulation.metrics.writes.map((write) => write.kind)).toEqual(['detection']);
    });
  });
});

describe('state', () => {
  test('survives the way through storage at any step', () => {
    const scenario = fc.record({
      seed,
      preset,
      nodes: fc.integer({ min: 2, max: 5 }),
      evictEveryMs: fc.integer({ min: 1_500, max: 20_000 }),
    });
    holds(30, scenario, ({ preset: name, evictEveryMs, ...options }) => {
      const policy = PRESETS[name];
      const simulation = simulate({ ...options, policy });
      const evict = (): void => {
        const { settings: _s, memory: _m, ...stored } = simulation.arbiter.state;
        const entries = { ...stored, nodes: [...stored.nodes], reports: [...stored.reports] };
        expect(JSON.parse(JSON.stringify(entries))).toEqual(entries);
        simulation.arbiter.evict();
        simulation.in(evictEveryMs, evict);
      };
      evict();
      crash(simulation, 0);
      simulation.run(5 * MINUTE_MS);
      // Whatever was in flight is asked for again; each eviction may cost that once.
      expectNoticed(simulation, timeoutMs(policy, policy.intervalMs) + 30_000);
    });
  });

  test('does not depend on the order in which reports of one instant arrive', () => {
    const scenario = fc.record({
      seed,
      nodes: fc.integer({ min: 2, max: 6 }),
      troubles: troubles([...NODE_TROUBLES, 'one-region-cut', 'observer-restart'], 3 * MINUTE_MS, 5),
      atMs: fc.integer({ min: 0, max: 5 * MINUTE_MS }),
    });
    holds(40, scenario, ({ troubles: all, atMs, ...options }) => {
      const simulation = simulate(options);
      for (const trouble of all) plan(simulation, trouble, simulation.machines);
      simulation.run(atMs);
      const nowMs = Math.floor(simulation.nowMs);
      const reports = simulation.observers.flatMap((observer) => observer.ask([]) ?? []);
      const orders = [reports, reports.toReversed(), [...reports.slice(1), ...reports.slice(0, 1)]];
      const outcomes = orders.map((order) => {
        let state = structuredClone(simulation.arbiter.state);
        for (const report of order) state = stepArbiter(state, { kind: 'report', report }, nowMs).state;
        return [...state.nodes.values()].map(({ name, phase, cause }) => ({ name, phase, cause }));
      });
      for (const outcome of outcomes) expect(outcome).toEqual(outcomes[0]);
    });
  });
});
