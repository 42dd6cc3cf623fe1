import type { Context } from 'hono';
import { type Beat, MAX_BEAT_BYTES, type RefusalCode } from '../../protocol/beat.ts';
import { claimedKid, digestOf, peekBeat } from '../../protocol/jws.ts';
import { parseAudience } from '../../protocol/names.ts';
import type { ClusterConfig, Config } from '../config.ts';
import type { Caller } from './admission.ts';
import type { ProblemExtras } from './problem.ts';

export type Refusal = { readonly code: RefusalCode } & ProblemExtras;

/** A beat that may go to its observers: of a known shape, for a configured cluster. Its signature is not checked here. */
export interface Routable {
  readonly jws: string;
  readonly beat: Beat;
  readonly cluster: ClusterConfig;
  readonly kid: string;
}

/**
 * What the router checks of a beat, whichever way it came.
 *
 * @param jws undefined: it was longer than a beat may be
 */
export function routable(jws: string | undefined, config: Config): Routable | Refusal {
  if (jws === undefined || jws.length > MAX_BEAT_BYTES) {
    return { code: 'too-large', detail: `more than ${MAX_BEAT_BYTES} bytes` };
  }
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

export async function callerOf(c: Context, { jws, beat, cluster, kid }: Routable): Promise<Caller> {
  return {
    cluster: cluster.name,
    node: beat.node,
    kid,
    // Set by the platform, which overwrites what a client sends. Elsewhere all clients share one budget.
    address: c.req.header('cf-connecting-ip') ?? '',
    digest: await digestOf(jws),
  };
}
