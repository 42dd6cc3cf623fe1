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

const ClusterVars = z
  .strictObject({
    /** Base URL of the API server. Without it the cluster is only observed, by the keys listed under `keys`. */
    apiUrl: z.url({ protocol: /^https?$/ }).optional(),
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
    /** A Kubernetes label selector: only these Nodes are watched. Empty: all. */
    nodeSelector: z.string().default(''),
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
  });

const Vars = z.object({
  DEPLOYMENT_ID: DeploymentId,
  CLUSTERS: z.record(ClusterName, ClusterVars),
  ADMIN_TOKEN: z.string().min(16, 'at least 16 characters').optional(),
  READ_TOKEN: z.string().min(16, 'at least 16 characters').optional(),
});

export interface ClusterConfig {
  readonly name: string;
  readonly apiUrl?: string;
  readonly apiBinding?: string;
  /** Bearer token for the cluster's API. A secret: never logged, never shown. */
  readonly apiToken?: string;
  readonly mode: Mode;
  readonly regions: readonly LocationHint[];
  readonly shards: number;
  readonly policy: Policy;
  readonly nodeSelector: string;
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
  return `KUBE_TOKEN_${cluster.toUpperCase().replaceAll('-', '_')}`;
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
    if (cluster.apiBinding !== undefined && env[cluster.apiBinding] === undefined) {
      return {
        ok: false,
        field: `${field}.apiBinding`,
        expected: `a service binding named ${cluster.apiBinding}`,
      };
    }
    const preset = PRESETS[cluster.preset];
    clusters.set(name, {
      name,
      ...(cluster.apiUrl !== undefined && { apiUrl: cluster.apiUrl }),
      ...(cluster.apiBinding !== undefined && { apiBinding: cluster.apiBinding }),
      ...(apiToken !== undefined && { apiToken }),
      mode: cluster.mode,
      regions: cluster.regions,
      shards: cluster.shards,
      policy: {
        intervalMs: (cluster.intervalSeconds ?? preset.intervalSeconds) * 1000,
        missedBeats: cluster.missedBeats ?? preset.missedBeats,
        marginMs: (cluster.marginSeconds ?? preset.marginSeconds) * 1000,
        leaseEvidence: cluster.leaseEvidence ?? preset.leaseEvidence,
      },
      nodeSelector: cluster.nodeSelector,
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
