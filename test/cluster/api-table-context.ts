// What a case of the API table gets, whether the API behind it is the real one or the stand-in.
import { expect } from 'vitest';

import { createKubernetesCluster } from '../../worker/cluster/kubernetes.ts';
import type { ClusterPort } from '../../worker/core/cluster-port.ts';
import type { Condition, Lease, List, Metadata, Node, Pod } from './objects.ts';

export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

export type Ask = (
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  body?: unknown,
  headers?: Readonly<Record<string, string>>,
) => Promise<Answer>;

/** The Node whose kubelet's credential the table may use. */
export const OWN_NODE = 'table-own';

/** Where the table runs. */
export interface ApiUnderTest {
  readonly url: string;
  /** Trusts the API's certificate. */
  readonly fetch: typeof fetch;
  readonly adminToken: string;
  /** Of the kubelet of OWN_NODE. */
  readonly kubeletToken: string;
}

export const SMP = { 'content-type': 'application/strategic-merge-patch+json' };
export const MERGE = { 'content-type': 'application/merge-patch+json' };
export const LEASES = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
export const OWN_LEASES = '/apis/coordination.k8s.io/v1/namespaces/farpulse/leases';
export const PODS = '/api/v1/namespaces/default/pods';

export const EARLIER = '2026-01-01T00:00:00Z';
export const LATER = '2026-01-01T00:01:40Z';

/** The part of a `Status` object that tests look at. */
interface StatusBody {
  readonly reason?: string;
  readonly details?: { readonly causes?: readonly { readonly field?: string }[] };
}

export class TableContext {
  readonly admin: Ask;
  readonly kubelet: Ask;
  readonly anonymous: Ask;
  readonly stranger: Ask;
  readonly #api: ApiUnderTest;
  static #count = 0;

  constructor(api: ApiUnderTest) {
    this.#api = api;
    this.admin = asker(api, api.adminToken);
    this.kubelet = asker(api, api.kubeletToken);
    this.anonymous = asker(api, undefined);
    this.stranger = asker(api, 'no-such-token');
  }

  /** The adapter, as admin unless said otherwise. */
  cluster(
    options: { readonly nodeSelector?: string; readonly token?: string; readonly ownLease?: string } = {},
  ): ClusterPort {
    const { nodeSelector = '', token = this.#api.adminToken, ...others } = options;
    const { url: apiUrl, fetch: send } = this.#api;
    return createKubernetesCluster({ apiUrl, token, fetch: send, nodeSelector, ...others });
  }

  kubeletCluster(): ClusterPort {
    return this.cluster({ token: this.#api.kubeletToken });
  }

  /** A name that no other case uses. */
  unique(prefix = 'table'): string {
    TableContext.#count += 1;
    return `${prefix}-${process.pid}-${TableContext.#count}`;
  }

  /** A Node as a kubelet would have registered it, with pressures and Ready=True. */
  async createNode(
    fields: {
      readonly name?: string;
      readonly labels?: Record<string, string>;
      readonly conditions?: readonly Condition[];
    } = {},
  ): Promise<Node> {
    const { name = this.unique(), labels = { 'test/of': 'table' }, conditions = nodeConditions() } = fields;
    const made = await this.admin('POST', '/api/v1/nodes', {
      metadata: { name, labels },
      status: { conditions },
    });
    expect(made).toMatchObject({ status: 201 });
    return made.body as Node;
  }

  async ownNode(): Promise<Node> {
    const found = await this.admin('GET', `/api/v1/nodes/${OWN_NODE}`);
    return found.status === 200 ? (found.body as Node) : this.createNode({ name: OWN_NODE });
  }

  async node(name: string): Promise<Node> {
    return (await ok(this.admin('GET', `/api/v1/nodes/${name}`))) as Node;
  }

  /** A bound pod; with `ready`, with that Ready condition. */
  async createPod(nodeName: string, ready?: 'True' | 'False'): Promise<Pod> {
    const name = this.unique('pod');
    const made = await this.admin('POST', PODS, {
      metadata: { name },
      spec: { nodeName, automountServiceAccountToken: false, containers: [{ name: 'main', image: 'pause' }] },
    });
    expect(made).toMatchObject({ status: 201 });
    if (ready === undefined) return made.body as Pod;
    const conditions = [
      { type: 'ContainersReady', status: ready, lastTransitionTime: EARLIER },
      {
        type: 'Ready',
        status: ready,
        reason: 'TestReason',
        message: 'test message',
        lastTransitionTime: EARLIER,
      },
    ];
    const body = { status: { phase: 'Running', conditions } };
    return (await ok(this.admin('PATCH', `${PODS}/${name}/status`, body, SMP))) as Pod;
  }

  async createLease(name: string, spec: object): Promise<Lease> {
    const made = await this.admin('POST', LEASES, { metadata: { name }, spec });
    expect(made).toMatchObject({ status: 201 });
    return made.body as Lease;
  }

  patchStatus(
    name: string,
    body: unknown,
    query = '',
    headers: Record<string, string> = SMP,
  ): Promise<Answer> {
    return this.admin('PATCH', `/api/v1/nodes/${name}/status${query}`, body, headers);
  }
}

function asker(api: ApiUnderTest, token: string | undefined): Ask {
  return async (method, path, body, headers = {}) => {
    const response = await api.fetch(api.url + path, {
      method,
      headers: {
        accept: 'application/json',
        'content-type': 'application/json',
        'user-agent': 'api-table/1',
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json') === true;
    return { status: response.status, body: isJson ? (JSON.parse(text) as unknown) : text };
  };
}

/** The body of a success. */
export async function ok(answer: Promise<Answer>): Promise<unknown> {
  const { status, body } = await answer;
  expect(status, JSON.stringify(body)).toBeLessThan(300);
  return body;
}

export async function expectRefusal(
  answer: Promise<Answer>,
  status: number,
  reason: string,
): Promise<StatusBody> {
  const got = await answer;
  expect(got).toMatchObject({ status, body: { kind: 'Status', reason, code: status } });
  return got.body as StatusBody;
}

export function nodeConditions(): Condition[] {
  const times = { lastHeartbeatTime: EARLIER, lastTransitionTime: EARLIER };
  return [
    { type: 'MemoryPressure', status: 'False', reason: 'Enough', message: 'enough memory', ...times },
    { type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'ready', ...times },
  ];
}

/** A patch that makes Ready Unknown, with whatever else is wanted in its condition. */
export function unknownPatch(metadata: Partial<Metadata> = {}, more: object = {}): object {
  const ready = {
    type: 'Ready',
    status: 'Unknown',
    reason: 'Farpulse',
    message: 'silent',
    lastTransitionTime: LATER,
  };
  return { metadata, status: { conditions: [{ ...ready, ...more }] } };
}

export function condition(object: Node | Pod, type: string): Condition | undefined {
  return object.status.conditions?.find((one) => one.type === type);
}

export function names(list: unknown): string[] {
  // SAFETY: the cases ask for lists of objects with metadata.
  return (list as List<{ readonly metadata: Metadata }>).items.map(({ metadata }) => metadata.name);
}
