import type { ArbiterSettings } from '../../../worker/core/arbiter/state.ts';
import { statusOf } from '../../../worker/core/arbiter/status.ts';
import type { ClusterStatus } from '../../../worker/core/arbiter/view.ts';
import type { Policy } from '../../../worker/core/policy.ts';
import { observerIdOf, shardOf } from '../../../worker/core/shard.ts';
import { ApiModel, type ApiTrouble } from './api-model.ts';
import { ArbiterHost } from './arbiter-host.ts';
import { Edge } from './edge.ts';
import { Machine } from './machine.ts';
import { Metrics } from './metrics.ts';
import { type LinkModel, Path } from './network.ts';
import { ObserverHost } from './observer-host.ts';
import type { ObjectHost } from './object-host.ts';
import { EventQueue } from './queue.ts';
import { Random } from './random.ts';

/** Where the virtual clock begins: a whole second of some day. */
export const START_MS = 1_800_000_000_000;

/** The second day of the epoch: for long runs, up to three weeks. */
export const FAST_START_MS = 86_400_000;

const CRON_MS = 60_000;

export const PRESETS = {
  steady: { intervalMs: 10_000, missedBeats: 2, marginMs: 2_000, leaseEvidence: 'wait' },
  fast: { intervalMs: 3_000, missedBeats: 2, marginMs: 1_500, leaseEvidence: 'look' },
  patient: { intervalMs: 10_000, missedBeats: 3, marginMs: 2_000, leaseEvidence: 'wait' },
} as const satisfies Record<string, Policy>;
export type Preset = keyof typeof PRESETS;

export interface SimulationOptions {
  readonly seed: number;
  readonly nodes: number;
  readonly policy?: Policy;
  /** Default: three, with a shard each. */
  readonly regions?: readonly string[];
  readonly shards?: number;
  readonly mode?: ArbiterSettings['mode'];
  /** Default: in external mode. */
  readonly watchUnenrolled?: boolean;
  /** Whether kubelets renew Leases. Without, the policy should say `off`. Default: they do. */
  readonly leases?: boolean;
  readonly hasBrokenWatch?: boolean;
  /** Nodes are dealt out to so many zones in turn. Default: one. */
  readonly zones?: number;
  /** From nodes to the edge. */
  readonly uplink?: LinkModel;
  /** State takes the way through JSON wherever the platform makes it. Slower; for tests. */
  readonly isFaithful?: boolean;
  /** Default: `START_MS`. Small numbers of milliseconds run faster, because the engine keeps them unboxed. */
  readonly startMs?: number;
}

const UPLINK: LinkModel = { delayMs: 15, jitterMs: 10, loss: 0 };
const LEG_DELAYS_MS = [10, 45, 120, 60, 80, 100, 130];
const API_PATH: LinkModel = { delayMs: 20, jitterMs: 20, loss: 0 };

/** A cluster, its nodes, and a whole deployment of farpulse, in one virtual time. */
export class Simulation {
  readonly queue: EventQueue;
  readonly random: Random;
  /** For scenarios: what befalls whom and when does not depend on what else is drawn. */
  readonly script: Random;
  readonly api: ApiModel;
  /** Region by region, and shard by shard within it. */
  readonly observers: readonly ObserverHost[];
  readonly arbiter: ArbiterHost;
  /** From the edge to each region. */
  readonly legs: readonly Path[];
  readonly edge: Edge;
  readonly machines: Machine[] = [];
  readonly metrics: Metrics;
  readonly settings: ArbiterSettings;
  readonly #options: SimulationOptions;
  readonly #quorum: number;

  constructor(options: SimulationOptions) {
    this.#options = options;
    const {
      seed,
      nodes,
      policy = PRESETS.steady,
      shards = 1,
      mode = 'external',
      isFaithful = false,
    } = options;
    const regions = options.regions ?? ['weur', 'enam', 'apac'];
    const queue = new EventQueue(options.startMs ?? START_MS);
    this.queue = queue;
    this.random = new Random(seed);
    this.script = new Random(~seed);
    const random = this.random;
    this.#quorum = Math.floor(regions.length / 2) + 1;
    this.api = new ApiModel(queue);
    this.settings = {
      cluster: 'sim',
      mode,
      regions,
      shards,
      quorum: this.#quorum,
      policy,
      hasApi: true,
      watchUnenrolled: options.watchUnenrolled ?? mode === 'external',
      lease: { name: 'farpulse-detector', holder: 'test/sim' },
    };
    this.arbiter = new ArbiterHost({
      queue,
      random: random.fork(),
      settings: this.settings,
      api: this.api,
      apiPath: new Path(API_PATH, random.fork()),
      isFaithful,
    });
    this.legs = regions.map((_, region) => new Path(legModel(region), random.fork()));
    this.observers = regions.flatMap((region, index) =>
      Array.from(
        { length: shards },
        (_, shard) =>
          new ObserverHost({
            queue,
            random: random.fork(),
            identity: { observer: observerIdOf(region, shard, shards), region, shard },
            policy,
            path: new Path(legModel(index), random.fork()),
            arbiter: this.arbiter,
            isFaithful,
          }),
      ),
    );
    this.arbiter.observers = this.observers;
    this.edge = new Edge({
      queue,
      legs: this.legs,
      earOf: (region, node) => this.observers[region * shards + shardOf(node, shards)] as ObserverHost,
      deadlineMs: Math.min(1_000, policy.intervalMs / 4),
    });
    this.metrics = new Metrics(this);
    for (let i = 0; i < nodes; i++) this.addMachine().boot();
    for (const host of [this.arbiter, ...this.observers]) this.#cron(host, random.between(0, CRON_MS));
  }

  get nowMs(): number {
    return this.queue.nowMs;
  }

  /** The machine of this index; there must be one. */
  machine(index: number): Machine {
    const machine = this.machines[index];
    if (machine === undefined) throw new Error(`there is no machine ${index}`);
    return machine;
  }

  /** A further machine with its Node object, switched off. */
  addMachine(): Machine {
    const index = this.machines.length;
    const {
      policy = PRESETS.steady,
      uplink = UPLINK,
      leases = true,
      hasBrokenWatch = false,
      zones = 1,
    } = this.#options;
    const { queue, random, api, edge } = this;
    const machine = new Machine(
      {
        queue,
        random,
        api,
        edge,
        quorum: this.#quorum,
        policy,
        name: `node-${index}`,
        zone: `zone-${index % zones}`,
        uplink: new Path(uplink, random.fork()),
        kubelet: { renewsLease: leases, hasBrokenWatch },
      },
      index,
    );
    this.machines.push(machine);
    return machine;
  }

  /** Runs on for so long. */
  run(forMs: number): void {
    this.queue.runUntil(this.queue.nowMs + forMs);
  }

  /** Does something so long from now, while it runs. */
  in(delayMs: number, action: () => void): void {
    this.queue.after(delayMs, action);
  }

  setApiTrouble(trouble: ApiTrouble): void {
    // Kubelets have spoken up to now; from now on by the new state.
    for (const machine of this.machines) machine.kubelet.advance(this.nowMs);
    this.api.trouble = trouble;
    for (const machine of this.machines) machine.setApiReach();
  }

  status(): ClusterStatus {
    return statusOf(this.arbiter.state, Math.floor(this.nowMs + this.arbiter.clockOffsetMs));
  }

  phaseOf(machine: Machine): string | undefined {
    return this.arbiter.state.nodes.get(machine.name)?.phase;
  }

  #cron(host: ObjectHost, inMs: number): void {
    this.queue.after(inMs, () => {
      host.poke();
      this.#cron(host, CRON_MS);
    });
  }
}

function legModel(region: number): LinkModel {
  const delayMs = LEG_DELAYS_MS[region % LEG_DELAYS_MS.length] ?? 50;
  return { delayMs, jitterMs: delayMs / 2, loss: 0 };
}
