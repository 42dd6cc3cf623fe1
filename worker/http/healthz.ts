import type { OpenAPIHono } from '@hono/zod-openapi';
import { isAdmin } from './auth.ts';
import type { AppDeps } from './ports.ts';

/**
 * `GET /healthz`: whether this Worker runs on a whole configuration. It asks no object, so it says nothing about
 * clusters; those are in the status. What is wrong, and where, is for the admin token only.
 */
export function healthz(app: OpenAPIHono, deps: AppDeps): void {
  app.get('/healthz', async (c) => {
    c.header('cache-control', 'no-store');
    const configured = deps.config();
    if (configured.ok) return c.json({ status: 'ok', clusters: configured.config.clusters.size }, 200);
    const { field, expected } = configured;
    return c.json({ status: 'misconfigured', ...((await isAdmin(c, deps)) && { field, expected }) }, 500);
  });
}
