import { isDeepStrictEqual } from 'node:util';
import { forbidden } from './api-error.ts';
import type { KubeObject } from './objects.ts';
import { EVENTS, LEASES, NODE_LEASE_NAMESPACE, NODES, PODS, type Resource } from './resources.ts';
import { selectedValue } from './selectors.ts';

export type Verb = 'get' | 'list' | 'create' | 'update' | 'patch' | 'delete';

/** What somebody wants to do. */
export interface Attempt {
  readonly user: string;
  readonly verb: Verb;
  readonly resource: Resource;
  readonly namespace: string;
  readonly name: string;
  readonly subresource: string;
  readonly fieldSelector: string;
}

/** May do everything, as a member of system:masters. */
export const ADMIN = 'admin';
export const ANONYMOUS = 'system:anonymous';
const NODE_USER = /^system:node:(.+)$/;

/** The user name of a node's kubelet. */
export function kubeletUser(node: string): string {
  return `system:node:${node}`;
}

/**
 * Throws unless allowed: the part of the Node authorizer and of NodeRestriction that beacons and kubelets meet
 * (kubernetes plugin/pkg/auth/authorizer/node, plugin/pkg/admission/noderestriction). Other users may do nothing.
 *
 * @param pod the pod in question, when it is one that exists
 */
export function checkAccess(attempt: Attempt, pod: KubeObject | undefined): void {
  if (attempt.user === ADMIN) return;
  const node = NODE_USER.exec(attempt.user)?.[1];
  if (node !== undefined && nodeMay(node, attempt, pod)) return;
  const { user, resource, name } = attempt;
  throw forbidden(user, name === '' ? resource.plural : `${resource.plural} "${name}"`);
}

function nodeMay(node: string, attempt: Attempt, pod: KubeObject | undefined): boolean {
  const { verb, resource, namespace, name, subresource, fieldSelector } = attempt;
  switch (resource) {
    case NODES:
      if (verb === 'delete') return false;
      if (verb === 'list') return selectedValue(fieldSelector, 'metadata.name') === node;
      return name === node;
    case LEASES:
      return namespace === NODE_LEASE_NAMESPACE && name === node && verb !== 'list';
    case PODS:
      if (verb === 'list') return selectedValue(fieldSelector, 'spec.nodeName') === node;
      if (pod?.spec?.['nodeName'] !== node) return false;
      return verb === 'get' || verb === 'delete' || subresource === 'status';
    case EVENTS:
      return verb === 'create' || verb === 'update' || verb === 'patch';
    default:
      return false;
  }
}

/** A kubelet may not change taints or owners, not even of its own Node. */
export function checkNodeChange(user: string, before: KubeObject, after: KubeObject): void {
  if (!NODE_USER.test(user) || before.kind !== 'Node') return;
  const same =
    isDeepStrictEqual(before.spec?.['taints'], after.spec?.['taints']) &&
    isDeepStrictEqual(before.metadata['ownerReferences'], after.metadata['ownerReferences']);
  if (!same) throw forbidden(user, `nodes "${before.metadata.name}"`);
}
