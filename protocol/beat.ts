import { z } from 'zod';
import { NodeName } from './names.ts';

/** Version of the wire. Peers accept what they know and ignore fields they do not know; a new number means a break. */
export const WIRE_VERSION = 1;

/** A beat longer than this is refused unread. A beat with every field in use is under 1.5 KiB. */
export const MAX_BEAT_BYTES = 4096;

/** Bounds of a beat's interval. The configured policy narrows them; the wire only refuses nonsense. */
export const MIN_INTERVAL_MS = 1_000;
export const MAX_INTERVAL_MS = 300_000;

/** Free text from a node is clipped, not refused: a long error message must not cost a beat. */
function clipped(maxLength: number) {
  return z.string().transform((text) => text.slice(0, maxLength));
}

/** What the beacon found when it asked the kubelet's /healthz. */
export const KubeletSign = z.object({
  state: z.enum(['ok', 'down', 'unknown']),
  /** Only a beacon that has seen `ok` in this boot is believed when it says `down`: a closed port is not a death. */
  okThisBoot: z.boolean(),
  why: clipped(200).optional(),
});

/** Whether the node reaches its cluster's API server. */
export const ApiPathSign = z.object({
  state: z.enum(['ok', 'cut', 'unknown']),
  why: clipped(200).optional(),
  roundTripMs: z.number().nonnegative().optional(),
});

/** The node, or only its beacon, is about to stop on purpose. The end is a duration: clocks are not compared. */
export const LeavingSign = z.object({
  what: z.enum(['host', 'beacon']),
  reason: clipped(200),
  forMs: z.int().nonnegative(),
});

/** Bounds of what an operator may have a beacon look at: with all of them in use a beat stays under MAX_BEAT_BYTES. */
export const MAX_CHECKS = 8;
export const MAX_CHECK_NAME_LENGTH = 32;
export const MAX_CHECK_WHY_LENGTH = 80;

export const CheckName = z
  .string()
  .max(MAX_CHECK_NAME_LENGTH)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, 'not the name of a check');

/** What came of one thing that the operator has this node's beacon look at: a GPU's driver, a CNI. */
export const CheckResult = z.object({
  name: CheckName,
  /** `unknown`: not looked at yet, or it could not be looked at. */
  state: z.enum(['ok', 'failed', 'unknown']),
  why: clipped(MAX_CHECK_WHY_LENGTH).optional(),
});

/** Something that a beacon can do and another may not: what readers of beats may build on. */
const Feature = z.string().regex(/^[a-z0-9-]{1,32}$/);

/**
 * The payload of one signed heartbeat.
 *
 * `seq` is max(uptime in ms that counts suspend, last + 1): it rises within a boot with nothing to persist.
 * `sentAtMs` is the node's own wall clock. It is only ever compared with other stamps of the same node's clock.
 * Unknown fields are kept out, not refused, so that newer beacons can talk to an older Worker.
 */
export const Beat = z.object({
  v: z.literal(WIRE_VERSION),
  aud: z.string().max(128),
  node: NodeName,
  uid: z.string().min(1).max(64),
  boot: z.string().regex(/^[0-9a-zA-Z-]{8,64}$/, 'not a boot id'),
  seq: z.int().nonnegative(),
  intervalMs: z.int().min(MIN_INTERVAL_MS).max(MAX_INTERVAL_MS),
  sentAtMs: z.int(),
  kubelet: KubeletSign,
  api: ApiPathSign,
  leaving: LeavingSign.optional(),
  beacon: clipped(64),
  // What is not understood in these two is left out: they must never cost a beat.
  checks: z.array(CheckResult).max(MAX_CHECKS).optional().catch(undefined),
  features: z.array(Feature).max(16).optional().catch(undefined),
});

export type Beat = z.infer<typeof Beat>;
export type KubeletSign = z.infer<typeof KubeletSign>;
export type ApiPathSign = z.infer<typeof ApiPathSign>;
export type LeavingSign = z.infer<typeof LeavingSign>;
export type CheckResult = z.infer<typeof CheckResult>;

/** Stable codes for a beat that was not recorded. They are part of the wire: add, never rename. */
export const REFUSAL_CODES = [
  'malformed',
  'too-large',
  'unsupported-version',
  'wrong-audience',
  'unknown-cluster',
  'stranger',
  'bad-signature',
  'wrong-uid',
  'old-key',
  'replayed',
  'bad-interval',
  'rate-limited',
  'unavailable',
] as const;

export type RefusalCode = (typeof REFUSAL_CODES)[number];

/** Made once: building a schema costs ten times what using it does. */
const Versioned = z.object({ v: z.number() });

/** Parses a payload that came off the wire. */
export function parseBeat(
  payload: unknown,
): { ok: true; beat: Beat } | { ok: false; code: RefusalCode; why: string } {
  const version = Versioned.safeParse(payload);
  if (version.success && version.data.v !== WIRE_VERSION) {
    return {
      ok: false,
      code: 'unsupported-version',
      why: `wire version ${version.data.v}, expected ${WIRE_VERSION}`,
    };
  }
  const parsed = Beat.safeParse(payload);
  if (parsed.success) return { ok: true, beat: parsed.data };
  const issue = parsed.error.issues[0];
  return {
    ok: false,
    code: 'malformed',
    why: `${issue?.path.join('.') ?? 'beat'}: ${issue?.message ?? 'invalid'}`,
  };
}
