// farpulse over a real control plane: the production bundle in local workerd, a real beacon process on
// every node, and the account through which it writes, whose every request is on record.
import { mkdtemp } from 'node:fs/promises';
import type { OutgoingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { startApiForwarder, type ApiForwarder } from '../../cli/local/api-forwarder.ts';
import { BeaconProcess } from '../../cli/local/beacon-process.ts';
import { startLocalWorker, type LocalWorker } from '../../cli/local/local-worker.ts';
import { removeAtEnd, removeNow } from '../../cli/local/processes.ts';
import { StatusClient, type ClusterView, type NodeView } from '../../cli/local/status-client.ts';
import type { AuditEvent } from './audit.ts';
import { BreakableLink } from './breakable-link.ts';
import type { ControlPlane, Kubelet } from './control-plane.ts';
import { applyOverlay, DETECTOR, detectorToken } from './least-privilege.ts';

const DEPLOYMENT = 'test';
const CLUSTER = 'lab';

/** One table of `[vars.CLUSTERS]`, without the address. */
export type ClusterSettings = Readonly<Record<string, string | number>>;

/** The way from workerd to the API server, as the account that an overlay has made. Good for an hour. */
export async function startDetectorForwarder(plane: ControlPlane): Promise<ApiForwarder> {
  const authorization = `Bearer ${await detectorToken(plane)}`;
  const { ca } = plane;
  return startApiForwarder({
    url: plane.url,
    authenticate: (options) => {
      options.ca = ca;
      // SAFETY: the forwarder gives an object, never the list form.
      options.headers = { ...(options.headers as OutgoingHttpHeaders), authorization };
      return Promise.resolve();
    },
  });
}

export class Farpulse {
  readonly status: StatusClient;
  readonly #plane: ControlPlane;
  readonly #folder: string;
  readonly #forwarder: ApiForwarder;
  readonly #link: BreakableLink;
  readonly #beacons = new Map<string, BeaconProcess>();
  #worker: LocalWorker | undefined;

  private constructor(plane: ControlPlane, folder: string, forwarder: ApiForwarder, link: BreakableLink) {
    this.#plane = plane;
    this.#folder = folder;
    this.#forwarder = forwarder;
    this.#link = link;
    this.status = new StatusClient(link.url, CLUSTER);
  }

  static async create(plane: ControlPlane): Promise<Farpulse> {
    const folder = await mkdtemp(join(tmpdir(), 'farpulse-story-'));
    removeAtEnd(folder);
    // As an operator gives it: the shipped account, permissions and policies, and nothing more.
    await applyOverlay(plane, 'compat');
    const forwarder = await startDetectorForwarder(plane);
    return new Farpulse(plane, folder, forwarder, await BreakableLink.start());
  }

  /** Of the Worker, as beacons and operators reach it. */
  get url(): string {
    return this.#link.url;
  }

  /** Starts the Worker, or starts it again over the same storage, with these settings. */
  async startWorker(
    settings: ClusterSettings,
    secrets: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    this.#worker = await startLocalWorker({
      storageFolder: join(this.#folder, 'storage'),
      vars: {
        DEPLOYMENT_ID: DEPLOYMENT,
        CLUSTERS: { [CLUSTER]: { apiUrl: this.#forwarder.url, readers: 'open', ...settings } },
        [`KUBE_TOKEN_${CLUSTER.toUpperCase()}`]: this.#forwarder.token,
        ...secrets,
      },
    });
    this.#link.mend(this.#worker.port);
  }

  async stopWorker(): Promise<void> {
    this.#link.cut();
    await this.#worker?.stop();
    this.#worker = undefined;
  }

  async restartWorker(settings: ClusterSettings): Promise<void> {
    await this.stopWorker();
    await this.startWorker(settings);
  }

  /** The way from all beacons to the Worker is gone. The status can be asked directly. */
  cutBeacons(): StatusClient {
    if (this.#worker === undefined) throw new Error('the Worker is not running');
    this.#link.cut();
    return new StatusClient(this.#worker.url, CLUSTER);
  }

  mendBeacons(): void {
    if (this.#worker === undefined) throw new Error('the Worker is not running');
    this.#link.mend(this.#worker.port);
  }

  /** The beacon of a node; made at the first call, not started. */
  beacon(kubelet: Kubelet): BeaconProcess {
    let beacon = this.#beacons.get(kubelet.name);
    if (beacon === undefined) {
      beacon = new BeaconProcess({
        endpoint: this.#link.url,
        deployment: DEPLOYMENT,
        cluster: CLUSTER,
        node: kubelet.name,
        kubeconfig: kubelet.kubeconfig,
        kubeletHealthz: kubelet.healthzUrl,
        intervalSeconds: 10,
        folder: this.#folder,
      });
      this.#beacons.set(kubelet.name, beacon);
    }
    return beacon;
  }

  /** Until farpulse says so of a node. */
  waitForNode(
    name: string,
    what: string,
    isSo: (node: NodeView) => boolean,
    timeoutMs = 60_000,
    status = this.status,
  ): Promise<NodeView> {
    return this.#plane.waitFor(
      `${name} to be ${what}`,
      async (note) => {
        const node = await status.node(name);
        note(node === undefined ? 'no such node' : { phase: node.phase, cause: node.cause, why: node.why });
        return node !== undefined && isSo(node) ? node : undefined;
      },
      { timeoutMs, intervalMs: 250 },
    );
  }

  waitForPhase(name: string, phase: NodeView['phase'], timeoutMs?: number): Promise<NodeView> {
    return this.waitForNode(name, phase, (node) => node.phase === phase, timeoutMs);
  }

  /** Until farpulse says so of the cluster. */
  waitForCluster(
    what: string,
    isSo: (cluster: ClusterView) => boolean,
    timeoutMs = 60_000,
    status = this.status,
  ): Promise<ClusterView> {
    return this.#plane.waitFor(
      `the cluster to be ${what}`,
      async (note) => {
        const cluster = await status.cluster();
        note({
          state: cluster.state,
          why: cluster.why,
          phases: cluster.nodesByPhase,
          alerts: cluster.alerts,
        });
        return isSo(cluster) ? cluster : undefined;
      },
      { timeoutMs, intervalMs: 250 },
    );
  }

  /** Everything that farpulse has written so far, Events and its own Lease aside: `PATCH node-1` or `PATCH pod web-1`. */
  async writes(): Promise<string[]> {
    const isWrite = ({ user, verb, objectRef }: AuditEvent): boolean =>
      user.username === DETECTOR &&
      !['get', 'list', 'watch'].includes(verb) &&
      // An access review creates nothing: it is how the harness waits for the permissions.
      !['events', 'leases', 'selfsubjectaccessreviews'].includes(objectRef?.resource ?? '');
    return (await this.#plane.auditLog())
      .filter((event) => isWrite(event))
      .map(
        ({ verb, objectRef }) =>
          `${verb} ${objectRef?.resource}/${objectRef?.subresource ?? ''} ${objectRef?.name}`,
      );
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#beacons.values()].map((beacon) => beacon.kill()));
    await this.stopWorker();
    await this.#link.stop();
    await this.#forwarder.stop();
    await removeNow(this.#folder);
  }
}
