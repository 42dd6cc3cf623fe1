import type { Context } from 'hono';
import type { ClusterConfig, Config } from '../config.ts';
import { type Access, accessOf, hasTokens, isAdmin, mayRead } from './auth.ts';
import type { AppDeps } from './ports.ts';
import { misconfigured, problem, type ProblemResponse } from './problem.ts';

/** What a reader's request meets before anything is read: the configuration, and what it may see of it. */
export interface Reader {
  readonly config: Config;
  readonly access: Access;
}

/** The reader, or the problem to answer with. */
export async function readerOf(
  c: Context,
  deps: AppDeps,
): Promise<Reader | ProblemResponse<'misconfigured'>> {
  const configured = deps.config();
  if (!configured.ok) return misconfigured(configured, await isAdmin(c, deps));
  return { config: configured.config, access: await accessOf(c, deps, configured.config) };
}

/**
 * The cluster of this name, if the request may read it.
 *
 * Who brings no token gets the same answer for a cluster that is closed and for one that does not exist, so names
 * cannot be guessed. Where no token is configured every cluster is open, and there is nothing to hide.
 */
export function clusterOf(
  { config, access }: Reader,
  name: string,
): ClusterConfig | ProblemResponse<'unauthorized' | 'unknown-cluster'> {
  const cluster = config.clusters.get(name);
  if (cluster !== undefined && mayRead(cluster, access)) return cluster;
  return access === 'none' && hasTokens(config) ? problem('unauthorized') : problem('unknown-cluster');
}

/** All clusters that the request may read, in the order of the configuration. */
export function readableClusters({ config, access }: Reader): readonly ClusterConfig[] {
  return [...config.clusters.values()].filter((cluster) => mayRead(cluster, access));
}
