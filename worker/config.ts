import { z } from 'zod';
import { ClusterName, DeploymentId, NodeName } from '../protocol/names.ts';
import { PublicKey } from '../protocol/keys.ts';
import type { Policy } from './core/policy.ts';

/** Where Durable Objects can be asked to live. `sam`, `afr` and `me` are left out: the platform serves them from elsewhere. */
export const LOCATION_HINTS = ['wnam', 'enam', 'weur', 'eeur', 'apac', 'apac-ne', 'apac-se', 'oc'] as const;
export type LocationHint = (typeof LOCATION_HINTS)[number];

/** Named bundles of the timing knobs. Each knob can still be set on its own. */
const PRESETS = {
  /** Silent 22 s after the last beat. */
  steady: { intervalSeconds: 10, missedBeats: 2, marginSeconds: 2, leaseEvidence: 'wait' },
  /** Silent 7.5 s after the last beat, for 3.3 times the requests. */
  fast: { intervalSeconds: 3, missedBeats: 2, marginSeconds: 1.5, leaseEvidence: 'look' },
  /** Silent 32 s after the last beat: rides out an outage of 20 s that the others write. */
  patient: { intervalSeconds: 10, missedBeats: 3, marginSeconds: 2, leaseEvidence: 'wait' },
} as const;

const MODES = ['observe', 'external', 'compat'] as const;
export type Mode = (typeof MODES)[number];

function hasNoCredentials(url: string): boolean {
  const { username, password } = new URL(url);
  return username === '' && password === '';
}

const ClusterVars = z
  .strictObject({
    /** Base URL of the API server. Without it the cluster is only observed, by the keys listed under `keys`. */
    apiUrl: z
      .url({ protocol: /^https?$/, abort: true })
      // Variables, status and errors show this one, and fetch refuses it at every call.
      .refine(
        hasNoCredentials,
        'a URL without credentials: the token is a secret of its own, KUBE_TOKEN_<CLUSTER>',
      )
      .optional(),
    /** Name of a service binding (Workers VPC) that leads to the API server; `apiUrl` then gives Host and SNI. */
    apiBinding: z.string().optional(),
    mode: z.enum(MODES).default('observe'),
    preset: z.enum(['steady', 'fast', 'patient']).default('steady'),
    intervalSeconds: z.number().min(1).max(300).optional(),
    missedBeats: z
      .int()
      .min(2, 'at least 2: with one missed beat a wave cannot be told from a single death in time')
      .max(20)
      .optional(),
    marginSeconds: z.number().min(0.5).max(60).optional(),
    regions: z
      .array(z.enum(LOCATION_HINTS))
      .min(1)
      .max(7)
      .refine((regions) => new Set(regions).size === regions.length, 'each region once')
      .default(['weur', 'enam', 'apac']),
    /** Observers per region; one takes about 1,000 nodes. */
    shards: z.int().min(1).max(64).default(1),
    leaseEvidence: z.enum(['look', 'wait', 'off']).optional(),
    /**
     * Whether nodes without a beacon are judged by the Lease that their kubelet renews. Default: only in external mode,
     * where nobody else looks at them.
     */
    watchUnenrolled: z.boolean().optional(),
    /** A Kubernetes label selector: only these Nodes are watched. Empty: all. */
    nodeSelector: z.string().default(''),
    /**
     * Name of our own Lease in the namespace `farpulse`, by which two deployments that judge one cluster by mistake
     * find each other. Empty: none is kept, for those that share a cluster on purpose, by `nodeSelector`.
     */
    lease: z.string().max(253).default('farpulse-detector'),
    /** Who may read the status: anybody, or holders of the read or admin token. */
    readers: z.enum(['open', 'token']).default('token'),
    /** Keys by node name, for a cluster whose API farpulse cannot reach. */
    keys: z.record(NodeName, z.strictObject({ uid: z.string().min(1), key: PublicKey.shape.x })).optional(),
  })
  .refine((vars) => vars.apiUrl !== undefined || vars.keys !== undefined, {
    path: ['apiUrl'],
    message: 'needed, unless `keys` lists the nodes',
  })
  .refine((vars) => vars.apiUrl !== undefined || vars.mode === 'observe', {
    path: ['mode'],
    message: '`external` and `compat` need an `apiUrl` to write to',
  })
  .refine((vars) => vars.apiUrl !== undefined || vars.apiBinding === undefined, {
    path: ['apiUrl'],
    message: 'needed beside `apiBinding`: it gives Host and SNI, such as https://kubernetes.default.svc',
  });

const Vars = z.object({
  DEPLOYMENT_ID: DeploymentId,
  CLUSTERS: z.record(ClusterName, ClusterVars),
  ADMIN_TOKEN: z.string().min(16, 'at least 16 characters').optional(),
  READ_TOKEN: z.string().min(16, 'at least 16 characters').optional(),
});

/** What Cloudflare Access calls a service token: it lets a request through to whatever stands behind. */
export interface AccessToken {
  readonly clientId: string;
  readonly clientSecret: string;
}

export interface ClusterConfig {
  readonly name: string;
  readonly apiUrl?: string;
  readonly apiBinding?: string;
  /** Bearer token for the cluster's API. A secret: never logged, never shown. */
  readonly apiToken?: string;
  /** Service token for Cloudflare Access in front of the API. A secret like `apiToken`. */
  readonly apiAccess?: AccessToken;
  readonly mode: Mode;
  readonly regions: readonly LocationHint[];
  readonly shards: number;
  readonly policy: Policy;
  readonly watchUnenrolled: boolean;
  readonly nodeSelector: string;
  readonly lease: string;
  readonly readers: 'open' | 'token';
  readonly keys?: Readonly<Record<string, { readonly uid: string; readonly key: string }>>;
}

export interface Config {
  readonly deploymentId: string;
  readonly clusters: ReadonlyMap<string, ClusterConfig>;
  readonly adminToken?: string;
  readonly readToken?: string;
}

export type ConfigResult =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly field: string; readonly expected: string };

/** The name of the secret that holds a cluster's credential: `KUBE_TOKEN_` and its name, `PROD_EU` for `prod-eu`. */
export function tokenSecretOf(cluster: string): string {
  return `KUBE_TOKEN_${suffixOf(cluster)}`;
}

/** The names of the secrets with a cluster's Access service token: `ACCESS_CLIENT_ID_PROD_EU` for `prod-eu`. */
export function accessSecretsOf(cluster: string): { readonly id: string; readonly secret: string } {
  return {
    id: `ACCESS_CLIENT_ID_${suffixOf(cluster)}`,
    secret: `ACCESS_CLIENT_SECRET_${suffixOf(cluster)}`,
  };
}

function suffixOf(cluster: string): string {
  return cluster.toUpperCase().replaceAll('-', '_');
}

/** How many of `regions` must agree: more than half of the configured ones, however many answer. */
export function quorumOf(regions: number): number {
  return Math.floor(regions / 2) + 1;
}

/**
 * Reads the Worker's variables and secrets. All or nothing: half a configuration judges nothing.
 *
 * @returns the configuration, or the first wrong field with what was expected
 */
export function parseConfig(env: Readonly<Record<string, unknown>>): ConfigResult {
  const parsed = Vars.safeParse(env);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    return {
      ok: false,
      field: (issue?.path ?? []).join('.'),
      expected: issue?.message ?? 'a valid configuration',
    };
  }
  const vars = parsed.data;
  const clusters = new Map<string, ClusterConfig>();
  for (const [name, cluster] of Object.entries(vars.CLUSTERS)) {
    const field = `CLUSTERS.${name}`;
    const apiToken = env[tokenSecretOf(name)];
    if (apiToken !== undefined && typeof apiToken !== 'string') {
      return { ok: false, field: tokenSecretOf(name), expected: 'a secret with the bearer token' };
    }
    if (cluster.mode !== 'observe' && apiToken === undefined) {
      return {
        ok: false,
        field: tokenSecretOf(name),
        expected: `a secret: mode ${cluster.mode} writes to the cluster`,
      };
    }
    if (cluster.readers === 'token' && vars.READ_TOKEN === undefined && vars.ADMIN_TOKEN === undefined) {
      return { ok: false, field: 'READ_TOKEN', expected: `a secret, or readers = "open" in ${field}` };
    }
    if (cluster.apiBinding !== undefined && !isFetcher(env[cluster.apiBinding])) {
      return {
        ok: false,
        field: `${field}.apiBinding`,
        expected: `a service binding (Workers VPC) named ${cluster.apiBinding}`,
      };
    }
    const access = parseAccess(name, env);
    if (access !== undefined && 'field' in access) return { ok: false, ...access };
    const preset = PRESETS[cluster.preset];
    clusters.set(name, {
      name,
      ...(cluster.apiUrl !== undefined && { apiUrl: cluster.apiUrl }),
      ...(cluster.apiBinding !== undefined && { apiBinding: cluster.apiBinding }),
      ...(apiToken !== undefined && { apiToken }),
      ...(access !== undefined && { apiAccess: access }),
      mode: cluster.mode,
      regions: cluster.regions,
      shards: cluster.shards,
      policy: {
        intervalMs: (cluster.intervalSeconds ?? preset.intervalSeconds) * 1000,
        missedBeats: cluster.missedBeats ?? preset.missedBeats,
        marginMs: (cluster.marginSeconds ?? preset.marginSeconds) * 1000,
        leaseEvidence: cluster.leaseEvidence ?? preset.leaseEvidence,
      },
      watchUnenrolled: cluster.watchUnenrolled ?? cluster.mode === 'external',
      nodeSelector: cluster.nodeSelector,
      lease: cluster.lease,
      readers: cluster.readers,
      ...(cluster.keys !== undefined && { keys: cluster.keys }),
    });
  }
  return {
    ok: true,
    config: {
      deploymentId: vars.DEPLOYMENT_ID,
      clusters,
      ...(vars.ADMIN_TOKEN !== undefined && { adminToken: vars.ADMIN_TOKEN }),
      ...(vars.READ_TOKEN !== undefined && { readToken: vars.READ_TOKEN }),
    },
  };
}

/** Only services can be asked by `fetch`: a variable or a namespace of objects under that name is a mistake. */
function isFetcher(binding: unknown): boolean {
  return typeof (binding as { readonly fetch?: unknown } | null | undefined)?.fetch === 'function';
}

/** Both halves or none: with one of them Access answers with a login page. */
function parseAccess(
  cluster: string,
  env: Readonly<Record<string, unknown>>,
): AccessToken | { readonly field: string; readonly expected: string } | undefined {
  const names = accessSecretsOf(cluster);
  const clientId = env[names.id];
  const clientSecret = env[names.secret];
  if (clientId === undefined && clientSecret === undefined) return undefined;
  // A header's value: what fetch would refuse later, at every call.
  for (const [field, other, value] of [
    [names.id, names.secret, clientId],
    [names.secret, names.id, clientSecret],
  ] as const) {
    if (typeof value !== 'string' || !/^[\x21-\x7e]+$/.test(value)) {
      return { field, expected: `a secret without spaces, as ${other} is one: they go together` };
    }
  }
  // SAFETY: both have just been seen to be texts.
  return { clientId: clientId as string, clientSecret: clientSecret as string };
}
