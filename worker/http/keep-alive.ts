import type { Context } from 'hono';

/**
 * Lets `work` go on after this request has been answered, or its client is gone; without this the runtime cancels it.
 * Outside a Worker there is no such context, and nothing is cancelled either. `work` must not reject.
 */
export function keepAlive(c: Context, work: Promise<unknown>): void {
  let waitUntil: ((promise: Promise<unknown>) => void) | undefined;
  try {
    const context = c.executionCtx;
    waitUntil = (promise) => context.waitUntil(promise);
  } catch {
    // Hono throws where the runtime passed none.
  }
  waitUntil?.(work);
}
