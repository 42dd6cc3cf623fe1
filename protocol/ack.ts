import { z } from 'zod';
import { type RefusalCode, WIRE_VERSION } from './beat.ts';

/**
 * The answer to a beat that at least one observer has recorded.
 *
 * `digest` echoes the beat (SHA-256 of the compact JWS, base64url): an HTTP 200 from a captive portal is not an ack.
 * `recordedBy` lists the observers that have it; the beat is delivered when there are `quorum` of them. A retry of
 * the same beat goes only to the others.
 */
export const Ack = z.object({
  v: z.literal(WIRE_VERSION),
  digest: z.string(),
  recordedBy: z.array(z.string()),
  missing: z.array(z.object({ observer: z.string(), code: z.string() })),
  quorum: z.int().positive(),
});

export type Ack = z.infer<typeof Ack>;

/** What a refused beat gets: RFC 9457 problem details with a stable `code`. */
export const Problem = z.object({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string().optional(),
  code: z.string(),
  /** With `replayed`: the highest sequence known for this boot. The beacon goes on above it. */
  highestSeq: z.int().optional(),
});

export type Problem = z.infer<typeof Problem>;

export const PROBLEM_CONTENT_TYPE = 'application/problem+json';
export const BEAT_CONTENT_TYPE = 'application/jose';

/** Request header of a retry: the observers (comma separated) that have recorded this very beat. */
export const RECORDED_BY_HEADER = 'farpulse-recorded-by';

/** The refusals that the same beat may not meet again a second later: worth another try. All others are final. */
export function isTransient(code: RefusalCode): boolean {
  return code === 'unavailable' || code === 'rate-limited' || code === 'stranger';
}
