import { observerIdOf } from '../core/shard.ts';
import { parseConfig, type ClusterConfig, type LocationHint } from '../config.ts';
import type { Env } from '../env.ts';
import type { Arbiter } from './arbiter.ts';
import type { Observer } from './observer.ts';

/*
 * Names of the objects. They come from the configuration only: an object whose name a request chooses is created by
 * whoever asks. They are stored for ever; to move an observer, its name must change.
 */

interface ObserverName {
  readonly cluster: string;
  readonly region: LocationHint;
  readonly shard: number;
}

function observerName({ cluster, region, shard }: ObserverName): string {
  return `${cluster}/${region}/${shard}`;
}

/** A fresh stub each time: one that has thrown may be broken for good. */
export function observerStub(env: Env, name: ObserverName): DurableObjectStub<Observer> {
  return env.OBSERVER.getByName(observerName(name), {
    locationHint: name.region as DurableObjectLocationHint,
  });
}

export function arbiterStub(env: Env, cluster: string): DurableObjectStub<Arbiter> {
  return env.ARBITER.getByName(cluster);
}

/** Every observer of a cluster, with the id it reports under. */
export function observersOf(config: ClusterConfig): readonly (ObserverName & { readonly id: string })[] {
  return config.regions.flatMap((region) =>
    Array.from({ length: config.shards }, (_, shard) => ({
      cluster: config.name,
      region,
      shard,
      id: observerIdOf(region, shard, config.shards),
    })),
  );
}

/** The configuration of the cluster an object serves. Throws when there is none: such an object must do nothing. */
export function clusterConfigOf(
  env: Env,
  cluster: string,
): { readonly deploymentId: string; readonly cluster: ClusterConfig } {
  const parsed = parseConfig(env);
  if (!parsed.ok) throw new Error(`misconfigured: ${parsed.field}`);
  const config = parsed.config.clusters.get(cluster);
  if (config === undefined) throw new Error(`cluster ${cluster} is not configured`);
  return { deploymentId: parsed.config.deploymentId, cluster: config };
}

/** Reads an observer's name back, from the object's own id. */
export function parseObserverName(name: string | undefined): ObserverName {
  const [cluster, region, shard] = (name ?? '').split('/');
  if (cluster === undefined || region === undefined || shard === undefined) {
    throw new Error(`not an observer's name: ${name ?? 'none'}`);
  }
  // SAFETY: names are only made by `observerName`, from a parsed configuration.
  return { cluster, region: region as LocationHint, shard: Number(shard) };
}
