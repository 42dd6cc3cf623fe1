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
    fetch: fetchOf(config, env),
    nodeSelector: config.nodeSelector,
  });
}

function fetchOf(config: ClusterConfig, env: Readonly<Record<string, unknown>>): typeof fetch {
  if (config.apiBinding === undefined) return (input, init) => fetch(input, init);
  // SAFETY: `parseConfig` has checked that the binding exists; only service bindings carry such a name.
  const binding = env[config.apiBinding] as Fetcher;
  return (input, init) => binding.fetch(input, init);
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
    createEvent: unreachable,
  };
}
