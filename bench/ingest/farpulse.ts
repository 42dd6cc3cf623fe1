import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from 'miniflare';
import { buildBundle } from '../../cli/local/bundle.ts';
import { COMPATIBILITY_DATE } from '../../cli/local/local-worker.ts';
import { removeAtEnd, removeNow } from '../../cli/local/processes.ts';
import { StatusClient, type ClusterView } from '../../cli/local/status-client.ts';
import { descendants } from '../support/usage.ts';
import { CLUSTER, DEPLOYMENT, type RegisteredKeys } from './fleet.ts';

export const REGIONS = ['weur', 'enam', 'apac'] as const;

const CRON_MS = 60_000;

/** The production bundle in local workerd: one process that is the router, three observers and the arbiter. */
export class Farpulse {
  readonly url: string;
  /** workerd's. */
  readonly pids: readonly number[];
  readonly folder: string;
  readonly #miniflare: Miniflare;
  readonly #cron: NodeJS.Timeout;

  private constructor(
    miniflare: Miniflare,
    url: string,
    pids: readonly number[],
    folder: string,
    cron: NodeJS.Timeout,
  ) {
    this.#miniflare = miniflare;
    this.url = url;
    this.pids = pids;
    this.folder = folder;
    this.#cron = cron;
  }

  /**
   * Beats come in by a socket of their own: the address that Miniflare gives otherwise leads through a Worker of
   * Miniflare's, which the edge does not have and which costs about as much as ours.
   */
  static async start(keys: RegisteredKeys): Promise<Farpulse> {
    const { script } = await buildBundle();
    const folder = await mkdtemp(join(tmpdir(), 'farpulse-bench-'));
    removeAtEnd(folder);
    const before = new Set(descendants(process.pid, 'workerd'));
    const miniflare = new Miniflare(
      convertV4MiniflareOptions({
        name: 'farpulse',
        modules: [{ type: 'ESModule', path: 'index.js', contents: script }],
        compatibilityDate: COMPATIBILITY_DATE,
        host: '127.0.0.1',
        port: 0,
        unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }],
        durableObjects: {
          OBSERVER: { className: 'Observer', useSQLite: true },
          ARBITER: { className: 'Arbiter', useSQLite: true },
        },
        durableObjectsPersist: folder,
        bindings: {
          DEPLOYMENT_ID: DEPLOYMENT,
          CLUSTERS: { [CLUSTER]: { mode: 'observe', regions: [...REGIONS], readers: 'open', keys } },
        },
        log: new Log(LogLevel.ERROR),
        logRequests: false,
        cf: false,
      }),
    );
    const url = (await miniflare.unsafeGetDirectURL('farpulse')).origin;
    const pids = descendants(process.pid, 'workerd').filter((pid) => !before.has(pid));
    if (pids.length === 0) throw new Error('workerd runs, but not as a process of ours');
    const worker = await miniflare.getWorker();
    // Local workerd never fires a cron trigger by itself.
    const fireCron = (): void => {
      worker.scheduled({ cron: '* * * * *' }).catch(() => {});
    };
    fireCron();
    return new Farpulse(miniflare, url, pids, folder, setInterval(fireCron, CRON_MS));
  }

  status(): Promise<ClusterView> {
    return new StatusClient(this.url, CLUSTER).cluster();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#cron);
    await this.#miniflare.dispose();
    await removeNow(this.folder);
  }
}
