import type { Machine } from '../../test/support/simulator/machine.ts';
import type { Simulation } from '../../test/support/simulator/simulation.ts';
import { Chen, Fixed, OwnLateness, PhiAkka, Satzger, type Baseline } from './baselines.ts';
import { Score } from './score.ts';

/** Chen's safety margin: half an interval. */
const CHEN_ALPHA = 0.5;

/** The most that a node's own lateness adds to its timeout. */
const LATENESS_CEILING = 0.5;

/**
 * Runs the known detectors on the arrivals at the first region: a monitor each, in one place, with the same beats and
 * the same tries as farpulse has. A first suspicion counts as a write, the next beat as its end.
 */
export function watchBeats(simulation: Simulation, timeoutMs: number): readonly Score[] {
  const { intervalMs } = simulation.settings.policy;
  const kinds: readonly (readonly [string, () => Baseline])[] = [
    ['fixed', () => new Fixed(timeoutMs)],
    ['chen', () => new Chen(intervalMs, CHEN_ALPHA * intervalMs)],
    ['phi-akka', () => new PhiAkka(intervalMs)],
    ['satzger', () => new Satzger()],
    ['fixed-own-lateness', () => new OwnLateness(timeoutMs, LATENESS_CEILING * timeoutMs)],
  ];
  const all = kinds.map(([name, make]) => ({ score: new Score(name, simulation), make }));
  const watched = new Map<string, { boot: string; seq: number; monitors: Monitor[] }>();
  const machines = new Map<string, Machine>();
  const { shards } = simulation.settings;
  for (const observer of simulation.observers.slice(0, shards)) {
    observer.onHeard = ({ beat }, nowMs) => {
      let entry = watched.get(beat.node);
      if (entry === undefined) {
        const machine = machines.get(beat.node) ?? simulation.machines.find(({ name }) => name === beat.node);
        if (machine === undefined) return;
        machines.set(beat.node, machine);
        const monitors = all.map(({ score, make }) => new Monitor(simulation, machine, score, make));
        entry = { boot: beat.boot, seq: -1, monitors };
        watched.set(beat.node, entry);
      }
      const isNewBoot = beat.boot !== entry.boot;
      if (!isNewBoot && beat.seq <= entry.seq) return;
      entry.boot = beat.boot;
      entry.seq = beat.seq;
      for (const monitor of entry.monitors) monitor.arrived(nowMs, isNewBoot);
    };
  }
  return all.map(({ score }) => score);
}

/** One detector's view of one node, with the timer for its suspicion. */
class Monitor {
  readonly #simulation: Simulation;
  readonly #machine: Machine;
  readonly #score: Score;
  readonly #make: () => Baseline;
  #baseline: Baseline;
  #isArmed = false;

  constructor(simulation: Simulation, machine: Machine, score: Score, make: () => Baseline) {
    this.#simulation = simulation;
    this.#machine = machine;
    this.#score = score;
    this.#make = make;
    this.#baseline = make();
  }

  arrived(nowMs: number, isNewBoot: boolean): void {
    this.#score.trust(this.#machine);
    // Whoever restarts a sender starts its detector anew.
    if (isNewBoot) this.#baseline = this.#make();
    this.#baseline.arrived(nowMs);
    this.#arm();
  }

  /** One timer at a time: it finds out when it rings whether it was early. */
  #arm(): void {
    const atMs = this.#baseline.suspectAtMs();
    if (this.#isArmed || atMs === Number.POSITIVE_INFINITY) return;
    this.#isArmed = true;
    this.#simulation.queue.at(atMs, () => {
      this.#isArmed = false;
      const { nowMs } = this.#simulation;
      if (this.#baseline.suspectAtMs() > nowMs) this.#arm();
      else if (this.#baseline.isSuspectedAt?.(nowMs) === false) throw new Error('suspected too early');
      else if (this.#simulation.api.nodes.has(this.#machine.name)) this.#score.accuse(this.#machine);
    });
  }
}

/** Kubernetes' node monitor period. */
const KCM_LOOP_MS = 5_000;

/**
 * The built-in detector (kube-controller-manager, node_lifecycle_controller.go): every 5 s it looks whether a node's
 * Lease or status has changed since it looked last, and sets Unknown when that was longer ago than the grace period.
 */
export function watchLeases(simulation: Simulation, graceMs: number): Score {
  const score = new Score(`builtin-${graceMs / 1_000}`, simulation);
  const probes = new Map<
    string,
    { renewedAtMs: number | undefined; reportedAtMs: number | undefined; probedAtMs: number }
  >();
  const loop = (): void => {
    const nowMs = simulation.nowMs;
    for (const machine of simulation.machines) {
      if (!simulation.api.nodes.has(machine.name)) continue;
      machine.kubelet.advance(nowMs);
      const { renewedAtMs, reportedAtMs } = machine.kubelet;
      const probe = probes.get(machine.name);
      if (probe === undefined) {
        probes.set(machine.name, { renewedAtMs, reportedAtMs, probedAtMs: nowMs });
      } else if (probe.renewedAtMs !== renewedAtMs || probe.reportedAtMs !== reportedAtMs) {
        Object.assign(probe, { renewedAtMs, reportedAtMs, probedAtMs: nowMs });
        score.trust(machine);
      } else if (nowMs > probe.probedAtMs + graceMs) {
        score.accuse(machine);
      }
    }
    simulation.in(KCM_LOOP_MS, loop);
  };
  simulation.in(simulation.random.fork().between(0, KCM_LOOP_MS), loop);
  return score;
}
