// Many small clusters on one control plane, judged by one Worker: each has nodes of its own by a label, an arbiter, its
// observers and a door to the API. So what takes a quarter of a minute to happen happens to all of them at once.
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { startLocalWorker, type LocalWorker } from '../../cli/local/local-worker.ts';
import { removeAtEnd, removeNow } from '../../cli/local/processes.ts';
import { tokenSecretOf } from '../../worker/config.ts';
import { ApiDoor } from './api-door.ts';
import type { ControlPlane } from './control-plane.ts';
import { applyOverlay, detectorToken, type Overlay } from './least-privilege.ts';
import { DEPLOYMENT, SHORT, StagedCluster, type ClusterPlan } from './staged-cluster.ts';

export interface StageOptions<Name extends string> {
  readonly plane: ControlPlane;
  /** The overlay of `deploy/`, and the clusters' mode. */
  readonly mode: Overlay;
  readonly clusters: Readonly<Record<Name, ClusterPlan>>;
}

export class Stage<Name extends string> {
  readonly #options: StageOptions<Name>;
  readonly #folder: string;
  readonly #clusters: ReadonlyMap<string, StagedCluster>;
  #worker: LocalWorker | undefined;

  private constructor(
    options: StageOptions<Name>,
    folder: string,
    clusters: ReadonlyMap<string, StagedCluster>,
  ) {
    this.#options = options;
    this.#folder = folder;
    this.#clusters = clusters;
  }

  /** Returns when every node of every cluster is heard. */
  static async set<Name extends string>(options: StageOptions<Name>): Promise<Stage<Name>> {
    const { plane, mode } = options;
    const folder = await mkdtemp(join(tmpdir(), 'farpulse-stage-'));
    removeAtEnd(folder);
    await applyOverlay(plane, mode);
    const detector = plane.client.as(await detectorToken(plane));
    const clusters = new Map<string, StagedCluster>();
    const stage = new Stage(options, folder, clusters);
    for (const [name, plan] of Object.entries<ClusterPlan>(options.clusters)) {
      const cluster = await StagedCluster.create({
        plane,
        name,
        plan,
        endpoint: () => stage.#worker?.url,
        door: await ApiDoor.open(detector),
        twin: plan.nodesOf === undefined ? undefined : clusters.get(plan.nodesOf),
      });
      clusters.set(name, cluster);
      await cluster.start();
    }
    await stage.startWorker();
    await Promise.all([...clusters.values()].map((cluster) => cluster.untilAlive()));
    return stage;
  }

  cluster(name: Name): StagedCluster {
    const found = this.#clusters.get(name);
    if (found === undefined) throw new Error(`no cluster ${name}`);
    return found;
  }

  /** Starts the Worker, or starts it again over the same storage. */
  async startWorker(): Promise<void> {
    const { clusters, mode } = this.#options;
    const vars = [...this.#clusters.values()].map(({ name, door, selector }) => {
      const { settings } = clusters[name as Name];
      return [
        name,
        // Many judges of one control plane, on purpose: who keeps our Lease says so in its settings.
        { apiUrl: door.url, nodeSelector: selector, mode, readers: 'open', lease: '', ...SHORT, ...settings },
      ] as const;
    });
    const tokens = [...this.#clusters.values()].map(
      ({ name, door }) => [tokenSecretOf(name), door.token] as const,
    );
    this.#worker = await startLocalWorker({
      storageFolder: join(this.#folder, 'storage'),
      vars: { DEPLOYMENT_ID: DEPLOYMENT, CLUSTERS: Object.fromEntries(vars), ...Object.fromEntries(tokens) },
    });
  }

  async stopWorker(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    await worker?.stop();
  }

  async strike(): Promise<void> {
    for (const cluster of this.#clusters.values()) cluster.killAll();
    await this.stopWorker();
    await Promise.all([...this.#clusters.values()].map(({ door }) => door.close()));
    await removeNow(this.#folder);
  }
}
