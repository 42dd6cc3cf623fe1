// One cluster of a stage: its nodes, each a kubelet and a beacon, its door to the API, and what farpulse says of it.
import { StatusClient, type ClusterView, type NodeView } from '../../cli/local/status-client.ts';
import { formatKeyAnnotation, KEY_ANNOTATION, parseKeyAnnotation } from '../../protocol/keys.ts';
import type { ApiDoor } from './api-door.ts';
import type { ControlPlane } from './control-plane.ts';
import type { ClusterSettings } from './farpulse.ts';
import { SmallBeacon } from './small-beacon.ts';
import { SmallKubelet, type SmallKubeletOptions } from './small-kubelet.ts';

export const DEPLOYMENT = 'test';

/** Silent 5 s after the last beat: where only logic is at stake, waiting adds nothing. */
export const SHORT = { intervalSeconds: 2, missedBeats: 2, marginSeconds: 1 };

/** A verdict under SHORT, with the 11 s for its Lease and a busy machine. */
const NOTICE_MS = 60_000;

/** Of a node, with the name of its cluster. */
const LABEL = 'test/cluster';

export interface ClusterPlan {
  /** How many nodes: `<cluster>-1`, `<cluster>-2`, ... */
  readonly nodes: number;
  /** Zone of a node by its number. Default: all in the zone of the cluster's name. */
  readonly zoneOf?: (number: number) => string;
  readonly kubelet?: Pick<SmallKubeletOptions, 'enableNodeLease' | 'postsReady'>;
  /** Instead of nodes of its own, those of a cluster named before, with a second beacon on each. */
  readonly nodesOf?: string;
  /** Of the Worker's configuration, beside SHORT and `mode`. */
  readonly settings?: ClusterSettings;
}

/** One node of a staged cluster: a kubelet and a beacon that live and die apart or together. */
export interface StagedNode {
  readonly name: string;
  readonly kubelet: SmallKubelet;
  readonly beacon: SmallBeacon;
}

export interface StagedClusterParts {
  readonly plane: ControlPlane;
  readonly name: string;
  readonly plan: ClusterPlan;
  readonly door: ApiDoor;
  readonly endpoint: () => string | undefined;
  readonly twin: StagedCluster | undefined;
}

export class StagedCluster {
  readonly name: string;
  readonly door: ApiDoor;
  readonly nodes: readonly StagedNode[];
  readonly #parts: StagedClusterParts;

  private constructor(parts: StagedClusterParts, nodes: readonly StagedNode[]) {
    this.#parts = parts;
    this.name = parts.name;
    this.door = parts.door;
    this.nodes = nodes;
  }

  static async create(parts: StagedClusterParts): Promise<StagedCluster> {
    const { plane, name: cluster, plan, endpoint, twin } = parts;
    const nodes: StagedNode[] = [];
    for (let number = 1; number <= plan.nodes; number++) {
      const name = `${twin?.name ?? cluster}-${number}`;
      const zone = plan.zoneOf?.(number) ?? cluster;
      const labels = { [LABEL]: cluster, 'topology.kubernetes.io/zone': zone };
      const kubelet =
        twin?.node(number).kubelet ??
        new SmallKubelet({ client: plane.client, name, labels, ...plan.kubelet });
      const beacon = await SmallBeacon.create({
        deployment: DEPLOYMENT,
        cluster,
        node: name,
        intervalMs: 1000 * Number(plan.settings?.['intervalSeconds'] ?? SHORT.intervalSeconds),
        endpoint,
        kubelet: () => ({ state: kubelet.running ? 'ok' : 'down', okThisBoot: true }),
      });
      nodes.push({ name, kubelet, beacon });
    }
    return new StagedCluster(parts, nodes);
  }

  get selector(): string {
    return `${LABEL}=${this.#parts.twin?.name ?? this.name}`;
  }

  node(number: number): StagedNode {
    const found = this.nodes[number - 1];
    if (found === undefined) throw new Error(`${this.name} has no node ${number}`);
    return found;
  }

  async start(): Promise<void> {
    await Promise.all(this.nodes.map((node) => this.startNode(node)));
  }

  /** Kubelet first, then the beacon, for the Node that is there. */
  async startNode({ name, kubelet, beacon }: StagedNode): Promise<void> {
    await kubelet.start();
    beacon.start(await this.annotate(name, beacon));
  }

  /** Enrols a node's beacon beside another one that may be there; returns the Node's uid. */
  async annotate(name: string, { publicKey }: SmallBeacon): Promise<string> {
    const { plane } = this.#parts;
    const { metadata } = await plane.node(name);
    const others = parseKeyAnnotation(metadata.annotations?.[KEY_ANNOTATION]).filter(
      ({ x }) => x !== publicKey.x,
    );
    const annotations = { [KEY_ANNOTATION]: formatKeyAnnotation([...others, publicKey]) };
    const merge = { 'content-type': 'application/merge-patch+json' };
    await plane.request('PATCH', `/api/v1/nodes/${name}`, { metadata: { annotations } }, merge);
    return metadata.uid;
  }

  /** kill -9 of everything on it that speaks. */
  killNode({ kubelet, beacon }: StagedNode): void {
    kubelet.kill();
    beacon.kill();
  }

  killAll(): void {
    for (const node of this.nodes) this.killNode(node);
  }

  get status(): StatusClient {
    const endpoint = this.#parts.endpoint();
    if (endpoint === undefined) throw new Error('the Worker is not running');
    return new StatusClient(endpoint, this.name);
  }

  /** Until farpulse says so of the cluster. */
  until(what: string, isSo: (cluster: ClusterView) => boolean, timeoutMs = NOTICE_MS): Promise<ClusterView> {
    return this.#parts.plane.waitFor(
      `${this.name} to be ${what}`,
      async (note) => {
        const cluster = await this.status.cluster();
        const { state, why, nodesByPhase: phases, alerts, api } = cluster;
        note({ state, why, phases, alerts, api, writes: this.door.written() });
        return isSo(cluster) ? cluster : undefined;
      },
      { timeoutMs, intervalMs: 250 },
    );
  }

  /** Judging, unless it has found that another deployment does. */
  untilAlive(timeoutMs = 120_000): Promise<ClusterView> {
    return this.until(
      'judging, with every node alive',
      ({ state, nodesByPhase, alerts }) =>
        (state === 'judging' || alerts.some(({ code }) => code === 'another-detector')) &&
        nodesByPhase.alive === this.nodes.length,
      timeoutMs,
    );
  }

  /** Until farpulse says so of a node. */
  untilNode(
    { name }: StagedNode,
    what: string,
    isSo: (node: NodeView) => boolean,
    timeoutMs = NOTICE_MS,
  ): Promise<NodeView> {
    return this.#parts.plane.waitFor(
      `${name} to be ${what}`,
      async (note) => {
        const node = await this.status.node(name);
        note(node && { phase: node.phase, cause: node.cause, why: node.why, writes: this.door.written() });
        return node !== undefined && isSo(node) ? node : undefined;
      },
      { timeoutMs, intervalMs: 250 },
    );
  }

  untilPhase(node: StagedNode, phase: NodeView['phase'], timeoutMs?: number): Promise<NodeView> {
    return this.untilNode(node, phase, (view) => view.phase === phase, timeoutMs);
  }
}
