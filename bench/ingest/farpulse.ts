import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startLocalWorker, type LocalWorker } from '../../cli/local/local-worker.ts';
import { removeAtEnd, removeNow } from '../../cli/local/processes.ts';
import { StatusClient, type ClusterView } from '../../cli/local/status-client.ts';
import { descendants } from '../support/usage.ts';
import { CLUSTER, DEPLOYMENT, REGIONS, SHARDS, type RegisteredKeys } from './fleet.ts';

/** The production bundle in local workerd: one process that is the router, the observers and the arbiter. */
export class Farpulse {
  readonly url: string;
  /** workerd's. */
  readonly pids: readonly number[];
  readonly folder: string;
  readonly #worker: LocalWorker;

  private constructor(worker: LocalWorker, pids: readonly number[], folder: string) {
    this.#worker = worker;
    this.url = worker.url;
    this.pids = pids;
    this.folder = folder;
  }

  static async start(keys: RegisteredKeys): Promise<Farpulse> {
    const folder = await mkdtemp(join(tmpdir(), 'farpulse-bench-'));
    removeAtEnd(folder);
    const before = new Set(descendants(process.pid, 'workerd'));
    const worker = await startLocalWorker({
      vars: {
        DEPLOYMENT_ID: DEPLOYMENT,
        CLUSTERS: {
          [CLUSTER]: { mode: 'observe', regions: [...REGIONS], shards: SHARDS, readers: 'open', keys },
        },
      },
      storageFolder: folder,
      direct: true,
    });
    const pids = descendants(process.pid, 'workerd').filter((pid) => !before.has(pid));
    if (pids.length === 0) throw new Error('workerd runs, but not as a process of ours');
    return new Farpulse(worker, pids, folder);
  }

  status(): Promise<ClusterView> {
    return new StatusClient(this.url, CLUSTER).cluster();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.stop();
    await removeNow(this.folder);
  }
}
