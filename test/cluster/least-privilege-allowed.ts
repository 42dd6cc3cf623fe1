// Everything the account has to be able to do, by itself and beside what the adapter asks.
import type { Method } from './api-client.ts';
import { MERGE, SMP } from './api-table-context.ts';
import type { Overlay } from './least-privilege.ts';
import {
  event,
  EVENTS,
  FALSE_NODE,
  NODE,
  NODE_LEASE,
  notReady,
  OWN_LEASE,
  parent,
  POD,
  unknown,
} from './least-privilege-targets.ts';

export interface Allowed {
  readonly name: string;
  /** The narrowest overlay that allows it. */
  readonly from: Overlay;
  readonly method: Method;
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Writes to Nodes and pods are dry runs, which pass all the same checks, so that rows leave each other alone. */
const DRY = '?dryRun=All&fieldManager=farpulse&fieldValidation=Strict';

function node(name: string, body: object, path = NODE): Allowed {
  return { name, from: 'external', method: 'PATCH', path: `${path}/status${DRY}`, body, headers: SMP };
}

function read(name: string, from: Overlay, path: string, accept = 'application/json'): Allowed {
  return { name, from, method: 'GET', path, headers: { accept } };
}

function ask(name: string, path: string, body: object): Allowed {
  return { name, from: 'observe', method: 'POST', path, body };
}

export const ALLOWED: readonly Allowed[] = [
  read('read a Node', 'observe', NODE),
  read('list Nodes by a selector', 'observe', '/api/v1/nodes?labelSelector=team%3Da&limit=500'),
  read(
    "list Nodes' metadata from the cache",
    'observe',
    '/api/v1/nodes?limit=500&resourceVersion=0',
    'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1',
  ),
  read("read a kubelet's Lease", 'observe', NODE_LEASE),
  read("list kubelets' Leases", 'observe', parent(NODE_LEASE)),
  ask('ask what it may', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
    spec: { resourceAttributes: { verb: 'patch', resource: 'nodes', subresource: 'status' } },
  }),
  ask('ask for all it may', '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews', {
    spec: { namespace: 'default' },
  }),
  ask('ask who it is', '/apis/authentication.k8s.io/v1/selfsubjectreviews', {}),

  node('True to Unknown', unknown()),
  node('False to Unknown', unknown(), FALSE_NODE),
  node('FarpulseKubeletDown', unknown({ ready: { reason: 'FarpulseKubeletDown' } })),
  node('FarpulseLeaving', unknown({ ready: { reason: 'FarpulseLeaving' } })),
  node('FarpulseUnknown', unknown({ ready: { reason: 'FarpulseUnknown' } })),
  node('a message of 512 characters', unknown({ ready: { message: 'ü'.repeat(512) } })),
  node('no message', unknown({ ready: { message: undefined } })),
  {
    name: 'True to Unknown by server-side apply',
    from: 'external',
    method: 'PATCH',
    path: `${NODE}/status?dryRun=All&fieldManager=farpulse&force=true`,
    body: { apiVersion: 'v1', kind: 'Node', ...unknown() },
    headers: { 'content-type': 'application/apply-patch+yaml' },
  },
  {
    name: 'an Event about a Node',
    from: 'external',
    method: 'POST',
    path: `${EVENTS}?dryRun=All`,
    body: event({ name: 'allowed' }),
  },
  read('read its own Lease', 'external', OWN_LEASE),
  {
    name: 'renew its own Lease',
    from: 'external',
    method: 'PATCH',
    path: OWN_LEASE,
    body: {
      spec: {
        holderIdentity: 'farpulse',
        leaseDurationSeconds: 60,
        renewTime: '2026-01-01T00:00:00.000000Z',
      },
    },
    headers: MERGE,
  },

  read(
    "list a node's pods everywhere",
    'external',
    '/api/v1/pods?fieldSelector=spec.nodeName%3Dtarget&limit=500',
  ),
  {
    name: 'pod True to False',
    from: 'compat',
    method: 'PATCH',
    path: `${POD}/status${DRY}`,
    body: notReady(),
    headers: SMP,
  },
  {
    name: 'pod True to False at the second it became True',
    from: 'compat',
    method: 'PATCH',
    path: `${POD}/status${DRY}`,
    body: notReady({ ready: { lastTransitionTime: undefined } }),
    headers: SMP,
  },
];

const ORDER: readonly Overlay[] = ['observe', 'external', 'compat'];

export function isAllowed({ from }: Allowed, overlay: Overlay): boolean {
  return ORDER.indexOf(from) <= ORDER.indexOf(overlay);
}
