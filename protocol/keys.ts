import { z } from 'zod';

/** A beacon's public key: an Ed25519 JWK (RFC 8037) reduced to what identifies it. */
export const PublicKey = z.object({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: z.string().regex(/^[\w-]{43}$/, 'not the x of an Ed25519 key'),
});
export type PublicKey = z.infer<typeof PublicKey>;

/** The Node annotation that holds a beacon's public keys: their `x` values, comma separated, at most two. */
export const KEY_ANNOTATION = 'farpulse/beacon-key';

/** Reads the annotation. Entries that are not keys are dropped; more than two are ignored. */
export function parseKeyAnnotation(value: string | undefined): PublicKey[] {
  return (value ?? '')
    .split(',')
    .flatMap((x) => {
      const key = PublicKey.safeParse({ kty: 'OKP', crv: 'Ed25519', x: x.trim() });
      return key.success ? [key.data] : [];
    })
    .slice(0, 2);
}

export function formatKeyAnnotation(keys: readonly PublicKey[]): string {
  return keys.map((key) => key.x).join(',');
}
