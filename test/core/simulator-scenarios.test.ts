import { describe, expect, test, vi } from 'vitest';
import { PRESETS, Simulation, type SimulationOptions } from '../support/simulator/simulation.ts';

vi.setConfig({ testTimeout: 60_000 });

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;

/** A cluster of ten that has been well for five minutes. */
function calm(options: Partial<SimulationOptions> = {}): Simulation {
  const simulation = new Simulation({ seed: 11, nodes: 10, isFaithful: true, ...options });
  simulation.run(5 * MINUTE_MS);
  return simulation;
}

function reasons(simulation: Simulation): readonly string[] {
  return simulation.metrics.writes.map((write) => `${write.node} ${write.reason} ${write.kind}`);
}

const NO_LEASE = { leases: false, policy: { ...PRESETS.steady, leaseEvidence: 'off' } } as const;

describe('one node', () => {
  test('that dies is written once, with one poll and one read', () => {
    const simulation = calm();
    const before = { polls: simulation.arbiter.polls, reads: simulation.api.reads };
    simulation.machine(3).crash();
    simulation.run(25 * SECOND_MS);
    expect(reasons(simulation)).toEqual(['node-3 FarpulseHostSilent detection']);
    expect(simulation.arbiter.polls - before.polls).toBe(1);
    expect(simulation.api.reads - before.reads).toBe(2);
  });

  test('that comes back is alive again, and its pods are its own affair', () => {
    const simulation = calm();
    simulation.machine(3).crash();
    simulation.run(2 * MINUTE_MS);
    simulation.machine(3).boot();
    simulation.run(MINUTE_MS);
    expect(simulation.phaseOf(simulation.machine(3))).toBe('alive');
    expect(simulation.machine(3).apiNode.ready?.status).toBe('True');
  });

  test('whose beacon alone is cut is watched, not written, and written within 1.5 min of its real death', () => {
    const simulation = calm();
    simulation.machine(3).cutUplink();
    simulation.run(5 * MINUTE_MS);
    expect(simulation.phaseOf(simulation.machine(3))).toBe('watched');
    expect(reasons(simulation)).toEqual([]);
    simulation.machine(3).crash();
    simulation.run(90 * SECOND_MS);
    expect(reasons(simulation)).toEqual(['node-3 FarpulseHostSilent detection']);
  });

  test('whose beacon alone is cut, without Leases, contradicts one write and gets no second', () => {
    const simulation = calm(NO_LEASE);
    simulation.machine(3).cutUplink();
    simulation.run(10 * MINUTE_MS);
    expect(reasons(simulation)).toEqual(['node-3 FarpulseHostSilent mistake']);
    expect(simulation.phaseOf(simulation.machine(3))).toBe('watched');
  });

  test('whose beacon is cut and whose Lease hangs contradicts one write and gets no second', () => {
    const simulation = calm();
    simulation.machine(3).kubelet.leaseHangs = true;
    simulation.machine(3).cutUplink();
    simulation.run(60 * MINUTE_MS);
    expect(reasons(simulation)).toEqual(['node-3 FarpulseHostSilent mistake']);
    expect(simulation.phaseOf(simulation.machine(3))).toBe('watched');
    expect(simulation.api.events).toEqual(['node-3 FarpulseHostSilent', 'node-3 FarpulseContradicted']);
  });

  test('that dies after such a contradiction is written in the end', () => {
    const simulation = calm();
    simulation.machine(3).kubelet.leaseHangs = true;
    simulation.machine(3).cutUplink();
    simulation.run(5 * MINUTE_MS);
    simulation.machine(3).stopKubelet();
    simulation.run(20 * MINUTE_MS);
    expect(reasons(simulation)).toEqual([
      'node-3 FarpulseHostSilent mistake',
      'node-3 FarpulseHostSilent detection',
    ]);
  });

  test.for([
    { name: 'with Leases', options: {} },
    { name: 'without Leases', options: NO_LEASE },
  ])('whose kubelet dies is written, $name', ({ options }) => {
    const simulation = calm(options);
    simulation.machine(3).stopKubelet();
    simulation.run(45 * SECOND_MS);
    expect(reasons(simulation)).toEqual(['node-3 FarpulseKubeletDown detection']);
  });

  test('whose path to the API server is cut is told, not written, while it beats', () => {
    const simulation = calm();
    simulation.machine(3).cutApiPath();
    simulation.run(5 * MINUTE_MS);
    expect(reasons(simulation)).toEqual([]);
    expect(simulation.status().alerts.map((alert) => alert.code)).toContain('api-path-cut');
  });

  test('that reboots with notice is written as leaving when it falls silent', () => {
    const simulation = calm();
    simulation.machine(3).shutDown({ what: 'host', reason: 'reboot', forMs: 300_000 });
    simulation.run(40 * SECOND_MS);
    expect(reasons(simulation)).toEqual(['node-3 FarpulseLeaving detection']);
  });

  test('whose beacon restarts with notice is given its time', () => {
    const simulation = calm();
    simulation.machine(3).beacon.farewell({ what: 'beacon', reason: 'upgrade', forMs: 100_000 });
    simulation.in(80 * SECOND_MS, () => simulation.machine(3).startBeacon());
    simulation.run(3 * MINUTE_MS);
    expect(reasons(simulation)).toEqual([]);
    expect(simulation.phaseOf(simulation.machine(3))).toBe('alive');
  });

  test('that is paused is not written', () => {
    const simulation = calm();
    simulation.machine(3).apiNode.annotations['farpulse/pause'] = 'reason=disk swap';
    simulation.run(6 * MINUTE_MS);
    simulation.machine(3).crash();
    simulation.run(5 * MINUTE_MS);
    expect(reasons(simulation)).toEqual([]);
    expect(simulation.phaseOf(simulation.machine(3))).toBe('paused');
  });

  test('that was paused a moment before it died is not written either: its Node is read afresh', () => {
    const simulation = calm();
    simulation.machine(3).apiNode.annotations['farpulse/pause'] = 'reason=disk swap';
    simulation.machine(3).crash();
    simulation.run(MINUTE_MS);
    expect(reasons(simulation)).toEqual([]);
  });

  test('whose Node is deleted while it is silent is forgotten', () => {
    const simulation = calm();
    simulation.machine(3).crash();
    simulation.in(5 * SECOND_MS, () => simulation.api.delete('node-3'));
    simulation.run(MINUTE_MS);
    expect(reasons(simulation)).toEqual([]);
    expect(simulation.arbiter.state.nodes.has('node-3')).toBe(false);
  });

  test('that is made anew under its name is heard again, under its new uid', () => {
    const simulation = calm();
    simulation.machine(3).recreate();
    simulation.run(12 * MINUTE_MS);
    expect(simulation.arbiter.state.nodes.get('node-3')).toMatchObject({
      uid: 'uid-node-3-2',
      phase: 'alive',
    });
    expect(reasons(simulation)).toEqual([]);
  });

  test('whose clock jumps a day, either way, is neither silent nor a replay', () => {
    const simulation = calm();
    simulation.machine(3).jumpClock(86_400_000);
    simulation.run(2 * MINUTE_MS);
    simulation.machine(3).jumpClock(-2 * 86_400_000);
    simulation.run(2 * MINUTE_MS);
    expect(reasons(simulation)).toEqual([]);
    expect(simulation.phaseOf(simulation.machine(3))).toBe('alive');
  });
});

describe('a node without a beacon', () => {
  /** A cluster in which the first nodes have lost their beacons and keys long ago. */
  function without(count: number, options: Partial<SimulationOptions> = {}): Simulation {
    const simulation = calm(options);
    for (const machine of simulation.machines.slice(0, count)) {
      delete machine.apiNode.annotations['farpulse/beacon-key'];
      machine.stopBeacon();
    }
    simulation.run(8 * MINUTE_MS);
    return simulation;
  }
  const MODES = [
    { name: 'one of ten', count: 1, options: {} },
    { name: 'nine of ten', count: 9, options: {} },
    {
      name: 'one of ten, in compat mode when that is configured',
      count: 1,
      options: { mode: 'compat', watchUnenrolled: true },
    },
  ] as const;

  test.for(MODES)('that dies is written by its Lease within two minutes: $name', ({ count, options }) => {
    const simulation = without(count, options);
    simulation.machine(0).crash();
    simulation.run(2 * MINUTE_MS);
    expect(reasons(simulation)).toEqual(['node-0 FarpulseHostSilent detection']);
    simulation.run(10 * MINUTE_MS);
    simulation.machine(0).boot();
    simulation.run(3 * MINUTE_MS);
    expect(reasons(simulation)).toHaveLength(1);
    expect(simulation.phaseOf(simulation.machine(0))).toBe('unenrolled');
    expect(simulation.machine(0).apiNode.ready?.status).toBe('True');
  });

  test('that dies is written although the arbiter restarts again and again', () => {
    const simulation = without(1);
    simulation.machine(0).crash();
    for (let times = 0; times < 10; times += 1) {
      simulation.run(23 * SECOND_MS);
      simulation.arbiter.restart(300);
    }
    expect(reasons(simulation)).toEqual(['node-0 FarpulseHostSilent detection']);
  });

  test.for<{
    readonly name: string;
    readonly options?: Partial<SimulationOptions>;
    readonly count?: number;
    readonly happens: (simulation: Simulation) => void;
  }>([
    {
      name: 'without a Lease, dies',
      options: NO_LEASE,
      happens: (simulation) => simulation.machine(0).crash(),
    },
    {
      name: 'dies in compat mode, where the controller looks',
      options: { mode: 'compat' },
      happens: (simulation) => simulation.machine(0).crash(),
    },
    {
      name: 'is paused, and dies',
      happens: (simulation) => {
        simulation.machine(0).apiNode.annotations['farpulse/pause'] = 'reason=disk swap';
        simulation.run(6 * MINUTE_MS);
        simulation.machine(0).crash();
      },
    },
    {
      name: 'lives while the API server is away for ten minutes',
      happens: (simulation) => {
        simulation.setApiTrouble('unreachable');
        simulation.in(10 * MINUTE_MS, () => simulation.setApiTrouble('none'));
      },
    },
    {
      name: 'is one of six of ten whose Leases stand still',
      count: 9,
      happens: (simulation) => {
        for (const machine of simulation.machines.slice(0, 6)) machine.crash();
      },
    },
  ])('is not written when it $name', ({ options = {}, count = 1, happens }) => {
    const simulation = without(count, options);
    happens(simulation);
    simulation.run(20 * MINUTE_MS);
    expect(reasons(simulation)).toEqual([]);
  });

  test('whose Lease hangs contradicts one write at most, and gets no second', () => {
    const simulation = without(1);
    simulation.machine(0).kubelet.leaseHangs = true;
    simulation.run(60 * MINUTE_MS);
    expect(simulation.metrics.writes.length).toBeLessThanOrEqual(1);
  });

  test('does not slow the verdict on one that has a beacon', () => {
    const simulation = without(3);
    simulation.machine(1).crash();
    simulation.machine(5).crash();
    simulation.metrics.noteDeath(simulation.machine(5));
    simulation.run(MINUTE_MS);
    expect(Math.max(...simulation.metrics.detectionsMs)).toBeLessThan(25_000);
  });
});

describe('modes', () => {
  test('observe decides and writes nothing', () => {
    const simulation = calm({ mode: 'observe' });
    simulation.machine(3).crash();
    simulation.run(MINUTE_MS);
    expect(simulation.api.writes).toBe(0);
    expect(simulation.arbiter.state.nodes.get('node-3')).toMatchObject({
      phase: 'down',
      episode: { write: { outcome: 'would-write' } },
    });
  });

  test('compat marks the pods too, also those bound meanwhile', () => {
    const simulation = calm({ mode: 'compat' });
    const { apiNode } = simulation.machine(3);
    simulation.machine(3).crash();
    simulation.in(35 * SECOND_MS, () => (apiNode.readyPods = 2));
    simulation.run(2 * MINUTE_MS);
    expect(apiNode.readyPods).toBe(0);
    expect(simulation.api.podWrites).toBe(12);
  });
});

describe('the mode check', () => {
  test('holds all writes 15 s after the first one that a controller did not act on', () => {
    const simulation = calm();
    simulation.api.controllerListensTo = 'kubelets';
    simulation.machine(3).crash();
    simulation.run(45 * SECOND_MS);
    expect(simulation.status()).toMatchObject({ state: 'hold', hold: { kind: 'mode', nodes: ['node-3'] } });
    simulation.machine(4).crash();
    simulation.run(10 * MINUTE_MS);
    expect(reasons(simulation)).toEqual(['node-3 FarpulseHostSilent detection']);

    // An operator has put the controller right.
    simulation.api.controllerListensTo = 'us';
    simulation.arbiter.release(simulation.status().hold?.id ?? '');
    simulation.run(MINUTE_MS);
    expect(reasons(simulation)).toHaveLength(2);
    expect(simulation.status().state).toBe('judging');
  });

  test('ends its hold by itself when a slow controller acts after all', () => {
    const simulation = calm();
    simulation.api.controllerListensTo = 'kubelets';
    simulation.machine(3).crash();
    simulation.run(45 * SECOND_MS);
    expect(simulation.status().state).toBe('hold');
    simulation.api.controllerListensTo = 'us';
    simulation.run(20 * SECOND_MS);
    expect(simulation.status().state).toBe('judging');
  });
});

describe('the API server', () => {
  test('that does not answer delays a verdict, and is not hammered', () => {
    const simulation = calm();
    simulation.setApiTrouble('unreachable');
    simulation.machine(3).crash();
    simulation.run(5 * MINUTE_MS);
    expect(reasons(simulation)).toEqual([]);
    simulation.setApiTrouble('none');
    simulation.run(20 * SECOND_MS);
    expect(reasons(simulation)).toEqual(['node-3 FarpulseHostSilent detection']);
  });

  test('that comes back after the node did gets no write: verdicts are judged again, not replayed', () => {
    const simulation = calm();
    simulation.setApiTrouble('unreachable');
    simulation.machine(3).crash();
    simulation.run(3 * MINUTE_MS);
    simulation.machine(3).boot();
    simulation.run(MINUTE_MS);
    simulation.setApiTrouble('none');
    simulation.run(2 * MINUTE_MS);
    expect(reasons(simulation)).toEqual([]);
  });

  test('whose Node changes between read and write is read again', () => {
    const simulation = calm();
    const { apiNode } = simulation.machine(3);
    const patch = simulation.api.patchReadyUnknown.bind(simulation.api);
    let raced = false;
    simulation.api.patchReadyUnknown = (asked) => {
      if (!raced) apiNode.resourceVersion += 1;
      raced = true;
      return patch(asked);
    };
    simulation.machine(3).crash();
    simulation.run(30 * SECOND_MS);
    expect(simulation.api.conflicts).toBe(1);
    expect(reasons(simulation)).toEqual(['node-3 FarpulseHostSilent detection']);
  });
});

describe('many nodes', () => {
  test.for([0, 50, 100, 150, 200, 250, 300])(
    'two that fall silent %d ms apart are both written in time: an answer may be older than the report it replaces',
    (apartMs) => {
      const simulation = calm({ nodes: 20 });
      const [first, second] = [simulation.machine(3), simulation.machine(4)];
      first.beacon.start(0);
      second.beacon.start(apartMs);
      simulation.run(5 * SECOND_MS);
      for (const machine of [first, second]) {
        machine.crash();
        simulation.metrics.noteDeath(machine);
      }
      simulation.run(2 * MINUTE_MS);
      expect(simulation.metrics.detectionsMs).toHaveLength(2);
      expect(Math.max(...simulation.metrics.detectionsMs)).toBeLessThan(25_000);
    },
  );

  test('a rack of three in ten is written, later than one node', () => {
    const simulation = calm();
    for (const index of [1, 2, 3]) {
      simulation.machine(index).crash();
      simulation.metrics.noteDeath(simulation.machine(index));
    }
    simulation.run(2 * MINUTE_MS);
    expect(reasons(simulation)).toHaveLength(3);
    expect(Math.min(...simulation.metrics.detectionsMs)).toBeGreaterThan(22_000);
    expect(Math.max(...simulation.metrics.detectionsMs)).toBeLessThan(55_000);
  });

  test('six of ten that are really dead are held, and written when their Leases say so', () => {
    const simulation = calm();
    for (const index of [1, 2, 3, 4, 5, 6]) simulation.machine(index).crash();
    simulation.run(3 * MINUTE_MS);
    expect(simulation.status().state).toBe('hold');
    expect(reasons(simulation)).toEqual([]);
    simulation.run(12 * MINUTE_MS);
    expect(reasons(simulation)).toHaveLength(6);
    expect(simulation.metrics.mistakes).toEqual([]);
  });

  test('a cluster that is back from a total cut judges again once hold and cool-down are over', () => {
    const simulation = calm();
    for (const machine of simulation.machines) machine.cutUplink();
    simulation.run(2 * MINUTE_MS);
    expect(simulation.status().state).toBe('hold');
    for (const machine of simulation.machines) machine.mendUplink();
    // A minute with few missing, two of cool-down, and the time of a beat.
    simulation.run(3.5 * MINUTE_MS);
    expect(simulation.status().state).toBe('judging');
    expect(reasons(simulation)).toEqual([]);
  });

  test('six of ten that are really dead are written after an operator released the hold, without Leases', () => {
    const simulation = calm({ ...NO_LEASE, zones: 10 });
    for (const index of [1, 2, 3, 4, 5, 6]) simulation.machine(index).crash();
    simulation.run(20 * MINUTE_MS);
    expect(reasons(simulation)).toEqual([]);
    simulation.arbiter.release(simulation.status().hold?.id ?? '');
    simulation.run(10 * MINUTE_MS);
    expect(reasons(simulation)).toHaveLength(6);
  });

  test('the last node that is heard is never written', () => {
    const simulation = calm({ nodes: 1 });
    simulation.machine(0).crash();
    simulation.run(20 * MINUTE_MS);
    expect(reasons(simulation)).toEqual([]);
  });

  test('in a cluster of three, one after another: the second is written, the last is not', () => {
    const simulation = calm({ nodes: 3 });
    for (const index of [0, 1, 2]) {
      simulation.machine(index).crash();
      simulation.run(10 * MINUTE_MS);
    }
    expect(simulation.metrics.writes.map((write) => write.node)).toEqual(['node-0', 'node-1']);
  });
});

describe('a rack that loses its network for 27 s', () => {
  test.for([
    { name: 'with Leases', options: {} },
    { name: 'without Leases', options: NO_LEASE },
  ])('is not written one by one as it returns, $name', ({ options }) => {
    const simulation = calm({ nodes: 40, ...options });
    const rack = simulation.machines.slice(0, 12);
    for (const machine of rack) machine.cutAll();
    simulation.run(27 * SECOND_MS);
    for (const machine of rack) machine.mendAll();
    simulation.run(5 * MINUTE_MS);
    expect(reasons(simulation)).toEqual([]);
  });
});

describe('a region', () => {
  test('that hears five percent changes no verdict, and real deaths are still noticed in time', () => {
    const simulation = calm();
    simulation.legs[1]?.setLoss(0.78);
    simulation.run(10 * MINUTE_MS);
    expect(reasons(simulation)).toEqual([]);
    simulation.machine(3).crash();
    simulation.run(26 * SECOND_MS);
    expect(reasons(simulation)).toEqual(['node-3 FarpulseHostSilent detection']);
  });

  test.for([{ down: 1 }, { down: 2 }])(
    '$down of three whose observers are gone: a verdict needs two',
    ({ down }) => {
      const simulation = calm();
      for (const observer of simulation.observers.slice(0, down))
        observer.awayUntilMs = Number.POSITIVE_INFINITY;
      simulation.run(5 * MINUTE_MS);
      simulation.machine(3).crash();
      simulation.run(10 * MINUTE_MS);
      expect(reasons(simulation)).toHaveLength(down === 1 ? 1 : 0);
    },
  );
});
