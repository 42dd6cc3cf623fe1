import type { UnknownPatch } from '../../../worker/core/cluster-port.ts';
import type { Machine } from './machine.ts';
import type { Simulation } from './simulation.ts';

/** One write of Ready=Unknown that the API server has taken. */
export interface WriteRecord {
  readonly node: string;
  readonly atMs: number;
  readonly reason: string;
  /**
   * - `detection`: the host or its kubelet was dead.
   * - `partition`: all lived, but its kubelet could not reach the API server.
   * - `mistake`: its kubelet lived and could reach the API server.
   */
  readonly kind: 'detection' | 'partition' | 'mistake';
  /** When the kubelet took it back. */
  takenBackAtMs?: number;
}

/** Told of deaths and returns that a detector should find out by itself. */
export interface TruthListener {
  died(machine: Machine): void;
  returned(machine: Machine): void;
}

/** The truth beside what was written. */
export class Metrics {
  readonly writes: WriteRecord[] = [];
  /** From death to decision, for deaths told by `noteDeath`. */
  readonly detectionsMs: number[] = [];
  readonly observers: TruthListener[] = [];
  /** The API server has taken our Unknown, or a kubelet has put its Ready right. */
  onUnknownOf: ((machine: Machine) => void) | undefined;
  onReadyOf: ((machine: Machine) => void) | undefined;
  readonly #simulation: Simulation;
  readonly #machines = new Map<string, Machine>();
  readonly #diedAtMs = new Map<string, number>();

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    simulation.api.listener = this;
    simulation.arbiter.onDecided = (patch) => this.#onDecided(patch);
  }

  /** From now on this node should be found dead. */
  noteDeath(machine: Machine): void {
    // One that we wrote before it died, and that nobody took back, is settled.
    if (machine.apiNode.ready?.status !== 'Unknown') this.#diedAtMs.set(machine.name, this.#simulation.nowMs);
    for (const observer of this.observers) observer.died(machine);
  }

  noteReturn(machine: Machine): void {
    this.#diedAtMs.delete(machine.name);
    for (const observer of this.observers) observer.returned(machine);
  }

  /** Deaths that nothing was decided on yet. */
  get undetected(): readonly string[] {
    return [...this.#diedAtMs.keys()];
  }

  writesFor(machine: Machine): readonly WriteRecord[] {
    return this.writes.filter((write) => write.node === machine.name);
  }

  get mistakes(): readonly WriteRecord[] {
    return this.writes.filter((write) => write.kind === 'mistake');
  }

  get partitions(): readonly WriteRecord[] {
    return this.writes.filter((write) => write.kind === 'partition');
  }

  onUnknown(name: string, patch: UnknownPatch): void {
    const machine = this.#machine(name);
    const { kubelet } = machine;
    const kind =
      !machine.isOn || !kubelet.isAlive ? 'detection' : kubelet.canReachApi ? 'mistake' : 'partition';
    this.writes.push({ node: name, atMs: this.#simulation.nowMs, reason: patch.reason, kind });
    this.onUnknownOf?.(machine);
  }

  onReady(name: string): void {
    const last = this.writes.findLast((write) => write.node === name);
    if (last !== undefined) last.takenBackAtMs ??= this.#simulation.nowMs;
    this.onReadyOf?.(this.#machine(name));
  }

  /** The verdict counts, without the API's round trip; a second PATCH after a conflict does not count anew. */
  #onDecided(patch: UnknownPatch): void {
    const diedAtMs = this.#diedAtMs.get(patch.node);
    if (diedAtMs === undefined) return;
    this.#diedAtMs.delete(patch.node);
    this.detectionsMs.push(this.#simulation.nowMs - diedAtMs);
  }

  #machine(name: string): Machine {
    let machine = this.#machines.get(name);
    machine ??= this.#simulation.machines.find((each) => each.name === name);
    if (machine === undefined) throw new Error(`there is no machine ${name}`);
    this.#machines.set(name, machine);
    return machine;
  }
}
