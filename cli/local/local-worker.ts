import { convertV4MiniflareOptions, type Json, Log, LogLevel, Miniflare } from 'miniflare';
import { buildBundle } from './bundle.ts';

/** Below `wrangler.toml`'s: the newest date that the pinned workerd knows. A test compares the two. */
export const COMPATIBILITY_DATE = '2026-11-01';

/** Cron's pace. Local workerd never fires a cron trigger by itself. */
const CRON_MS = 60_000;

export interface LocalWorkerOptions {
  /** Variables and secrets, as in `wrangler.toml`. */
  readonly vars: Readonly<Record<string, Json>>;
  /** Where the Durable Objects' storage lives; it outlives the Worker, as it does at the edge. */
  readonly storageFolder: string;
  /** 0 or left out: a free one. Keep the number to start the Worker again under the same address. */
  readonly port?: number;
  /** Show the Worker's own log. */
  readonly verbose?: boolean;
  /**
   * Answer on a socket of the Worker's own. The usual address leads through a Worker of Miniflare's, which the edge does
   * not have: whoever measures does not want its cost.
   */
  readonly direct?: boolean;
}

/** The production bundle in local workerd. */
export interface LocalWorker {
  readonly url: string;
  readonly port: number;
  stop(): Promise<void>;
}

/**
 * Starts the Worker as it would run at the edge: same bundle, same objects, cron once a minute. Regions are only
 * names here: all objects live in one process.
 */
export async function startLocalWorker(options: LocalWorkerOptions): Promise<LocalWorker> {
  const { script } = await buildBundle();
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      name: 'farpulse',
      modules: [{ type: 'ESModule', path: 'index.js', contents: script }],
      compatibilityDate: COMPATIBILITY_DATE,
      host: '127.0.0.1',
      port: options.port ?? 0,
      ...(options.direct === true && { unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }] }),
      durableObjects: {
        OBSERVER: { className: 'Observer', useSQLite: true },
        ARBITER: { className: 'Arbiter', useSQLite: true },
      },
      resourcePersistencePath: options.storageFolder,
      bindings: { ...options.vars },
      log: new Log(options.verbose === true ? LogLevel.INFO : LogLevel.ERROR),
      logRequests: false,
      // No look-up of this machine's place on the internet.
      cf: false,
    }),
  );
  const ready = await miniflare.ready;
  const url = options.direct === true ? await miniflare.unsafeGetDirectURL('farpulse') : ready;
  const worker = await miniflare.getWorker();
  const fireCron = (): void => {
    // A failed tick is what a missed cron tick is at the edge: the next one comes.
    worker.scheduled({ cron: '* * * * *' }).catch(() => {});
  };
  fireCron();
  const cron = setInterval(fireCron, CRON_MS);
  return {
    url: url.origin,
    port: Number(url.port),
    stop: async () => {
      clearInterval(cron);
      await miniflare.dispose();
    },
  };
}
