import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { Ack, BEAT_CONTENT_TYPE, RECORDED_BY_HEADER } from '../../protocol/ack.ts';
import { type Beat, MAX_BEAT_BYTES, REFUSAL_CODES, type RefusalCode } from '../../protocol/beat.ts';
import { claimedKid, digestOf, peekBeat } from '../../protocol/jws.ts';
import { parseAudience } from '../../protocol/names.ts';
import type { ObserverId } from '../../protocol/report.ts';
import { type ClusterConfig, type Config, quorumOf } from '../config.ts';
import { Admission } from './admission.ts';
import { isAdmin } from './auth.ts';
import { ackOf, refusalOf, settledBy } from './beat-answer.ts';
import { readBounded } from './body.ts';
import { keepAlive } from './keep-alive.ts';
import { fanOut, type ObserverRef, observersOf } from './fan-out.ts';
import type { AppDeps } from './ports.ts';
import {
  misconfigured,
  problem,
  type ProblemExtras,
  type ProblemResponse,
  problemResponses,
} from './problem.ts';

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

type Refusal = { readonly code: RefusalCode } & ProblemExtras;

/** A beat that may be fanned out: of a known shape, for a configured cluster. Its signature is not checked here. */
interface Routable {
  readonly jws: string;
  readonly beat: Beat;
  readonly cluster: ClusterConfig;
  readonly kid: string;
}

/** `POST /v1/beats`: the way of a beat from the edge to its observers. */
export function beats(app: OpenAPIHono, deps: AppDeps): void {
  const admission = new Admission();

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
    const read = await readRoutable(c.req.raw, configured.config);
    if ('code' in read) return refuse(read);
    return deliver(c, read);
  });

  async function deliver(c: Context, { jws, beat, cluster, kid }: Routable) {
    const caller = {
      cluster: cluster.name,
      node: beat.node,
      kid,
      // Set by the platform, which overwrites what a client sends. Elsewhere all clients share one budget.
      address: c.req.header('cf-connecting-ip') ?? '',
      digest: await digestOf(jws),
    };
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

async function readRoutable(request: Request, config: Config): Promise<Routable | Refusal> {
  const jws = await readBounded(request, MAX_BEAT_BYTES);
  if (jws === undefined) return { code: 'too-large', detail: `more than ${MAX_BEAT_BYTES} bytes` };
  const peeked = peekBeat(jws);
  if (!peeked.ok) return { code: peeked.code, detail: peeked.why };
  const kid = claimedKid(jws);
  if (kid === undefined) return { code: 'malformed', detail: 'the protected header is not base64url JSON' };
  const audience = parseAudience(peeked.beat.aud);
  if (audience === undefined || audience.deploymentId !== config.deploymentId)
    return { code: 'wrong-audience' };
  const cluster = config.clusters.get(audience.cluster);
  if (cluster === undefined) return { code: 'unknown-cluster' };
  return { jws, beat: peeked.beat, cluster, kid };
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
