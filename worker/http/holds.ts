import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import type { AppDeps } from './ports.ts';
import { problem, type ProblemResponse, problemResponses } from './problem.ts';
import { clusterOf, readerOf } from './readable.ts';
import type { StatusCache } from './status-cache.ts';
import { ReleaseJson } from './status-json.ts';
import { TIMED_OUT } from '../timeout.ts';

/** Longer than for a read: whoever releases a hold rather waits than wonders whether it happened. */
const LIMIT_MS = 10_000;

const RETRY_SECONDS = 2;

/** Ids are the arbiter's own; anything longer is none, and need not wake it. */
const MAX_HOLD_ID_LENGTH = 128;

const releaseHold = createRoute({
  method: 'post',
  path: '/v1/clusters/{cluster}/holds/{hold}/release',
  summary: 'Release a hold',
  description:
    'Names the hold, so that a release given for one wave never lifts the next. Needs the admin token. ' +
    'Doing it twice does no harm.',
  tags: ['operation'],
  security: [{ bearer: [] }],
  request: { params: z.object({ cluster: z.string(), hold: z.string() }) },
  responses: {
    200: { description: 'The hold is released.', content: { 'application/json': { schema: ReleaseJson } } },
    ...problemResponses(
      'unauthorized',
      'forbidden',
      'unknown-cluster',
      'not-released',
      'misconfigured',
      'unavailable',
    ),
  },
});

/** `POST /v1/clusters/{cluster}/holds/{hold}/release`: the one request that changes what farpulse does. */
export function holds(app: OpenAPIHono, deps: AppDeps, cache: StatusCache): void {
  app.openapi(releaseHold, async (c) => {
    const reader = await readerOf(c, deps);
    if (reader instanceof Response) return reader;
    if (reader.access !== 'admin') return problem(reader.access === 'reader' ? 'forbidden' : 'unauthorized');
    const params = c.req.valid('param');
    const cluster = clusterOf(reader, params.cluster);
    if (cluster instanceof Response) return cluster;
    if (params.hold.length > MAX_HOLD_ID_LENGTH)
      return problem('not-released', { detail: 'there is no such hold' });
    try {
      const answer = await deps.withTimeout(deps.arbiter(cluster.name).release(params.hold), LIMIT_MS);
      if (answer === TIMED_OUT) return outcomeUnknown();
      if (!answer.released) return problem('not-released', { detail: answer.why });
      return c.json({ released: true as const, why: answer.why }, 200);
    } catch {
      return outcomeUnknown();
    } finally {
      cache.forget(cluster.name);
    }
  });
}

function outcomeUnknown(): ProblemResponse<'unavailable'> {
  return problem('unavailable', {
    detail: 'the arbiter did not answer; whether the hold is released shows in the status of the cluster',
    retryAfterSeconds: RETRY_SECONDS,
  });
}
