import { z } from '@hono/zod-openapi';
import type { TypedResponse } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { PROBLEM_CONTENT_TYPE, Problem as WireProblem } from '../../protocol/ack.ts';
import { BEAT_PROBLEMS, problemType } from '../../protocol/problem.ts';

interface ProblemKind {
  readonly status: ContentfulStatusCode;
  readonly title: string;
}

const OTHER_PROBLEMS = {
  'invalid-request': { status: 400, title: 'The request is not valid' },
  unauthorized: { status: 401, title: 'A valid token is needed' },
  forbidden: { status: 403, title: 'This token may not do that' },
  'not-found': { status: 404, title: 'There is nothing here' },
  'unknown-node': { status: 404, title: 'No such node is known' },
  'not-released': { status: 409, title: 'The hold was not released' },
  misconfigured: { status: 500, title: 'This deployment is misconfigured' },
  internal: { status: 500, title: 'Something broke' },
} as const satisfies Record<string, ProblemKind>;

const PROBLEMS = { ...BEAT_PROBLEMS, ...OTHER_PROBLEMS } satisfies Record<string, ProblemKind>;

/** Stable: machines decide by it. Add, never rename. */
export type ProblemCode = keyof typeof PROBLEMS;

/** RFC 9457 problem details, with what this API adds to the protocol's. */
export const Problem = WireProblem.extend({
  /** With `misconfigured`, and only for the admin: the wrong field and what was expected there. */
  field: z.string().optional(),
  expected: z.string().optional(),
}).openapi('Problem');

export interface ProblemExtras {
  readonly detail?: string;
  readonly highestSeq?: number;
  readonly field?: string;
  readonly expected?: string;
  readonly retryAfterSeconds?: number;
}

type StatusOf<Code extends ProblemCode> = (typeof PROBLEMS)[Code]['status'];

/** Typed by its code, so that a route can only answer with problems that its OpenAPI entry names. */
export type ProblemResponse<Code extends ProblemCode> = Code extends ProblemCode
  ? Response & TypedResponse<z.infer<typeof Problem>, StatusOf<Code>, 'json'>
  : never;

/** Builds the one kind of error answer this Worker gives to machines. Never pass it the text of an exception. */
export function problem<Code extends ProblemCode>(
  code: Code,
  extras: ProblemExtras = {},
): ProblemResponse<Code> {
  const { status, title } = PROBLEMS[code];
  const { retryAfterSeconds, ...members } = extras;
  const body: z.infer<typeof Problem> = {
    type: problemType(code),
    title,
    status,
    code,
    ...members,
  };
  const headers = new Headers({
    'content-type': PROBLEM_CONTENT_TYPE,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
  if (retryAfterSeconds !== undefined) headers.set('retry-after', String(retryAfterSeconds));
  // RFC 6750, 3: a 401 names the scheme. Beats prove themselves by signature, so theirs would only mislead.
  if (code === 'unauthorized') headers.set('www-authenticate', 'Bearer realm="farpulse"');
  // SAFETY: TypedResponse adds nothing at run time; body and status are those of the code.
  return new Response(JSON.stringify(body), { status, headers }) as ProblemResponse<Code>;
}

/** The problem for the admin and for everybody else, when the configuration is broken. */
export function misconfigured(
  broken: { readonly field: string; readonly expected: string },
  admin: boolean,
): ProblemResponse<'misconfigured'> {
  return problem('misconfigured', admin ? { field: broken.field, expected: broken.expected } : {});
}

interface DocumentedProblem {
  readonly description: string;
  readonly content: { readonly [PROBLEM_CONTENT_TYPE]: { readonly schema: typeof Problem } };
}

/** For OpenAPI: the answers of these codes, one entry a status. */
export function problemResponses<const Codes extends readonly ProblemCode[]>(
  ...codes: Codes
): { [Status in StatusOf<Codes[number]>]: DocumentedProblem } {
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of codes) {
    const { status } = PROBLEMS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const documented = [...byStatus].map(([status, same]): [number, DocumentedProblem] => [
    status,
    {
      description: same.map((code) => `\`${code}\`: ${PROBLEMS[code].title}.`).join(' '),
      content: { [PROBLEM_CONTENT_TYPE]: { schema: Problem } },
    },
  ]);
  // SAFETY: exactly one entry for the status of each code.
  return Object.fromEntries(documented) as { [Status in StatusOf<Codes[number]>]: DocumentedProblem };
}
