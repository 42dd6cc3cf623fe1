// The control plane's own processes: each can be ended and started again on its port, with its data.
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { ApiClient, type ApiResponse } from './api-client.ts';
import * as commandLines from './command-lines.ts';
import { answersOk } from './http-status.ts';
import { ManagedProcess } from '../../cli/local/processes.ts';
import { waitFor, type WaitOptions } from '../../cli/local/wait.ts';

export type Server = 'etcd' | 'kube-apiserver' | 'kube-controller-manager' | 'external-controller';

export class Servers {
  readonly #settings: commandLines.ControlPlaneSettings;
  readonly #running = new Map<Server, ManagedProcess>();

  constructor(settings: commandLines.ControlPlaneSettings) {
    this.#settings = settings;
  }

  async startEtcd(): Promise<void> {
    await this.#start('etcd', commandLines.etcdCommand(this.#settings));
    await this.#waitFor('etcd to be healthy', () =>
      answersOk(`http://127.0.0.1:${this.#settings.etcdPort}/health`),
    );
  }

  /** Returns the API server's own certificate, which clients have to trust, when it is ready. */
  async startApiServer(): Promise<string> {
    await this.#start('kube-apiserver', commandLines.kubeApiserverCommand(this.#settings));
    const file = commandLines.servingCertificateFile(this.#settings.folder);
    const ca = await this.#waitFor('kube-apiserver to write its certificate', () => readCertificate(file));
    const client = new ApiClient({ url: `https://127.0.0.1:${this.#settings.apiPort}`, ca });
    await this.#waitFor('kube-apiserver to be ready', () => answers(client, '/readyz'));
    client.close();
    return ca;
  }

  async startControllerManager(source: commandLines.NodeLivenessSource): Promise<void> {
    const command = commandLines.kubeControllerManagerCommand(this.#settings, source);
    await this.#start('kube-controller-manager', command);
    const file = commandLines.controllerManagerCertificateFile(this.#settings.folder);
    await this.#waitFor('kube-controller-manager to write its certificate', () => readCertificate(file));
    const client = await this.controllerManagerClient();
    await this.#waitFor('kube-controller-manager to be healthy', () => answers(client, '/healthz'));
    client.close();
  }

  async startExternalController(): Promise<void> {
    await this.#start('external-controller', commandLines.externalControllerCommand(this.#settings));
    await this.#waitFor('the external controller to be healthy', () =>
      answersOk(`${this.externalControllerUrl}/healthz`),
    );
  }

  get externalControllerUrl(): string {
    return `http://127.0.0.1:${this.#settings.externalControllerPort}`;
  }

  /** For /healthz and /metrics, which it shows to anyone here. */
  async controllerManagerClient(): Promise<ApiClient> {
    const ca = await readFile(commandLines.controllerManagerCertificateFile(this.#settings.folder), 'utf8');
    return new ApiClient({ url: `https://127.0.0.1:${this.#settings.controllerManagerPort}`, ca });
  }

  pidOf(server: Server): number {
    const running = this.#running.get(server);
    if (running === undefined) throw new Error(`${server} does not run`);
    return running.pid;
  }

  /** By default without a goodbye, as a crash. */
  async end(server: Server, signal?: NodeJS.Signals): Promise<void> {
    const running = this.#running.get(server);
    this.#running.delete(server);
    await running?.end(signal);
  }

  async endAll(): Promise<void> {
    await Promise.all([...this.#running.keys()].map((server) => this.end(server)));
  }

  /** The first server that has ended without being told to. */
  readonly died = (): Error | undefined => {
    for (const running of this.#running.values()) {
      const error = running.died();
      if (error !== undefined) return error;
    }
    return undefined;
  };

  async #start(server: Server, { command, args }: commandLines.CommandLine): Promise<void> {
    if (this.#running.has(server)) throw new Error(`${server} is running already`);
    const { folder } = this.#settings;
    const logFile = join(folder, `${server}.log`);
    this.#running.set(
      server,
      await ManagedProcess.start({ name: server, command, args, logFile, cwd: folder }),
    );
  }

  #waitFor<T>(description: string, probe: () => Promise<T | undefined | false>): Promise<T> {
    const options: WaitOptions = { timeoutMs: 90_000, giveUp: this.died };
    return waitFor(description, probe, options);
  }
}

async function answers(client: ApiClient, path: string): Promise<boolean> {
  const answer: ApiResponse = await client.respond('GET', path);
  if (answer.status === 200) return true;
  throw new Error(`${path}: ${answer.status} ${String(answer.body)}`);
}

async function readCertificate(file: string): Promise<string | undefined> {
  if (!existsSync(file)) return undefined;
  const text = await readFile(file, 'utf8');
  // The server's certificate and its CA's: anything less is still being written.
  return text.split('-----END CERTIFICATE-----').length > 2 ? text : undefined;
}
