// The parts of Kubernetes objects that tests look at. As in the API, everything that may be left
// out is optional.

export interface Metadata {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly creationTimestamp: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface Condition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason?: string;
  readonly message?: string;
  readonly lastHeartbeatTime?: string;
  readonly lastTransitionTime?: string;
}

export interface Taint {
  readonly key: string;
  readonly effect: string;
  readonly timeAdded?: string;
}

export interface Node {
  readonly metadata: Metadata;
  readonly spec: { readonly taints?: readonly Taint[]; readonly unschedulable?: boolean };
  readonly status: { readonly conditions?: readonly Condition[] };
}

export interface Pod {
  readonly metadata: Metadata;
  readonly spec: { readonly nodeName?: string };
  readonly status: { readonly phase?: string; readonly conditions?: readonly Condition[] };
}

export interface Lease {
  readonly metadata: Metadata;
  readonly spec: {
    readonly holderIdentity?: string;
    readonly leaseDurationSeconds?: number;
    readonly renewTime?: string;
  };
}

export interface EndpointSlice {
  readonly metadata: Metadata;
  readonly endpoints?: readonly {
    readonly addresses: readonly string[];
    readonly nodeName?: string;
    readonly conditions: {
      readonly ready?: boolean;
      readonly serving?: boolean;
      readonly terminating?: boolean;
    };
    readonly targetRef?: { readonly name: string };
  }[];
}

export interface List<T> {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly T[];
}

export function nodeLeasePath(node: string): string {
  return `/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${node}`;
}

export function readyCondition(object: Node | Pod): Condition | undefined {
  return object.status.conditions?.find((condition) => condition.type === 'Ready');
}

/** `key:effect` of each taint that tells of an unready node. */
export function lifecycleTaints(node: Node): string[] {
  return (node.spec.taints ?? [])
    .filter(({ key }) => key === 'node.kubernetes.io/unreachable' || key === 'node.kubernetes.io/not-ready')
    .map(({ key, effect }) => `${key}:${effect}`)
    .toSorted();
}
