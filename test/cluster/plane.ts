// A running control plane, as tests see it.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import { ApiClient, type ApiResponse, type Method } from './api-client.ts';
import { readAuditLog, type AuditEvent } from './audit.ts';
import {
  auditLogFile,
  etcdDataFolder,
  servingCertificateFile,
  type ControlPlaneSettings,
  type NodeLivenessSource,
} from './command-lines.ts';
import { ADMIN, kubeletAccount, writeKubeconfig } from './credentials.ts';
import { Kubelet } from './kubelet.ts';
import { nodeLeasePath, readyCondition, type Lease, type Node, type Pod } from './objects.ts';
import { freePort } from './ports.ts';
import { removeNow, runCommand } from '../../cli/local/processes.ts';
import { Servers, type Server } from './servers.ts';
import { waitFor, type Note, type WaitOptions } from '../../cli/local/wait.ts';
import * as workloads from './workloads.ts';

/** Set to keep logs and data of every control plane. */
export const KEEP_LOGS = (process.env['FARPULSE_KEEP_LOGS'] ?? '') !== '';

export interface StartKubeletOptions {
  readonly zone?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

export class ControlPlane {
  readonly url: string;
  readonly adminKubeconfig: string;
  readonly adminToken: string;
  /** Logs and data; gone after `stop()`, unless FARPULSE_KEEP_LOGS is set. */
  readonly folder: string;
  readonly #settings: ControlPlaneSettings;
  readonly #tokens: ReadonlyMap<string, string>;
  readonly #servers: Servers;
  readonly #kubelets = new Map<string, Kubelet>();
  #ca = '';
  #source: NodeLivenessSource = 'kubelet';
  #client: ApiClient | undefined;

  constructor(settings: ControlPlaneSettings, tokens: ReadonlyMap<string, string>) {
    this.#settings = settings;
    this.#servers = new Servers(settings);
    this.#tokens = tokens;
    this.folder = settings.folder;
    this.url = `https://127.0.0.1:${settings.apiPort}`;
    this.adminKubeconfig = settings.adminKubeconfig;
    this.adminToken = this.tokenOf(ADMIN.user);
  }

  /** PEM: the certificate the API server made for itself and the CA it made for that. */
  get caFile(): string {
    return servingCertificateFile(this.folder);
  }

  /** The text of `caFile`. */
  get ca(): string {
    return this.#ca;
  }

  /** As cluster admin; `client.as(token)` is another account. */
  get client(): ApiClient {
    if (this.#client === undefined) throw new Error('the control plane is not up');
    return this.#client;
  }

  /** For measuring what they use. Throws for one that does not run. */
  pidOf(server: Server): number {
    return this.#servers.pidOf(server);
  }

  get etcdDataFolder(): string {
    return etcdDataFolder(this.folder);
  }

  tokenOf(user: string): string {
    const token = this.#tokens.get(user);
    if (token === undefined)
      throw new Error(`no token for ${user}: known are ${[...this.#tokens.keys()].join(', ')}`);
    return token;
  }

  /** A kubeconfig of one of the accounts; returns the file. */
  async writeKubeconfig(user: string): Promise<string> {
    const file = join(this.folder, `${user.replaceAll(':', '.')}.kubeconfig`);
    await writeKubeconfig(file, { url: this.url, ca: this.#ca, user, token: this.tokenOf(user) });
    return file;
  }

  request<T = unknown>(
    method: Method,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<T> {
    return this.client.request<T>(method, path, body, headers);
  }

  respond(
    method: Method,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<ApiResponse> {
    return this.client.respond(method, path, body, headers);
  }

  /** kubectl as cluster admin; returns what it printed. */
  kubectl(...args: readonly string[]): Promise<string> {
    return runCommand(this.#settings.binaries.kubectl, [`--kubeconfig=${this.adminKubeconfig}`, ...args]);
  }

  /** `kubectl apply` of a manifest's text. */
  apply(manifest: string): Promise<string> {
    const args = [`--kubeconfig=${this.adminKubeconfig}`, 'apply', '-f', '-'];
    return runCommand(this.#settings.binaries.kubectl, args, { input: manifest });
  }

  /** As `waitFor`, but ends at once when a server has died meanwhile. */
  waitFor<T>(
    description: string,
    probe: (note: Note) => Promise<T | undefined | null | false> | T | undefined | null | false,
    options: WaitOptions = {},
  ): Promise<T> {
    const giveUp = (): Error | undefined => options.giveUp?.() ?? this.#servers.died();
    return waitFor(description, probe, { ...options, giveUp });
  }

  // --- Nodes -------------------------------------------------------------------------------------

  /** A hollow node; returns when its Node is Ready. It has the name as its hostname label. */
  async startKubelet(name: string, options: StartKubeletOptions = {}): Promise<Kubelet> {
    if (this.#kubelets.has(name)) throw new Error(`${name} exists: start its kubelet again with start()`);
    const { zone, labels = {} } = options;
    const folder = join(this.folder, name);
    await mkdir(folder);
    const kubelet = new Kubelet({
      name,
      binary: this.#settings.binaries.kubemark,
      kubeconfig: await this.writeKubeconfig(kubeletAccount(name).user),
      folder,
      port: await freePort(),
      readOnlyPort: await freePort(),
      labels: zone === undefined ? labels : { 'topology.kubernetes.io/zone': zone, ...labels },
    });
    this.#kubelets.set(name, kubelet);
    await kubelet.start();
    await this.waitForNode(name, 'True', { timeoutMs: 60_000 });
    return kubelet;
  }

  node(name: string): Promise<Node> {
    return this.request<Node>('GET', `/api/v1/nodes/${name}`);
  }

  /** Until the Node's Ready condition has that status. */
  waitForNode(name: string, status: 'True' | 'False' | 'Unknown', options?: WaitOptions): Promise<Node> {
    const look = async (note: Note): Promise<Node | undefined> => {
      const node = await this.node(name);
      const ready = readyCondition(node);
      note(ready);
      return ready?.status === status ? node : undefined;
    };
    return this.waitFor(`node ${name} to have Ready=${status}`, look, options);
  }

  /**
   * Until the node has a Lease. One that is new may get it 10 s after it is Ready: the kubelet does not
   * make a Lease while its Node is not registered, and tries again at the next renewal only.
   */
  waitForLease(name: string, options?: WaitOptions): Promise<Lease> {
    return this.waitFor(
      `the Lease of ${name}`,
      () => this.request<Lease>('GET', nodeLeasePath(name)),
      options,
    );
  }

  // --- Pods --------------------------------------------------------------------------------------

  createPod(name: string, nodeName: string, options?: workloads.PodOptions): Promise<Pod> {
    return workloads.createPod(this.client, name, nodeName, options);
  }

  createService(name: string, selector: Readonly<Record<string, string>>, namespace?: string): Promise<void> {
    return workloads.createService(this.client, name, selector, namespace);
  }

  readyEndpoints(service: string, namespace?: string): Promise<string[]> {
    return workloads.readyEndpoints(this.client, service, namespace);
  }

  /**
   * Until the pod's Ready condition has that status; for True also until it is Running, which a hollow
   * kubelet may say a moment later.
   */
  waitForPod(
    name: string,
    status: 'True' | 'False',
    options?: WaitOptions & { namespace?: string },
  ): Promise<Pod> {
    const namespace = options?.namespace ?? 'default';
    const look = async (note: Note): Promise<Pod | undefined> => {
      const pod = await this.request<Pod>('GET', `/api/v1/namespaces/${namespace}/pods/${name}`);
      const ready = readyCondition(pod);
      note({ phase: pod.status.phase, ready });
      if (status === 'True' && pod.status.phase !== 'Running') return undefined;
      return ready?.status === status ? pod : undefined;
    };
    return this.waitFor(`pod ${name} to have Ready=${status}`, look, options);
  }

  // --- Servers -----------------------------------------------------------------------------------

  /** Called once, by startControlPlane. */
  async startAll(source: NodeLivenessSource | undefined): Promise<void> {
    await this.#servers.startEtcd();
    await this.startApiServer();
    if (source !== undefined) await this.startControllerManager(source);
    else await workloads.createDefaultServiceAccount(this.client, 'default');
    await this.waitFor('the default ServiceAccount', () =>
      workloads.hasDefaultServiceAccount(this.client, 'default'),
    );
  }

  /** The first time or again: on the same port, with the same certificate and data. */
  async startApiServer(): Promise<void> {
    const ca = await this.#servers.startApiServer();
    this.#ca = ca;
    this.#client ??= new ApiClient({ url: this.url, ca, token: this.adminToken });
    await writeKubeconfig(this.adminKubeconfig, {
      url: this.url,
      ca,
      user: ADMIN.user,
      token: this.adminToken,
    });
  }

  /** By default as a crash. SIGTERM lets it wait for open watches, which takes all of the 10 s it is given. */
  async stopApiServer(signal?: NodeJS.Signals): Promise<void> {
    await this.#servers.end('kube-apiserver', signal);
    this.#client?.close();
  }

  /**
   * The controllers: all in kube-controller-manager, or, with an external source of liveness, those of nodes in the
   * stand-in beside it. Started again with the source they had, unless another one is named.
   */
  async startControllerManager(source = this.#source): Promise<void> {
    this.#source = source;
    await Promise.all([
      this.#servers.startControllerManager(source),
      source === 'external' && this.#servers.startExternalController(),
    ]);
  }

  async stopControllerManager(signal?: NodeJS.Signals): Promise<void> {
    await Promise.all([
      this.#servers.end('kube-controller-manager', signal),
      this.#servers.end('external-controller', signal),
    ]);
  }

  async restartControllerManager(source?: NodeLivenessSource): Promise<void> {
    await this.stopControllerManager();
    await this.startControllerManager(source);
  }

  /** Of the node controllers with an external source of liveness, in Prometheus' text format. */
  async externalControllerMetrics(): Promise<string> {
    return (await fetch(`${this.#servers.externalControllerUrl}/metrics`)).text();
  }

  /** In Prometheus' text format. */
  async controllerManagerMetrics(): Promise<string> {
    const client = await this.#servers.controllerManagerClient();
    try {
      return await client.request<string>('GET', '/metrics');
    } finally {
      client.close();
    }
  }

  /** What `auditUsers` have asked so far, oldest first. */
  auditLog(): Promise<AuditEvent[]> {
    if (this.#settings.auditPolicyFile === undefined) throw new Error('started without auditUsers');
    return readAuditLog(auditLogFile(this.folder));
  }

  /** Ends exactly what was started and removes the folder. Safe to call again. */
  async stop(): Promise<void> {
    // Nothing of the state is wanted any more, so nobody gets time for a goodbye.
    const kubelets = [...this.#kubelets.values()].map((kubelet) => kubelet.kill());
    const ended = await Promise.allSettled([...kubelets, this.#servers.endAll()]);
    this.#client?.close();
    if (KEEP_LOGS) process.stderr.write(`control plane: logs kept in ${this.folder}\n`);
    else await removeNow(this.folder);
    for (const result of ended) if (result.status === 'rejected') throw result.reason;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}
