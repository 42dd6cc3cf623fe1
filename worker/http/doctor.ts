import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import { TIMED_OUT } from '../timeout.ts';
import type { AppDeps } from './ports.ts';
import { problem, problemResponses } from './problem.ts';
import { clusterOf, readerOf } from './readable.ts';

/** The examination bounds itself to 30 s. */
const LIMIT_MS = 35_000;
const RETRY_SECONDS = 30;

export const DoctorJson = z
  .object({
    cluster: z.string(),
    at: z.iso.datetime(),
    rows: z.array(
      z.object({
        check: z.string().openapi({ description: 'Stable: machines go by it.' }),
        state: z.enum(['ok', 'warn', 'fail', 'unknown']).openapi({
          description: '`unknown` could not be looked at from here, which is no fault.',
        }),
        found: z.string(),
        todo: z.string().optional().openapi({ description: 'What to do about it; with all but `ok`.' }),
      }),
    ),
  })
  .openapi('Doctor');

const examineCluster = createRoute({
  method: 'post',
  path: '/v1/clusters/{cluster}/doctor',
  summary: 'Examine the way to the cluster',
  description:
    'Checks, from where verdicts are written, everything between this Worker and the API server of the cluster: the ' +
    'way, the credential, each permission, and the admission policies by a dry run. Changes nothing. Takes up to ' +
    'half a minute. Needs the admin token.',
  tags: ['operation'],
  security: [{ bearer: [] }],
  request: { params: z.object({ cluster: z.string() }) },
  responses: {
    200: { description: 'What was found.', content: { 'application/json': { schema: DoctorJson } } },
    ...problemResponses('unauthorized', 'forbidden', 'unknown-cluster', 'misconfigured', 'unavailable'),
  },
});

/** `POST /v1/clusters/{cluster}/doctor`: for `farpulse doctor`. */
export function doctor(app: OpenAPIHono, deps: AppDeps): void {
  app.openapi(examineCluster, async (c) => {
    const reader = await readerOf(c, deps);
    if (reader instanceof Response) return reader;
    if (reader.access !== 'admin') return problem(reader.access === 'reader' ? 'forbidden' : 'unauthorized');
    const cluster = clusterOf(reader, c.req.valid('param').cluster);
    if (cluster instanceof Response) return cluster;
    const unavailable = () =>
      problem('unavailable', { detail: 'the arbiter did not answer', retryAfterSeconds: RETRY_SECONDS });
    try {
      const rows = await deps.withTimeout(deps.arbiter(cluster.name).doctor(), LIMIT_MS);
      if (rows === TIMED_OUT) return unavailable();
      c.header('cache-control', 'no-store');
      return c.json(
        {
          cluster: cluster.name,
          at: new Date(deps.now()).toISOString(),
          rows: rows.map((row) => ({ ...row })),
        },
        200,
      );
    } catch (error) {
      console.error('doctor failed', error);
      return unavailable();
    }
  });
}
