import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { replaceFile } from './atomic-file.ts';
import { codeOf, whyOf } from './text.ts';

/**
 * What `enrol`, run as root, leaves for a beacon that holds no credential of the kubelet's. Nothing in it is secret.
 * The two may be of different releases for a moment: it only grows by optional fields.
 */
const EnrolmentRecord = z.object({
  node: z.string(),
  /** The Node's uid as last read; kept while the API server does not answer. */
  uid: z.string().optional(),
  outcome: z.enum(['enrolled', 'not-annotated', 'absent', 'denied', 'unreachable', 'unusable']),
  why: z.string().optional(),
  /** How to reach the API server and know it again, for the check of the way to it. */
  api: z
    .object({
      server: z.string(),
      ca: z.string().optional(),
      servername: z.string().optional(),
      rejectUnauthorized: z.boolean().optional(),
    })
    .optional(),
});

export type EnrolmentRecord = z.infer<typeof EnrolmentRecord>;

export type ReadRecord =
  | { readonly kind: 'read'; readonly record: EnrolmentRecord }
  /** No enrolment has come to an end yet. */
  | { readonly kind: 'none' }
  | { readonly kind: 'unusable'; readonly why: string };

/** Reads what the last enrolment left. Never throws. */
export async function readEnrolment(path: string): Promise<ReadRecord> {
  try {
    return { kind: 'read', record: EnrolmentRecord.parse(JSON.parse(await readFile(path, 'utf8'))) };
  } catch (error) {
    return codeOf(error) === 'ENOENT' ? { kind: 'none' } : { kind: 'unusable', why: whyOf(error) };
  }
}

/** For everybody to read. */
export async function writeEnrolment(path: string, record: EnrolmentRecord): Promise<void> {
  await replaceFile(path, `${JSON.stringify(record)}\n`, { mode: 0o644 });
}
