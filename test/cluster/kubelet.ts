// A hollow kubelet: the real kubelet's code over a fake container runtime, as one process that can be
// killed, paused and started again.
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { answersOk } from './http-status.ts';
import { ManagedProcess, removeAtEnd, removeNow } from '../../cli/local/processes.ts';
import { waitFor } from '../../cli/local/wait.ts';

export interface KubeletOptions {
  readonly name: string;
  /** The kubemark binary. */
  readonly binary: string;
  readonly kubeconfig: string;
  readonly folder: string;
  readonly port: number;
  readonly readOnlyPort: number;
  readonly labels: Readonly<Record<string, string>>;
}

export class Kubelet {
  readonly name: string;
  /** The kubelet's own credential: it may write its own Node and no other. */
  readonly kubeconfig: string;
  /** Answers `ok`. On the read-only port: a hollow kubelet opens no port 10248. */
  readonly healthzUrl: string;
  readonly logFile: string;
  readonly #options: KubeletOptions;
  #process: ManagedProcess | undefined;

  constructor(options: KubeletOptions) {
    this.#options = options;
    this.name = options.name;
    this.kubeconfig = options.kubeconfig;
    this.healthzUrl = `http://127.0.0.1:${options.readOnlyPort}/healthz`;
    this.logFile = join(options.folder, 'kubelet.log');
  }

  get running(): boolean {
    return this.#process?.running ?? false;
  }

  get pid(): number {
    if (this.#process === undefined) throw new Error(`the kubelet of ${this.name} was not started`);
    return this.#process.pid;
  }

  /** Starts it, or starts it again under its name and ports; returns when /healthz answers ok. */
  async start(): Promise<void> {
    if (this.running) throw new Error(`the kubelet of ${this.name} is running already`);
    const { name, binary, kubeconfig, folder, port, readOnlyPort, labels } = this.#options;
    const tmp = join(folder, 'tmp');
    await mkdir(tmp, { recursive: true });
    const started = await ManagedProcess.start({
      name: `the kubelet of ${name}`,
      command: binary,
      args: [
        '--morph=kubelet',
        `--name=${name}`,
        `--kubeconfig=${kubeconfig}`,
        `--kubelet-port=${port}`,
        `--kubelet-read-only-port=${readOnlyPort}`,
        '--use-host-image-service=false',
        // Has it log its runtime's socket, for #strays.
        '--vmodule=remote_runtime=3',
        `--node-labels=${Object.entries(labels)
          .map(([key, value]) => `${key}=${value}`)
          .join(',')}`,
      ],
      env: { TMPDIR: tmp },
      cwd: folder,
      logFile: this.logFile,
    });
    this.#process = started;
    await waitFor(`${this.healthzUrl} of ${name} to answer ok`, () => this.isHealthy(), {
      timeoutMs: 60_000,
      giveUp: started.died,
    });
    for (const path of await this.#strays()) removeAtEnd(path);
  }

  /** Ends it without a goodbye, as a crash would (or with another signal); returns when it is gone. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await this.#process?.end(signal);
    for (const path of await this.#strays()) await removeNow(path);
  }

  /** Freezes it: to the cluster this looks like a partition that may heal. */
  pause(): void {
    this.#process?.signal('SIGSTOP');
  }

  resume(): void {
    this.#process?.signal('SIGCONT');
  }

  /** Whether /healthz answers ok within a second. */
  isHealthy(): Promise<boolean> {
    return answersOk(this.healthzUrl);
  }

  /** kubemark makes its root folder and its runtime's socket in /tmp, whatever TMPDIR says. */
  async #strays(): Promise<string[]> {
    const log = await readFile(this.logFile, 'utf8').catch(() => '');
    const found = log.matchAll(/\/tmp\/(?:hollow-kubelet\.\d+|kubelet_remote_\d+\.sock)/g);
    return [...new Set([...found].map(([path]) => path))];
  }
}
