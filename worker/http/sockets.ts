import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { REFUSAL_CODES } from '../../protocol/beat.ts';
import type { BeatAnswer } from '../../protocol/report.ts';
import { BEAT_HEADER } from '../../protocol/socket.ts';
import { TIMED_OUT } from '../timeout.ts';
import type { Admission } from './admission.ts';
import { isAdmin } from './auth.ts';
import { refusalOf, settledBy } from './beat-answer.ts';
import { answerFrom, deadlineMsOf, type ObserverAnswer, type ObserverRef, observersOf } from './fan-out.ts';
import type { AppDeps } from './ports.ts';
import { misconfigured, problem, problemResponses } from './problem.ts';
import { callerOf, type Routable, routable } from './routable.ts';

const route = createRoute({
  method: 'get',
  path: '/v1/sockets/{observer}',
  summary: 'Open a socket to one observer',
  description:
    'A WebSocket handshake with a signed heartbeat in a header, which the observer records before it accepts. Each ' +
    'message is then a heartbeat, a compact JWS; each answer is an acknowledgement or a problem, with its digest.',
  tags: ['beats'],
  // Only documented: what is wrong with it gets the same answers as a body would.
  parameters: [
    {
      name: 'observer',
      in: 'path',
      required: true,
      description: 'As acknowledgements name it.',
      schema: { type: 'string' },
    },
    {
      name: BEAT_HEADER,
      in: 'header',
      required: true,
      description: 'The heartbeat, a compact JWS.',
      schema: { type: 'string' },
    },
  ],
  responses: {
    101: { description: 'The observer has recorded the beat; the first message acknowledges it.' },
    ...problemResponses(...REFUSAL_CODES, 'misconfigured', 'invalid-request', 'not-found'),
  },
});

/** `GET /v1/sockets/<observer>`: a beacon's handshake, led to the observer's object after the checks of every beat. */
export function sockets(app: OpenAPIHono, deps: AppDeps, admission: Admission): void {
  app.openapi(route, async (c): Promise<Response> => {
    const configured = deps.config();
    if (!configured.ok) {
      deps.counters.beat('misconfigured');
      return misconfigured(configured, await isAdmin(c, deps));
    }
    if (c.req.header('upgrade')?.toLowerCase() !== 'websocket') {
      return problem('invalid-request', { detail: 'a WebSocket handshake is expected here' });
    }
    const read = routable(c.req.header(BEAT_HEADER) ?? '', configured.config);
    if ('code' in read) {
      const { code, ...extras } = read;
      deps.counters.beat(code);
      return problem(code, extras);
    }
    return open(c, read, c.req.param('observer'));
  });

  async function open(c: Context, read: Routable, name: string | undefined): Promise<Response> {
    const { beat, cluster } = read;
    // Only what the configuration names: an object whose name a request chooses is created by whoever asks.
    const observer = observersOf(cluster, beat.node).find(({ id }) => id === name);
    if (observer === undefined) return problem('not-found', { detail: 'no such observer hears this node' });
    const caller = await callerOf(c, read);
    const admitted = admission.admit(caller, deps.now());
    if (admitted.kind === 'stranger') {
      deps.counters.beat('stranger');
      return problem('stranger');
    }
    if (admitted.kind === 'rate-limited') {
      deps.counters.beat('rate-limited');
      return problem('rate-limited', { retryAfterSeconds: admitted.retryAfterSeconds });
    }
    const { answer, socket } = await shakeHands(c.req.raw, read, observer);
    admission.settle(caller, admitted.known, settledBy([answer], false), deps.now());
    if (socket !== undefined) {
      deps.counters.beat('opened');
      return socket;
    }
    const { code, response } = refusalOf([answer]);
    deps.counters.beat(code);
    return response;
  }

  async function shakeHands(
    handshake: Request,
    { cluster }: Routable,
    observer: ObserverRef,
  ): Promise<{ readonly answer: ObserverAnswer; readonly socket?: Response }> {
    let socket: Response | undefined;
    const asked = answerFrom(deps, cluster, observer, async (port): Promise<BeatAnswer> => {
      const response = await port.fetch(handshake);
      if (response.status !== 101) return response.json<BeatAnswer>();
      socket = response;
      return { kind: 'recorded', observer: observer.id };
    });
    const answer = await deps.withTimeout(asked, deadlineMsOf(cluster));
    if (answer !== TIMED_OUT) return socket === undefined ? { answer } : { answer, socket };
    // An answer that comes later is lost with this request; the node's next socket replaces what it opened.
    deps.counters.observerFault(cluster.name, observer.id, 'timed-out');
    return { answer: { observer: observer.id, refusal: { code: 'unavailable' } } };
  }
}
