import { parseConfig } from './config.ts';
import type { Env } from './env.ts';
import { withTimeout } from './timeout.ts';
import { arbiterStub, observerStub, observersOf } from './objects/names.ts';

/** A poke only makes an object look at its clock; one that does not answer by then is poked again in a minute. */
const POKE_TIMEOUT_MS = 10_000;

/**
 * Cron's second path, every minute: pokes every configured object, so that a lost or stuck alarm is armed again and
 * whatever was missed is caught up (cloudflare-docs#18324: an alarm in the past that never fires).
 */
export async function pokeAll(env: Env): Promise<void> {
  const parsed = parseConfig(env);
  // `healthz` says so; half a configuration judges nothing.
  if (!parsed.ok) return;
  const pokes = [...parsed.config.clusters.values()].flatMap((cluster) => [
    () => arbiterStub(env, cluster.name).poke(),
    ...observersOf(cluster).map((name) => () => observerStub(env, name).poke()),
  ]);
  const results = await Promise.allSettled(pokes.map((poke) => withTimeout(poke(), POKE_TIMEOUT_MS)));
  const failed = results.filter((result) => result.status === 'rejected').length;
  if (failed > 0) console.warn(`${failed} of ${pokes.length} objects could not be poked`);
}
