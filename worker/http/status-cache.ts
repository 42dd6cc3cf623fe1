import type { Context } from 'hono';
import type { ClusterStatus } from '../core/arbiter/view.ts';
import { keepAlive } from './keep-alive.ts';
import type { AppDeps } from './ports.ts';
import { TIMED_OUT } from '../timeout.ts';

/** How old a status may be when it is served. The page asks every two seconds: each time it gets a new one. */
const TTL_MS = 1_500;

/** How long an arbiter may take. It answers from memory or from a few rows; a cold start costs some 100 ms. */
const LIMIT_MS = 5_000;

/** The arbiter's status, or that it could not be had. A failure is remembered like a success: it must not be hammered. */
export type StatusResult = { readonly ok: true; readonly status: ClusterStatus } | { readonly ok: false };

type Entry =
  | { readonly kind: 'asking'; readonly sinceMs: number; readonly result: Promise<StatusResult> }
  | { readonly kind: 'known'; readonly atMs: number; readonly result: StatusResult };

/**
 * One status a cluster, shared by all readers of this isolate: however many they are, the arbiter is asked at most
 * once in {@link TTL_MS} and never twice at a time.
 */
export class StatusCache {
  readonly #deps: AppDeps;
  /** By configured name only, so it cannot grow. */
  readonly #entries = new Map<string, Entry>();

  constructor(deps: AppDeps) {
    this.#deps = deps;
  }

  async get(c: Context, cluster: string): Promise<StatusResult> {
    const nowMs = this.#deps.now();
    const entry = this.#entries.get(cluster);
    if (entry?.kind === 'known' && nowMs - entry.atMs < TTL_MS) return entry.result;
    if (entry?.kind === 'asking' && nowMs - entry.sinceMs < LIMIT_MS) {
      // Another request's promise: should the runtime cancel that request, this wait must end by itself.
      const result = await this.#deps.withTimeout(entry.result, LIMIT_MS);
      return result === TIMED_OUT ? { ok: false } : result;
    }
    const asking: Entry = { kind: 'asking', sinceMs: nowMs, result: this.#ask(cluster) };
    this.#entries.set(cluster, asking);
    const kept = asking.result.then((result) => {
      // Not when `forget` has come between: this answer may be from before the change.
      if (this.#entries.get(cluster) !== asking) return;
      this.#entries.set(cluster, { kind: 'known', atMs: this.#deps.now(), result });
    });
    keepAlive(c, kept);
    return asking.result;
  }

  /** After a change that the next reader should see. */
  forget(cluster: string): void {
    this.#entries.delete(cluster);
  }

  async #ask(cluster: string): Promise<StatusResult> {
    try {
      const status = await this.#deps.withTimeout(this.#deps.arbiter(cluster).status(), LIMIT_MS);
      return status === TIMED_OUT ? { ok: false } : { ok: true, status };
    } catch {
      // What broke is in the arbiter's own log; a reader learns that it is not there.
      return { ok: false };
    }
  }
}
