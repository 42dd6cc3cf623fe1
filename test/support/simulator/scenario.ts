import type { Machine } from './machine.ts';
import type { LinkModel } from './network.ts';
import type { Simulation } from './simulation.ts';

/** One situation to be lived through, the same for every detector. */
export interface Scenario {
  readonly name: string;
  readonly nodes: number;
  /** How the uplinks are from the start. */
  readonly uplink?: LinkModel;
  /** How long one run takes, from its start. */
  readonly forMs: number;
  /** Runs, each with a seed of its own, that make one row. Default: one. */
  readonly runs?: number;
  /** Plans all that happens. Draws only from `simulation.script`. */
  readonly plan: (simulation: Simulation) => void;
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** Everybody has joined and been listed by then. */
export const WARM_UP_MS = 5 * MINUTE_MS;

const UPLINK: LinkModel = { delayMs: 15, jitterMs: 10, loss: 0 };

function lossy(loss: number): LinkModel {
  // Half on each way: the request or its answer.
  return { ...UPLINK, loss: 1 - Math.sqrt(1 - loss) };
}

function pick(simulation: Simulation): Machine {
  return simulation.machine(Math.floor(simulation.script.next() * simulation.machines.length));
}

function every(simulation: Simulation, periodMs: number, action: () => void): void {
  const again = (): void => {
    action();
    simulation.in(periodMs, again);
  };
  simulation.in(WARM_UP_MS, again);
}

/** The same at no fixed phase of anybody's period: beats, renewals and passes are each so many seconds apart. */
function everyAboutHalfHour(simulation: Simulation, action: () => void): void {
  every(simulation, 30 * MINUTE_MS, () => simulation.in(simulation.script.between(0, MINUTE_MS), action));
}

/** A host dies about every so often, and is started again some minutes later. */
export function singleCrashes(simulation: Simulation, meanMs: number): void {
  const next = (): void => {
    simulation.in(simulation.script.exponential(meanMs), () => {
      const machine = pick(simulation);
      if (machine.isOn)
        crashFor(simulation, machine, simulation.script.between(4 * MINUTE_MS, 8 * MINUTE_MS));
      next();
    });
  };
  simulation.in(WARM_UP_MS, next);
}

export function crashFor(simulation: Simulation, machine: Machine, forMs: number): void {
  machine.crash();
  simulation.metrics.noteDeath(machine);
  simulation.in(forMs, () => {
    simulation.metrics.noteReturn(machine);
    machine.boot();
  });
}

/**
 * Single deaths, and besides what the scenario says. One death in four minutes among a hundred nodes is far more than
 * any cluster has; it makes enough of them. One in sixteen then falls within 15 s of another.
 */
function quietly(name: string, uplink: LinkModel, plan?: (simulation: Simulation) => void): Scenario {
  return {
    name,
    nodes: 100,
    uplink,
    forMs: 24 * HOUR_MS,
    plan: (simulation) => {
      singleCrashes(simulation, 4 * MINUTE_MS);
      plan?.(simulation);
    },
  };
}

/** The same quiet in a cluster of another size. */
function sized(nodes: number, forMs: number, meanMs: number): Scenario {
  return {
    name: `clean-${nodes}`,
    nodes,
    forMs,
    plan: (simulation) => singleCrashes(simulation, meanMs),
  };
}

function cut(seconds: number): Scenario {
  return {
    name: `cut-${seconds}`,
    nodes: 100,
    forMs: 4 * HOUR_MS,
    plan: (simulation) =>
      every(simulation, 2 * MINUTE_MS, () => {
        const machine = pick(simulation);
        machine.cutAll();
        simulation.in(seconds * SECOND_MS, () => machine.mendAll());
      }),
  };
}

function redeploys(name: string, periodMs: number): Scenario {
  return quietly(name, UPLINK, (simulation) =>
    every(simulation, periodMs, () => {
      for (const observer of simulation.observers) observer.restart(simulation.script.between(50, 500));
    }),
  );
}

/** The situations of the published table. */
export const SCENARIOS: readonly Scenario[] = [
  quietly('clean', UPLINK),
  sized(3, 240 * HOUR_MS, 30 * MINUTE_MS),
  sized(1_000, 2 * HOUR_MS, MINUTE_MS / 3),
  quietly('iid-0.1', lossy(0.001)),
  {
    // The long one, against mistakes: deaths as rare as the time allows.
    name: 'iid-1',
    nodes: 100,
    uplink: lossy(0.01),
    forMs: 240 * HOUR_MS,
    runs: 10,
    plan: (simulation) => singleCrashes(simulation, 40 * MINUTE_MS),
  },
  quietly('iid-5', lossy(0.05)),
  // Now and then a node's uplink loses nine of ten for 12 s, and once in a while everything for 120 s.
  quietly(
    'burst',
    { ...UPLINK, gilbert: { goodMs: 20 * MINUTE_MS, badMs: 12 * SECOND_MS, badLoss: 0.9 } },
    (simulation) =>
      every(simulation, HOUR_MS, () => {
        const machine = pick(simulation);
        machine.cutUplink();
        simulation.in(120 * SECOND_MS, () => machine.mendUplink());
      }),
  ),
  quietly('burst-one-region', UPLINK, (simulation) =>
    every(simulation, 10 * MINUTE_MS, () => {
      simulation.legs[0]?.cut();
      simulation.in(120 * SECOND_MS, () => simulation.legs[0]?.mend());
    }),
  ),
  quietly('rtt-step', UPLINK, (simulation) =>
    every(simulation, 20 * MINUTE_MS, () => {
      for (const machine of simulation.machines) machine.uplink.setDelay(400, 40);
      simulation.in(10 * MINUTE_MS, () => {
        for (const machine of simulation.machines) machine.uplink.setDelay(15, 10);
      });
    }),
  ),
  quietly('sender-stall', UPLINK, (simulation) => {
    for (const machine of simulation.machines.filter((_, index) => index % 3 === 0)) {
      const next = (): void =>
        simulation.in(simulation.script.exponential(3 * HOUR_MS), () => {
          machine.beacon.stalledUntilMs = simulation.nowMs + simulation.script.between(1_000, 1_300);
          next();
        });
      next();
    }
  }),
  redeploys('observer-redeploy', 30 * SECOND_MS),
  redeploys('observer-redeploy-300', 300 * SECOND_MS),
  quietly('region-5-percent', UPLINK, (simulation) =>
    simulation.in(WARM_UP_MS, () => simulation.legs[0]?.setLoss(0.78)),
  ),
  {
    // The deployment hears nobody, while all nodes are well.
    name: 'all-silent',
    nodes: 100,
    forMs: 2 * HOUR_MS,
    plan: (simulation) =>
      every(simulation, 30 * MINUTE_MS, () => {
        for (const leg of simulation.legs) leg.cut();
        simulation.in(10 * MINUTE_MS, () => {
          for (const leg of simulation.legs) leg.mend();
        });
      }),
  },
  {
    // All nodes lose their network at once and get it back one after another, every 6 s.
    name: 'staggered-return',
    nodes: 100,
    forMs: 2 * HOUR_MS,
    plan: (simulation) =>
      every(simulation, HOUR_MS, () => {
        simulation.machines.forEach((machine, index) => {
          machine.cutAll();
          simulation.in(5 * MINUTE_MS + (index % 2 === 0 ? 0 : index * 6 * SECOND_MS), () =>
            machine.mendAll(),
          );
        });
      }),
  },
  quietly('clock-jump', UPLINK, (simulation) =>
    every(simulation, 15 * MINUTE_MS, () => {
      const jumps = [HOUR_MS, -HOUR_MS, 24 * HOUR_MS, -24 * HOUR_MS];
      const byMs = jumps[Math.floor(simulation.script.next() * jumps.length)] ?? HOUR_MS;
      const machine = pick(simulation);
      machine.jumpClock(byMs);
      simulation.in(5 * MINUTE_MS, () => machine.jumpClock(-byMs));
    }),
  ),
  {
    // 5,000 beacons lose the edge for a minute and come back at once.
    name: 'herd',
    nodes: 5_000,
    forMs: 15 * MINUTE_MS,
    plan: (simulation) =>
      simulation.in(WARM_UP_MS, () => {
        for (const leg of simulation.legs) leg.cut();
        simulation.in(MINUTE_MS, () => {
          for (const leg of simulation.legs) leg.mend();
        });
      }),
  },
  quietly('churn', UPLINK, (simulation) =>
    every(simulation, 10 * MINUTE_MS, () => {
      const machine = simulation.addMachine();
      machine.boot();
      simulation.in(40 * MINUTE_MS, () => {
        machine.crash();
        simulation.api.delete(machine.name);
      });
    }),
  ),
  cut(15),
  cut(25),
  cut(45),
  {
    name: 'beacon-path-cut',
    nodes: 100,
    forMs: 4 * HOUR_MS,
    plan: (simulation) =>
      every(simulation, 5 * MINUTE_MS, () => {
        const machine = pick(simulation);
        machine.cutUplink();
        simulation.in(4 * MINUTE_MS, () => machine.mendUplink());
      }),
  },
  {
    // A third of the cluster dies at once, in one zone.
    name: 'rack-30',
    nodes: 100,
    forMs: 10 * HOUR_MS,
    plan: (simulation) =>
      everyAboutHalfHour(simulation, () => {
        for (const machine of simulation.machines.slice(0, 30)) crashFor(simulation, machine, 10 * MINUTE_MS);
      }),
  },
  {
    // The same place loses its network for half a minute.
    name: 'rack-cut-30',
    nodes: 100,
    forMs: 10 * HOUR_MS,
    plan: (simulation) =>
      everyAboutHalfHour(simulation, () => {
        for (const machine of simulation.machines.slice(0, 30)) {
          machine.cutAll();
          simulation.in(30 * SECOND_MS, () => machine.mendAll());
        }
      }),
  },
  {
    // The same place loses only the beacons' way to the edge, for four minutes.
    name: 'rack-path-cut',
    nodes: 100,
    forMs: 10 * HOUR_MS,
    plan: (simulation) =>
      everyAboutHalfHour(simulation, () => {
        for (const machine of simulation.machines.slice(0, 30)) {
          machine.cutUplink();
          simulation.in(4 * MINUTE_MS, () => machine.mendUplink());
        }
      }),
  },
  {
    // Every node loses its network for ten minutes.
    name: 'total-outage',
    nodes: 100,
    forMs: 2 * HOUR_MS,
    plan: (simulation) =>
      every(simulation, 40 * MINUTE_MS, () => {
        for (const machine of simulation.machines) machine.cutAll();
        simulation.in(10 * MINUTE_MS, () => {
          for (const machine of simulation.machines) machine.mendAll();
        });
      }),
  },
];
