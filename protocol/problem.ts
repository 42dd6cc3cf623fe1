import type { Problem } from './ack.ts';
import type { RefusalCode } from './beat.ts';

/** The HTTP status of each refusal and its title. The status follows from the code; both are part of the wire. */
export const BEAT_PROBLEMS = {
  malformed: { status: 400, title: 'This is not a beat' },
  'too-large': { status: 413, title: 'The beat is too large' },
  'unsupported-version': {
    status: 400,
    title: 'The beat speaks a version of the wire that is not spoken here',
  },
  'wrong-audience': { status: 403, title: 'The beat is meant for another deployment' },
  'unknown-cluster': { status: 404, title: 'No such cluster is configured' },
  stranger: { status: 401, title: 'The key is not registered for this node' },
  'bad-signature': { status: 401, title: 'The signature does not verify' },
  'wrong-uid': { status: 409, title: 'The node has been registered anew since' },
  'old-key': { status: 401, title: 'The key has been replaced or removed' },
  replayed: { status: 409, title: 'A later beat of this boot is known' },
  'bad-interval': { status: 422, title: 'The interval lies outside the policy' },
  'rate-limited': { status: 429, title: 'Too many beats that no observer accepts' },
  unavailable: { status: 503, title: 'Not available right now' },
} as const satisfies Record<RefusalCode, { readonly status: number; readonly title: string }>;

/** The `type` of a problem: a name, not an address. */
export function problemType(code: string): string {
  return `urn:farpulse:problem:${code}`;
}

/** What a refused beat gets, wherever it came from. */
export function beatProblem(code: RefusalCode, extras: Pick<Problem, 'detail' | 'highestSeq'> = {}): Problem {
  return { type: problemType(code), ...BEAT_PROBLEMS[code], code, ...extras };
}
