import { parseConfig, type ConfigResult } from './config.ts';
import type { Env } from './env.ts';
import { createApp } from './http/app.ts';
import { createCounters } from './http/counters.ts';
import { withTimeout } from './timeout.ts';
import { arbiterStub, observerStub } from './objects/names.ts';
import { pokeAll } from './scheduled.ts';

export { Arbiter } from './objects/arbiter.ts';
export { Observer } from './objects/observer.ts';

/** One app per isolate: its variables never change while it lives. */
let app: ReturnType<typeof createApp> | undefined;

function appFor(env: Env): ReturnType<typeof createApp> {
  let config: ConfigResult | undefined;
  app ??= createApp({
    config: () => (config ??= parsed(env)),
    adminToken: () => env['ADMIN_TOKEN'],
    observer: (cluster, region, shard) => observerStub(env, { cluster, region, shard }),
    arbiter: (cluster) => arbiterStub(env, cluster),
    now: () => Date.now(),
    withTimeout,
    counters: createCounters(),
  });
  return app;
}

/** Said once an isolate, for the operator's log: the answers name the field to an admin only. */
function parsed(env: Env): ConfigResult {
  const result = parseConfig(env);
  if (!result.ok) console.error(`misconfigured: ${result.field}: expected ${result.expected}`);
  return result;
}

export default {
  fetch: (request, env, ctx) => appFor(env).fetch(request, env, ctx),
  scheduled: (_controller, env) => pokeAll(env),
} satisfies ExportedHandler<Env>;
