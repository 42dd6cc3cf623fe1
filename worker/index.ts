import { parseConfig, type ConfigResult } from './config.ts';
import type { Env } from './env.ts';
import { createApp } from './http/app.ts';
import { Counters } from './http/counters.ts';
import { withTimeout } from './http/timeout.ts';
import { arbiterStub, observerStub } from './objects/names.ts';
import { pokeAll } from './scheduled.ts';

export { Arbiter } from './objects/arbiter.ts';
export { Observer } from './objects/observer.ts';

/** One app per isolate: its variables never change while it lives. */
let app: ReturnType<typeof createApp> | undefined;

function appFor(env: Env): ReturnType<typeof createApp> {
  let config: ConfigResult | undefined;
  app ??= createApp({
    config: () => (config ??= parseConfig(env)),
    adminToken: () => env['ADMIN_TOKEN'],
    observer: (cluster, region, shard) => observerStub(env, { cluster, region, shard }),
    arbiter: (cluster) => arbiterStub(env, cluster),
    now: () => Date.now(),
    withTimeout,
    counters: new Counters(),
  });
  return app;
}

export default {
  fetch: (request, env, ctx) => appFor(env).fetch(request, env, ctx),
  scheduled: (_controller, env) => pokeAll(env),
} satisfies ExportedHandler<Env>;
