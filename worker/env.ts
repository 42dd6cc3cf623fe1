import type { Arbiter } from './objects/arbiter.ts';
import type { Observer } from './objects/observer.ts';

/** The bindings of `wrangler.toml`. Variables and secrets are read through `parseConfig`, not from here. */
export interface Env extends Record<string, unknown> {
  readonly OBSERVER: DurableObjectNamespace<Observer>;
  readonly ARBITER: DurableObjectNamespace<Arbiter>;
}
