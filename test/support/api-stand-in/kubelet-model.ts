import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { kubeletUser } from './access.ts';
import type { Api, ApiAnswer } from './api.ts';
import type { Clock } from './clock.ts';
import { type Condition, conditionOf, type KubeObject } from './objects.ts';
import { NODE_LEASE_NAMESPACE, NODES, PODS } from './resources.ts';

export interface KubeletOptions {
  readonly api: Api;
  readonly clock: Clock;
  readonly node: string;
  readonly labels?: Readonly<Record<string, string>>;
}

/*
 * The timing of a real kubelet with its defaults (kubernetes pkg/kubelet/apis/config/v1beta1/defaults.go,
 * kubelet_node_status.go), without the jitter of up to 4 %.
 */
const LEASE_RENEWAL_MS = 10_000;
const LEASE_DURATION_SECONDS = 40;
const STATUS_LOOP_MS = 10_000;
/** An unchanged status is reported that often, only for its heartbeat. */
const STATUS_REPORT_MS = 300_000;
/** From seeing a pod to having put it right. */
const POD_SYNC_MS = 300;

const READY = {
  type: 'Ready',
  status: 'True',
  reason: 'KubeletReady',
  message: 'kubelet is posting ready status',
};

/**
 * What a kubelet does that matters to liveness: renews its Lease, answers /healthz, says Ready=True again when
 * somebody else said otherwise, keeps its pods Ready. It can be killed and started like the process it stands for.
 */
export class KubeletModel {
  readonly node: string;
  readonly #api: Api;
  readonly #clock: Clock;
  readonly #labels: Readonly<Record<string, string>>;
  /** How to call off what is going on; empty while dead. */
  readonly #running = new Set<() => void>();
  #health: Server | undefined;
  #port = 0;
  #reportedAtMs = -Infinity;

  constructor({ api, clock, node, labels = {} }: KubeletOptions) {
    this.node = node;
    this.#api = api;
    this.#clock = clock;
    this.#labels = labels;
  }

  /** The same before and after a restart, as a kubelet's port is. */
  get healthzUrl(): string {
    return `http://127.0.0.1:${this.#port}/healthz`;
  }

  get alive(): boolean {
    return this.#health !== undefined;
  }

  /** Registers its Node the first time. */
  async start(): Promise<void> {
    if (this.#health !== undefined) return;
    const health = createServer((_request, response) => response.end('ok'));
    this.#health = health;
    health.listen(this.#port, '127.0.0.1');
    await once(health, 'listening');
    // SAFETY: it listens on a port, so this is no pipe's name.
    this.#port = (health.address() as AddressInfo).port;

    this.#reportedAtMs = -Infinity;
    this.#register();
    this.#every(LEASE_RENEWAL_MS, () => this.#renewLease());
    this.#every(STATUS_LOOP_MS, () => this.#syncStatus());
    this.#running.add(
      this.#api.store.watch(({ resource, object, deleted }) => {
        if (resource === PODS && !deleted) this.#noticePod(object);
      }),
    );
    for (const pod of this.#api.store.list(PODS)) this.#noticePod(pod);
  }

  /** Dies as under SIGKILL: says nothing, and its port refuses connections. */
  async kill(): Promise<void> {
    for (const callOff of this.#running) callOff();
    this.#running.clear();
    const health = this.#health;
    if (health === undefined) return;
    this.#health = undefined;
    health.closeAllConnections();
    health.close();
    await once(health, 'close');
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }

  #register(): void {
    const { node } = this;
    if (this.#api.store.get(NODES, '', node) !== undefined) return;
    const labels = { 'kubernetes.io/hostname': node, ...this.#labels };
    this.#ask('POST', '/api/v1/nodes', { metadata: { name: node, labels }, spec: {}, status: {} });
  }

  #renewLease(): void {
    const collection = `/apis/coordination.k8s.io/v1/namespaces/${NODE_LEASE_NAMESPACE}/leases`;
    const renewTime = new Date(this.#clock.nowMs()).toISOString().replace('Z', '000Z');
    const spec = { holderIdentity: this.node, leaseDurationSeconds: LEASE_DURATION_SECONDS, renewTime };
    const renewed = this.#ask('PATCH', `${collection}/${this.node}`, { spec });
    if (renewed.status === 404) this.#ask('POST', collection, { metadata: { name: this.node }, spec });
  }

  #syncStatus(): void {
    const node = this.#api.store.get(NODES, '', this.node);
    const found = conditionOf(node, 'Ready');
    const isOurs =
      found?.status === READY.status && found.reason === READY.reason && found.message === READY.message;
    const nowMs = this.#clock.nowMs();
    if (isOurs && nowMs - this.#reportedAtMs < STATUS_REPORT_MS) return;
    this.#reportedAtMs = nowMs;
    const now = new Date(nowMs).toISOString();
    // Only a change of status is a transition, a foreign reason is not (kubelet nodestatus/setters.go).
    const lastTransitionTime = found?.status === READY.status ? found.lastTransitionTime : now;
    const conditions: Condition[] = [
      ...['MemoryPressure', 'DiskPressure', 'PIDPressure'].map((type) => ({
        type,
        status: 'False',
        reason: 'KubeletHasNoPressure',
        message: 'kubelet has no pressure',
        lastHeartbeatTime: now,
        lastTransitionTime: conditionOf(node, type)?.lastTransitionTime ?? now,
      })),
      { ...READY, lastHeartbeatTime: now, lastTransitionTime: lastTransitionTime ?? now },
    ];
    // Neither uid nor resourceVersion: the kubelet's word stands whatever others wrote meanwhile.
    this.#ask('PATCH', `/api/v1/nodes/${this.node}/status`, { status: { conditions } });
  }

  #noticePod(pod: KubeObject): void {
    if (pod.spec?.['nodeName'] !== this.node || conditionOf(pod, 'Ready')?.status === 'True') return;
    this.#once(POD_SYNC_MS, () => this.#syncPod(pod.metadata.namespace ?? '', pod.metadata.name));
  }

  #syncPod(namespace: string, name: string): void {
    const pod = this.#api.store.get(PODS, namespace, name);
    if (pod === undefined || conditionOf(pod, 'Ready')?.status === 'True') return;
    const lastTransitionTime = new Date(this.#clock.nowMs()).toISOString();
    const conditions = ['Ready', 'ContainersReady'].map((type) => ({
      type,
      status: 'True',
      lastTransitionTime,
    }));
    this.#ask('PATCH', `/api/v1/namespaces/${namespace}/pods/${name}/status`, {
      metadata: { uid: pod.metadata.uid },
      status: { phase: 'Running', conditions },
    });
  }

  /** With the kubelet's own credential: what a real one may not do, this one cannot either. */
  #ask(method: string, path: string, body: unknown): ApiAnswer {
    return this.#api.handle({
      method,
      path,
      query: new URLSearchParams(),
      contentType: method === 'PATCH' ? 'application/strategic-merge-patch+json' : 'application/json',
      accept: 'application/json',
      body,
      user: kubeletUser(this.node),
      manager: 'kubelet',
    });
  }

  /** Now and then again and again. */
  #every(ms: number, run: () => void): void {
    run();
    this.#once(ms, () => this.#every(ms, run));
  }

  #once(ms: number, run: () => void): void {
    const callOff = this.#clock.after(ms, () => {
      this.#running.delete(callOff);
      run();
    });
    this.#running.add(callOff);
  }
}
