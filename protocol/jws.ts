import {
  base64url,
  calculateJwkThumbprint,
  CompactSign,
  compactVerify,
  decodeProtectedHeader,
  errors,
  importJWK,
} from 'jose';
import type { CryptoKey, JWK } from 'jose';
import type { PublicKey } from './keys.ts';
import { MAX_BEAT_BYTES, parseBeat, type Beat, type RefusalCode } from './beat.ts';

/** The `typ` of a beat, so that no other token signed with the same key can pass as one (RFC 8725, 3.11). */
export const BEAT_TYPE = 'farpulse-beat+jws';

/** RFC 7638 thumbprint: what people compare, and the `kid` hint of a beat. */
export function thumbprintOf(key: PublicKey): Promise<string> {
  return calculateJwkThumbprint(key);
}

export async function signBeat(beat: Beat, privateKey: CryptoKey, kid: string): Promise<string> {
  const payload = new TextEncoder().encode(JSON.stringify(beat));
  return new CompactSign(payload).setProtectedHeader({ alg: 'EdDSA', typ: BEAT_TYPE, kid }).sign(privateKey);
}

/** SHA-256 of the compact JWS, base64url. Names one beat in acks and logs. */
export async function digestOf(jws: string): Promise<string> {
  return base64url.encode(
    new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(jws))),
  );
}

export type Peeked = { ok: true; beat: Beat } | { ok: false; code: RefusalCode; why: string };

/**
 * Reads a beat without checking its signature: enough to route it, never enough to believe it.
 *
 * @param jws the compact JWS as it came off the wire
 */
export function peekBeat(jws: string): Peeked {
  if (jws.length > MAX_BEAT_BYTES)
    return { ok: false, code: 'too-large', why: `longer than ${MAX_BEAT_BYTES} bytes` };
  const parts = jws.split('.');
  const payload = parts[1];
  if (parts.length !== 3 || payload === undefined)
    return { ok: false, code: 'malformed', why: 'not a compact JWS' };
  let json: unknown;
  try {
    json = JSON.parse(
      new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(base64url.decode(payload)),
    );
  } catch {
    return { ok: false, code: 'malformed', why: 'the payload is not base64url JSON' };
  }
  return parseBeat(json);
}

/** A key ready for verification. Importing costs about a tenth of a verification, so callers may keep it. */
export type VerifyKey = CryptoKey | Uint8Array;

export function importPublicKey(key: PublicKey): Promise<VerifyKey> {
  return importJWK({ ...key, alg: 'EdDSA' } satisfies JWK);
}

/**
 * True when one of the Node's keys signed this beat. The `kid` header is not trusted to choose: with at most two
 * keys per Node, trying both is cheaper than being wrong.
 */
export async function isSignedBy(jws: string, keys: readonly VerifyKey[]): Promise<boolean> {
  for (const key of keys) {
    try {
      const { protectedHeader } = await compactVerify(jws, key, { algorithms: ['EdDSA'] });
      if (protectedHeader.typ === BEAT_TYPE) return true;
    } catch (error) {
      if (!(error instanceof errors.JOSEError)) throw error;
    }
  }
  return false;
}

/** A thumbprint has 43 characters. */
const MAX_KID_LENGTH = 64;

/**
 * The key that a beat claims to be signed with; '' when it names none, undefined when its header cannot be read. A
 * hint: it says which mistake was made, never whom to believe.
 */
export function claimedKid(jws: string): string | undefined {
  try {
    const { kid } = decodeProtectedHeader(jws);
    return typeof kid === 'string' ? kid.slice(0, MAX_KID_LENGTH) : '';
  } catch {
    return undefined;
  }
}
