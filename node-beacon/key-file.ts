import { createPrivateKey, createPublicKey, generateKeyPairSync, type JsonWebKey } from 'node:crypto';
import { chmod, readFile, stat } from 'node:fs/promises';
import { importJWK, type CryptoKey } from 'jose';
import { thumbprintOf } from '../protocol/jws.ts';
import { PublicKey } from '../protocol/keys.ts';
import { createFile } from './atomic-file.ts';
import { codeOf, whyOf } from './text.ts';

/** The beacon's key pair, ready to sign. */
export interface BeaconKey {
  readonly publicKey: PublicKey;
  readonly privateKey: CryptoKey;
  /** RFC 7638 thumbprint: the `kid` of its beats, and what people compare. */
  readonly kid: string;
  /** True when this call has made it. */
  readonly made: boolean;
}

/** The key file is there and cannot be used. Making another key over it would hide that from the operator. */
export class KeyFileError extends Error {
  override readonly name = 'KeyFileError';
  readonly code = 'key-file-unusable';
}

/** Reads the private JWK in `path`, or makes one: once per node, whatever starts at the same time. */
export async function loadOrMakeKey(path: string): Promise<BeaconKey> {
  const existing = await readIfThere(path);
  if (existing !== undefined) return importKey(path, existing, false);
  const made = await createFile(path, `${JSON.stringify(makeJwk())}\n`);
  return importKey(path, await readFile(path, 'utf8'), made);
}

function makeJwk(): JsonWebKey {
  return generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' });
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    // Also after a restore from a backup or a careless copy: the key stays its owner's.
    if (((await stat(path)).mode & 0o077) !== 0) await chmod(path, 0o600);
    return await readFile(path, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw new KeyFileError(`${path}: ${whyOf(error)}`, { cause: error });
  }
}

async function importKey(path: string, content: string, made: boolean): Promise<BeaconKey> {
  try {
    const jwk: unknown = JSON.parse(content);
    // SAFETY: createPrivateKey checks every member itself and throws on what is not a key.
    const secret = createPrivateKey({ key: jwk as JsonWebKey, format: 'jwk' });
    // Derived, not read: a file whose halves do not belong together would sign what nobody can verify.
    const publicKey = PublicKey.parse(createPublicKey(secret).export({ format: 'jwk' }));
    const privateKey = await importJWK({ ...secret.export({ format: 'jwk' }), alg: 'EdDSA' });
    // SAFETY: importJWK answers bytes for symmetric keys only, and PublicKey.parse has seen an Ed25519 one.
    return { publicKey, privateKey: privateKey as CryptoKey, kid: await thumbprintOf(publicKey), made };
  } catch (error) {
    throw new KeyFileError(`${path} holds no private Ed25519 JWK; move it away and a new key is made`, {
      cause: error,
    });
  }
}
