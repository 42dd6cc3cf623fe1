import { KEY_ANNOTATION } from '../../protocol/keys.ts';
import type { ClusterPort } from '../core/cluster-port.ts';
import type { ClusterConfig } from '../config.ts';
import { createKubernetesCluster } from './kubernetes.ts';

/** The port to a configured cluster: its API, or only the keys that the configuration lists. */
export function clusterOf(config: ClusterConfig, env: Readonly<Record<string, unknown>>): ClusterPort {
  if (config.apiUrl === undefined) return listedCluster(config.keys ?? {});
  return createKubernetesCluster({
    apiUrl: config.apiUrl,
    ...(config.apiToken !== undefined && { token: config.apiToken }),
    secrets: secretsOf(config),
    fetch: fetchOf(config, env),
    nodeSelector: config.nodeSelector,
    ownLease: config.lease,
  });
}

/** The way to a cluster's API: a service binding, or the internet, through Cloudflare Access if it stands there. */
export function fetchOf(config: ClusterConfig, env: Readonly<Record<string, unknown>>): typeof fetch {
  if (config.apiBinding !== undefined) {
    // SAFETY: `parseConfig` has checked that this is something with a `fetch`.
    const binding = env[config.apiBinding] as { readonly fetch: typeof fetch };
    // Access does not stand in this way, so its secret stays here.
    return (input, init) => binding.fetch(input, init);
  }
  const { apiAccess } = config;
  if (apiAccess === undefined) return (input, init) => fetch(input, init);
  return (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set('cf-access-client-id', apiAccess.clientId);
    headers.set('cf-access-client-secret', apiAccess.clientSecret);
    return fetch(input, { ...init, headers });
  };
}

/** What must not show, wherever it turns up. */
export function secretsOf({ apiToken, apiAccess }: ClusterConfig): readonly string[] {
  return [apiToken, apiAccess?.clientSecret].filter((secret) => secret !== undefined);
}

/** A cluster that farpulse cannot reach: its inventory is the configuration, everything else is out of reach. */
function listedCluster(
  keys: Readonly<Record<string, { readonly uid: string; readonly key: string }>>,
): ClusterPort {
  const unreachable = () => Promise.resolve({ kind: 'unreachable', why: 'no apiUrl is configured' } as const);
  return {
    listNodes: () =>
      Promise.resolve({
        kind: 'ok',
        value: Object.entries(keys).map(([name, { uid, key }]) => ({
          name,
          uid,
          labels: {},
          annotations: { [KEY_ANNOTATION]: key },
        })),
      }),
    readNode: unreachable,
    readLease: unreachable,
    listLeases: unreachable,
    patchReadyUnknown: unreachable,
    listPods: unreachable,
    patchPodNotReady: unreachable,
    readOwnLease: unreachable,
    renewOwnLease: unreachable,
    createEvent: unreachable,
  };
}
