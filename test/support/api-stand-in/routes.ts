import { RESOURCES, type Resource } from './resources.ts';

/** Where a request goes: a collection has no name. */
export interface Route {
  readonly resource: Resource;
  /** Undefined for a namespaced collection over all namespaces. */
  readonly namespace: string | undefined;
  readonly name: string;
  readonly subresource: string;
}

const PATH =
  /^\/(?:api\/(?<core>v1)|apis\/(?<group>[^/]+\/[^/]+))(?:\/namespaces\/(?<namespace>[^/]+))?\/(?<plural>[a-z]+)(?:\/(?<name>[^/]+))?(?:\/(?<subresource>[a-z]+))?$/;

/** The route of a path, or undefined when the API has nothing there. */
export function routeOf(path: string): Route | undefined {
  const { core, group, namespace, plural, name = '', subresource = '' } = PATH.exec(path)?.groups ?? {};
  const resource = RESOURCES.find((known) => known.plural === plural && known.apiVersion === (core ?? group));
  if (resource === undefined) return undefined;
  if (namespace !== undefined && !resource.namespaced) return undefined;
  if (name !== '' && resource.namespaced && namespace === undefined) return undefined;
  if (subresource !== '' && (subresource !== 'status' || resource.status === 'none')) return undefined;
  return {
    resource,
    namespace: namespace === undefined ? undefined : decodeURIComponent(namespace),
    name: decodeURIComponent(name),
    subresource,
  };
}
