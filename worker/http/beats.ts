import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { Ack, BEAT_CONTENT_TYPE, RECORDED_BY_HEADER } from '../../protocol/ack.ts';
import { MAX_BEAT_BYTES, REFUSAL_CODES, type RefusalCode } from '../../protocol/beat.ts';
import type { ObserverId } from '../../protocol/report.ts';
import { quorumOf } from '../config.ts';
import type { Admission } from './admission.ts';
import { isAdmin } from './auth.ts';
import { ackOf, refusalOf, settledBy } from './beat-answer.ts';
import { readBounded } from './body.ts';
import { keepAlive } from './keep-alive.ts';
import { fanOut, type ObserverRef, observersOf } from './fan-out.ts';
import type { AppDeps } from './ports.ts';
import { misconfigured, problem, type ProblemResponse, problemResponses } from './problem.ts';
import { callerOf, type Refusal, type Routable, routable } from './routable.ts';

const route = createRoute({
  method: 'post',
  path: '/v1/beats',
  summary: 'Deliver one signed heartbeat',
  description:
    'The body is the beat itself, a compact JWS. The answer lists the observers that have recorded it; with a quorum of ' +
    'them it is delivered. A retry of the same beat names them in a header and goes only to the others.',
  tags: ['beats'],
  // Only documented, not validated: an unknown name in it is ignored.
  parameters: [
    {
      name: RECORDED_BY_HEADER,
      in: 'header',
      required: false,
      description: 'With a retry: the observers, comma separated, that have recorded this very beat.',
      schema: { type: 'string' },
    },
  ],
  request: {
    body: { required: true, content: { [BEAT_CONTENT_TYPE]: { schema: z.string().max(MAX_BEAT_BYTES) } } },
  },
  responses: {
    200: {
      description: 'At least one observer has recorded the beat.',
      content: { 'application/json': { schema: Ack } },
    },
    ...problemResponses(...REFUSAL_CODES, 'misconfigured'),
  },
});

/** `POST /v1/beats`: the way of a beat from the edge to its observers. */
export function beats(app: OpenAPIHono, deps: AppDeps, admission: Admission): void {
  function refuse({ code, ...extras }: Refusal): ProblemResponse<RefusalCode> {
    deps.counters.beat(code);
    return problem(code, extras);
  }

  app.openapi(route, async (c) => {
    const configured = deps.config();
    if (!configured.ok) {
      deps.counters.beat('misconfigured');
      return misconfigured(configured, await isAdmin(c, deps));
    }
    const read = routable(await readBounded(c.req.raw, MAX_BEAT_BYTES), configured.config);
    if ('code' in read) return refuse(read);
    return deliver(c, read);
  });

  async function deliver(c: Context, read: Routable) {
    const { jws, beat, cluster } = read;
    const caller = await callerOf(c, read);
    const admitted = admission.admit(caller, deps.now());
    if (admitted.kind === 'stranger') return refuse({ code: 'stranger' });
    if (admitted.kind === 'rate-limited') {
      return refuse({ code: 'rate-limited', retryAfterSeconds: admitted.retryAfterSeconds });
    }

    const observers = observersOf(cluster, beat.node);
    const listed = listedBy(c.req.header(RECORDED_BY_HEADER), observers);
    const asked = observers.filter(({ id }) => !listed.includes(id));
    const { answers: answered, done } = fanOut(
      deps,
      cluster,
      asked,
      { jws, digest: caller.digest },
      quorumOf(cluster.regions.length) - listed.length,
    );
    // Also past the answer, and when the beacon has hung up; but after one interval the next beat is there.
    keepAlive(c, deps.withTimeout(done, cluster.policy.intervalMs));
    const answers = await answered;
    admission.settle(caller, admitted.known, settledBy(answers, listed.length === 0), deps.now());

    const ack = ackOf(caller.digest, cluster, listed, answers);
    if (ack === undefined) {
      const { code, response } = refusalOf(answers);
      deps.counters.beat(code);
      return response;
    }
    deps.counters.beat(ack.recordedBy.length >= quorumOf(cluster.regions.length) ? 'recorded' : 'partial');
    return c.json(ack, 200);
  }
}

/**
 * The observers that a retry says have its beat, as far as they are configured. A header that names all of them
 * would have nobody asked, and no honest retry sends it (with all of them there is a quorum): it counts as none.
 */
function listedBy(header: string | undefined, observers: readonly ObserverRef[]): readonly ObserverId[] {
  const claimed = new Set((header ?? '').split(',').map((id) => id.trim()));
  const listed = observers.filter(({ id }) => claimed.has(id)).map(({ id }) => id);
  return listed.length === observers.length ? [] : listed;
}
