import { z } from 'zod';
import type { Api } from './api-stand-in/api.ts';

/*
 * What the doctor asks beyond what the API stand-in has: reviews, /version, and our admission policy, in place of
 * `fetch`. `test/cluster/doctor.test.ts` asks the real thing.
 */

export interface DoctorApi {
  /** `verb resource/subresource` that the account has not. */
  readonly denied: Set<string>;
  username: string;
  /** What the credential is refused with. */
  unauthorized: boolean;
  policies: boolean;
  /** The text of the kill switch. */
  disarmed: string | undefined;
  /** The next dry runs that meet another writer. */
  conflicts: number;
  /** Something on the way drops the query of a URL. */
  dropsQuery: boolean;
  /** Of the answers' Date against the caller's clock. */
  skewMs: number;
  readonly requests: { readonly method: string; readonly url: URL; readonly headers: Headers }[];
  readonly fetch: typeof fetch;
}

const Review = z.object({
  spec: z.object({
    resourceAttributes: z.object({
      verb: z.string(),
      resource: z.string(),
      subresource: z.string().optional(),
    }),
  }),
});

const Patch = z.object({
  status: z.object({ conditions: z.tuple([z.object({ status: z.string() })]) }),
});

export function doctorApi(api: Api, nowMs: () => number): DoctorApi {
  const self: DoctorApi = {
    denied: new Set(),
    username: 'system:serviceaccount:farpulse:detector',
    unauthorized: false,
    policies: true,
    disarmed: undefined,
    conflicts: 0,
    dropsQuery: false,
    skewMs: 0,
    requests: [],
    fetch: async (input, init) => {
      const request = new Request(input, init);
      const url = new URL(request.url);
      self.requests.push({ method: request.method, url, headers: request.headers });
      const text = await request.text();
      const query = self.dropsQuery ? new URLSearchParams() : url.searchParams;
      const body: unknown = text === '' ? undefined : JSON.parse(text);
      const [status, answer] = self.unauthorized
        ? [401, statusOf(401, 'Unauthorized', 'Unauthorized')]
        : (special(self, request.method, url.pathname, query, body) ??
          plain(api, request, url.pathname, query, body));
      const date = new Date(nowMs() + self.skewMs).toUTCString();
      return Response.json(answer, { status, headers: { date } });
    },
  };
  return self;
}

type Answer = readonly [status: number, body: unknown];

function special(
  self: DoctorApi,
  method: string,
  path: string,
  query: URLSearchParams,
  body: unknown,
): Answer | undefined {
  if (path === '/version') return [200, { gitVersion: 'v1.37.0' }];
  if (path.endsWith('/selfsubjectreviews'))
    return [201, { status: { userInfo: { username: self.username } } }];
  if (path.endsWith('/selfsubjectaccessreviews')) {
    const { verb, resource, subresource } = Review.parse(body).spec.resourceAttributes;
    const what = `${verb} ${resource}${subresource === undefined ? '' : `/${subresource}`}`;
    return [201, { status: { allowed: !self.denied.has(what) } }];
  }
  if (method !== 'PATCH') return undefined;
  if (query.get('dryRun') !== 'All') throw new Error('the doctor writes');
  if (self.conflicts > 0) {
    self.conflicts -= 1;
    return [409, statusOf(409, 'Conflict', 'the object has been modified')];
  }
  const [ready] = Patch.parse(body).status.conditions;
  if (self.policies && ready.status !== 'Unknown') {
    return denied('farpulse-nodes', 'farpulse may only change Ready from True or False to Unknown');
  }
  if (self.disarmed !== undefined) return denied('farpulse-switch', `farpulse is disarmed: ${self.disarmed}`);
  return undefined;
}

/** In the API server's words. */
function denied(policy: string, message: string): Answer {
  const why = `ValidatingAdmissionPolicy '${policy}' with binding '${policy}' denied request: ${message}`;
  return [403, statusOf(403, 'Forbidden', `nodes "node-1" is forbidden: ${why}`)];
}

function statusOf(code: number, reason: string, message: string): unknown {
  return { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message };
}

function plain(api: Api, request: Request, path: string, query: URLSearchParams, body: unknown): Answer {
  const answer = api.handle({
    method: request.method,
    path,
    query,
    contentType: request.headers.get('content-type') ?? 'application/json',
    accept: request.headers.get('accept') ?? '',
    body,
    user: 'admin',
    manager: 'farpulse',
  });
  return [answer.status, answer.body ?? {}];
}
