// A kubelet that is two timers: what a kubelet does that its node's liveness depends on, by the rules of the real one
// (kubernetes pkg/kubelet/kubelet_node_status.go, pkg/kubelet/nodestatus/setters.go), with its own permissions. Cheap
// enough for many nodes; and it can be what no released kubelet is, one that renews no Lease (KEP-6371).
import { setTimeout as delay } from 'node:timers/promises';

import { STRATEGIC_MERGE, type ApiClient, type ApiResponse, type Method } from './api-client.ts';
import { nodeLeasePath, type Condition, type Node } from './objects.ts';

export interface SmallKubeletOptions {
  /** Of an admin: it speaks as the node's kubelet. */
  readonly client: ApiClient;
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** KEP-6371's field of the kubelet's configuration. Default true. */
  readonly enableNodeLease?: boolean;
  /** An unchanged status is reported this often. Default 300,000, as the kubelet's own. */
  readonly statusReportMs?: number;
  /** False: it is still starting, and has never said anything of Ready. Default true. */
  readonly postsReady?: boolean;
}

/** Both the status loop's and the Lease's period, without the jitter of up to 4 %. */
const PERIOD_MS = 10_000;
const LEASE_DURATION_SECONDS = 40;

/** What it says of itself, as long as it can. */
interface Says {
  readonly status: 'True' | 'False';
  readonly reason: string;
  readonly message: string;
}

const READY: Says = { status: 'True', reason: 'KubeletReady', message: 'kubelet is posting ready status' };
const NOT_READY: Says = { status: 'False', reason: 'KubeletNotReady', message: 'container runtime is down' };

export class SmallKubelet {
  readonly name: string;
  readonly #options: SmallKubeletOptions;
  #running: AbortController | undefined;
  #renewing = true;
  #says = READY;
  /** The Node as its watch last showed it, once that is broken. */
  #staleCopy: Node | undefined;
  #reportedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: SmallKubeletOptions) {
    this.#options = options;
    this.name = options.name;
  }

  get running(): boolean {
    return this.#running !== undefined;
  }

  /** Registers its Node the first time; returns when it has posted its status. */
  async start(): Promise<void> {
    if (this.#running !== undefined) return;
    this.#running = new AbortController();
    const { signal } = this.#running;
    this.#reportedAtMs = Number.NEGATIVE_INFINITY;
    this.#staleCopy = undefined;
    await this.#register();
    await this.syncStatus();
    if (this.#options.enableNodeLease ?? true) await this.#renewLease();
    void this.#every(signal, () => this.syncStatus());
    if (this.#options.enableNodeLease ?? true) void this.#every(signal, () => this.#renewLease());
  }

  /** Dies as under SIGKILL: says nothing more. */
  kill(): void {
    this.#running?.abort();
    this.#running = undefined;
  }

  /** Its container runtime has died, or is back; said at once. */
  async setReady(isReady: boolean): Promise<void> {
    this.#says = isReady ? READY : NOT_READY;
    await this.syncStatus();
  }

  /** The goroutine that renews the Lease hangs; the status loop goes on. */
  stopRenewing(): void {
    this.#renewing = false;
  }

  /** From now on it does not see what others write to its Node, so it never finds a difference to repair. */
  async breakWatch(): Promise<void> {
    this.#staleCopy = await this.#readNode();
  }

  /** A report that is due now, changed or not. */
  async report(): Promise<void> {
    this.#reportedAtMs = Number.NEGATIVE_INFINITY;
    await this.syncStatus();
  }

  /** One turn of the status loop: what differs from the copy is patched; all of it when a report is due. */
  async syncStatus(): Promise<void> {
    const copy = this.#staleCopy ?? (await this.#readNode());
    const nowMs = Date.now();
    const conditions = this.#conditions(copy, new Date(nowMs).toISOString().replace(/\.\d+/, ''));
    const before = new Map((copy.status.conditions ?? []).map((condition) => [condition.type, condition]));
    const changed = conditions.some((now) => {
      const was = before.get(now.type);
      return was?.status !== now.status || was.reason !== now.reason || was.message !== now.message;
    });
    if (!changed && nowMs - this.#reportedAtMs < (this.#options.statusReportMs ?? 300_000)) return;
    this.#reportedAtMs = nowMs;
    // Only what differs from its copy, and neither uid nor resourceVersion: the last writer of a field wins.
    const patch = conditions.map((now) => difference(before.get(now.type), now));
    await this.#ask('PATCH', `/api/v1/nodes/${this.name}/status`, { status: { conditions: patch } });
  }

  #conditions(copy: Node, now: string): Condition[] {
    const healthy = { status: 'False', reason: 'KubeletHasNoPressure', message: 'no pressure' } as const;
    const pressures = ['MemoryPressure', 'DiskPressure', 'PIDPressure'].map((type) => ({ type, ...healthy }));
    const ready = (this.#options.postsReady ?? true) ? [{ type: 'Ready', ...this.#says }] : [];
    return [...pressures, ...ready].map((says) => {
      const was = copy.status.conditions?.find(({ type }) => type === says.type);
      // Only a change of status is a transition, another reason is not.
      const kept = was?.status === says.status ? was.lastTransitionTime : undefined;
      return { ...says, lastHeartbeatTime: now, lastTransitionTime: kept ?? now };
    });
  }

  async #register(): Promise<void> {
    const { name } = this;
    const labels = { 'kubernetes.io/hostname': name, ...this.#options.labels };
    const answer = await this.#respond('POST', '/api/v1/nodes', { metadata: { name, labels } });
    if (answer.status !== 201 && answer.status !== 409) refuse(answer);
  }

  async #renewLease(): Promise<void> {
    if (!this.#renewing) return;
    // MicroTime: six digits, or it is refused.
    const renewTime = new Date().toISOString().replace('Z', '000Z');
    const spec = { holderIdentity: this.name, leaseDurationSeconds: LEASE_DURATION_SECONDS, renewTime };
    const path = nodeLeasePath(this.name);
    const renewed = await this.#respond('PATCH', path, { spec }, MERGE);
    if (renewed.status === 200) return;
    if (renewed.status !== 404) refuse(renewed);
    const collection = path.slice(0, path.lastIndexOf('/'));
    await this.#ask('POST', collection, { metadata: { name: this.name }, spec });
  }

  async #readNode(): Promise<Node> {
    // SAFETY: this path answers Nodes.
    return (await this.#ask('GET', `/api/v1/nodes/${this.name}`)) as Node;
  }

  /** Again and again; what fails is tried at the next turn, as the kubelet does. */
  async #every(signal: AbortSignal, run: () => Promise<void>): Promise<void> {
    for (;;) {
      await delay(PERIOD_MS, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      await run().catch(() => undefined);
    }
  }

  async #ask(method: Method, path: string, body?: unknown): Promise<unknown> {
    const answer = await this.#respond(method, path, body, method === 'PATCH' ? STRATEGIC_MERGE : {});
    if (answer.status >= 300) refuse(answer);
    return answer.body;
  }

  #respond(
    method: Method,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<ApiResponse> {
    return this.#options.client.respond(method, path, body, {
      'impersonate-user': `system:node:${this.name}`,
      'impersonate-group': 'system:nodes',
      ...headers,
    });
  }
}

const MERGE = { 'content-type': 'application/merge-patch+json' };

/** The two-way merge of a strategic merge patch: the key, and the fields that differ. */
function difference(was: Condition | undefined, now: Condition): object {
  const fields = Object.entries(now).filter(([field, value]) => was?.[field as keyof Condition] !== value);
  return { ...Object.fromEntries(fields), type: now.type };
}

function refuse(answer: ApiResponse): never {
  throw new Error(`a small kubelet was answered ${answer.status}: ${JSON.stringify(answer.body)}`);
}
