import { join } from 'node:path';
import { ManagedProcess } from './processes.ts';

const BEACON = join(import.meta.dirname, '../../node-beacon/main.ts');

export interface BeaconOptions {
  readonly endpoint: string;
  readonly deployment: string;
  readonly cluster: string;
  readonly node: string;
  readonly kubeconfig: string;
  readonly kubeletHealthz: string;
  readonly intervalSeconds: number;
  /** For its key and its log. */
  readonly folder: string;
}

/** A real beacon, as systemd would run it, that can be killed and started again like its node. */
export class BeaconProcess {
  readonly #options: BeaconOptions;
  #process: ManagedProcess | undefined;

  constructor(options: BeaconOptions) {
    this.#options = options;
  }

  /** A running beacon stays as it is. */
  async start(): Promise<void> {
    if (this.#process?.running === true) return;
    const { endpoint, deployment, cluster, node, kubeconfig, kubeletHealthz, intervalSeconds, folder } =
      this.#options;
    const settings = {
      endpoint,
      deployment,
      cluster,
      node,
      kubeconfig,
      'key-file': join(folder, `${node}.beacon.key`),
      'kubelet-healthz': kubeletHealthz,
      'interval-seconds': String(intervalSeconds),
    };
    this.#process = await ManagedProcess.start({
      name: `beacon of ${node}`,
      command: process.execPath,
      args: [BEACON, ...Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])],
      logFile: join(folder, `${node}.beacon.log`),
    });
  }

  /** SIGKILL: it says nothing, as a machine that dies says nothing. */
  async kill(): Promise<void> {
    await this.#process?.end('SIGKILL');
  }

  /** For `waitFor`: why there is nothing to wait for any more. */
  died(): Error | undefined {
    return this.#process?.died();
  }
}
