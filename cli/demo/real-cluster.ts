import { KubeConfig } from '@kubernetes/client-node';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startApiForwarder, type ApiTarget } from '../local/api-forwarder.ts';
import { startLocalWorker } from '../local/local-worker.ts';
import { removeAtEnd, removeNow } from '../local/processes.ts';
import { StatusClient } from '../local/status-client.ts';
import { waitFor } from '../local/wait.ts';
import { CLUSTER, DEPLOYMENT } from './lab.ts';

export interface RealClusterOptions {
  readonly kubeconfig: string;
  readonly context: string | undefined;
  readonly port: number | undefined;
}

/** Listing the Nodes of a large cluster over a slow path may take its time. */
const LIST_MS = 60_000;

/** Any kubeconfig that kubectl takes: tokens, certificates, exec plugins. */
export function targetOf(file: string, context: string | undefined): ApiTarget {
  const config = new KubeConfig();
  config.loadFromFile(file);
  if (context !== undefined) config.setCurrentContext(context);
  const cluster = config.getCurrentCluster();
  if (cluster === null) throw new Error(`${file}: context "${config.getCurrentContext()}" names no cluster`);
  return { url: cluster.server, authenticate: (options) => config.applyToHTTPSOptions(options) };
}

/** Runs the Worker against a real cluster in observe mode until told to stop: nothing is written to the cluster. */
export async function watchRealCluster(options: RealClusterOptions, stop: Promise<void>): Promise<void> {
  const target = targetOf(options.kubeconfig, options.context);
  const folder = await mkdtemp(join(tmpdir(), 'farpulse-observe-'));
  removeAtEnd(folder);
  const forwarder = await startApiForwarder(target);
  const worker = await startLocalWorker({
    storageFolder: folder,
    ...(options.port !== undefined && { port: options.port }),
    vars: {
      DEPLOYMENT_ID: DEPLOYMENT,
      CLUSTERS: { [CLUSTER]: { apiUrl: forwarder.url, mode: 'observe', readers: 'open' } },
      [`KUBE_TOKEN_${CLUSTER.toUpperCase()}`]: forwarder.token,
    },
  });
  try {
    const status = new StatusClient(worker.url, CLUSTER);
    console.log(`Observing ${target.url}. Nothing is written to it.\nPage:   ${worker.url}/`);
    const { inventory } = await waitFor(
      'the list of Nodes',
      async (note) => {
        const cluster = await status.cluster();
        note(cluster.api);
        return cluster.inventory.listedAgoSeconds !== undefined && cluster;
      },
      { timeoutMs: LIST_MS, intervalMs: 250 },
    );
    console.log(`Nodes:  ${inventory.nodes}, of which ${inventory.enrolled} have a beacon's key.`);
    console.log(`
A beacon on a node that reaches this machine:
  farpulse-beacon --endpoint ${worker.url} --deployment ${DEPLOYMENT} --cluster ${CLUSTER}
Ctrl-C ends this.`);
    await stop;
  } finally {
    await worker.stop();
    await forwarder.stop();
    await removeNow(folder);
  }
}
