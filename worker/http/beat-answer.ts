import type { Ack } from '../../protocol/ack.ts';
import { WIRE_VERSION, type RefusalCode } from '../../protocol/beat.ts';
import type { ObserverId } from '../../protocol/report.ts';
import { type ClusterConfig, quorumOf } from '../config.ts';
import type { Settled } from './admission.ts';
import type { ObserverAnswer } from './fan-out.ts';
import { problem, type ProblemResponse } from './problem.ts';

/**
 * Of several refusals, the one that is answered: the first of these. The more an observer must know to say it, the
 * more it tells. First what presupposes a verified signature, most useful to the beacon first (above `highestSeq` it
 * goes on at once); then what presupposes the node's key; then what any observer with an older registry may say;
 * last what says nothing about the beat.
 */
const PRECEDENCE = [
  'replayed',
  'bad-interval',
  'wrong-uid',
  'old-key',
  'bad-signature',
  'unsupported-version',
  'malformed',
  'too-large',
  'wrong-audience',
  'unknown-cluster',
  'stranger',
  'rate-limited',
  'unavailable',
] as const satisfies readonly RefusalCode[];

/** Refusals that an observer gives only to a beat whose signature it has verified. */
const WELL_SIGNED: ReadonlySet<RefusalCode> = new Set(['replayed', 'bad-interval', 'wrong-uid', 'old-key']);

/** The observer's own words go only to who holds a key of the node; a guesser learns nothing from them. */
const MAX_WHY_LENGTH = 200;

/**
 * Retry-After of `unavailable`. The beacon's tries (after 1, 2, 4, 7 s) are made for observers that miss one request,
 * and a second would take away the first of them. Only from overloaded objects must they be kept.
 */
const RETRY_SECONDS = 0;
const OVERLOADED_RETRY_SECONDS = 2;

/** Sums up what the asked observers said, for {@link Admission}. `everybody`: no configured observer was left out. */
export function settledBy(answers: readonly ObserverAnswer[], everybody: boolean): Settled {
  const codes = answers.map((answer) => answer.refusal?.code);
  // A beat that is refused though well signed is proof of life; to limit its sender would make that into silence.
  if (codes.some((code) => code === undefined || WELL_SIGNED.has(code))) return 'verified';
  if (codes.every((code) => code === 'unavailable')) return 'unanswered';
  return everybody && codes.every((code) => code === 'stranger') ? 'strange-to-all' : 'refused';
}

/**
 * The acknowledgement, or undefined when there is nothing to acknowledge.
 *
 * Observers that a retry's header names count only beside one that has recorded the beat now, or when the others did
 * not answer at all: an acknowledgement is never had for a beat that everybody who was asked has refused.
 */
export function ackOf(
  digest: string,
  cluster: ClusterConfig,
  listed: readonly ObserverId[],
  answers: readonly ObserverAnswer[],
): Ack | undefined {
  const recorded = answers.filter((answer) => answer.refusal === undefined).map((answer) => answer.observer);
  const unanswered = answers.every((answer) => answer.refusal?.code === 'unavailable');
  if (recorded.length === 0 && !(unanswered && listed.length > 0)) return undefined;
  return {
    v: WIRE_VERSION,
    digest,
    recordedBy: [...listed, ...recorded],
    missing: answers.flatMap(({ observer, refusal }) =>
      refusal === undefined ? [] : [{ observer, code: refusal.code }],
    ),
    quorum: quorumOf(cluster.regions.length),
  };
}

/** The most telling refusal among answers none of which recorded the beat. */
export function refusalOf(answers: readonly ObserverAnswer[]): {
  readonly code: RefusalCode;
  readonly response: ProblemResponse<RefusalCode>;
} {
  const refusals = answers.flatMap(({ refusal }) => (refusal === undefined ? [] : [refusal]));
  const code =
    PRECEDENCE.find((candidate) => refusals.some((refusal) => refusal.code === candidate)) ?? 'unavailable';
  const same = refusals.filter((refusal) => refusal.code === code);
  const highestSeq = Math.max(...same.map((refusal) => refusal.highestSeq ?? -1));
  const why = WELL_SIGNED.has(code) ? same.find((refusal) => refusal.why !== undefined)?.why : undefined;
  return {
    code,
    response: problem(code, {
      ...(why !== undefined && { detail: why.slice(0, MAX_WHY_LENGTH) }),
      ...(code === 'replayed' && highestSeq >= 0 && { highestSeq }),
      ...((code === 'unavailable' || code === 'rate-limited') && {
        retryAfterSeconds: same.some(({ overloaded }) => overloaded)
          ? OVERLOADED_RETRY_SECONDS
          : RETRY_SECONDS,
      }),
    }),
  };
}
