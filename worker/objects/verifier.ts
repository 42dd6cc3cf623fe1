import { importPublicKey, isSignedBy, thumbprintOf, type VerifyKey } from '../../protocol/jws.ts';
import type { PublicKey } from '../../protocol/keys.ts';

/** Checks signatures, keeping imported keys: an import costs a tenth of a verification, and comes with every beat. */
export class Verifier {
  readonly #imported = new Map<string, Promise<VerifyKey>>();

  async isSignedBy(jws: string, keys: readonly PublicKey[]): Promise<boolean> {
    return isSignedBy(jws, await Promise.all(keys.map((key) => this.#import(key))));
  }

  /** Whether a `kid` is the thumbprint of one of these keys. */
  async isOneOf(kid: string | undefined, keys: readonly PublicKey[]): Promise<boolean> {
    return (await Promise.all(keys.map((key) => thumbprintOf(key)))).some((thumbprint) => thumbprint === kid);
  }

  #import(key: PublicKey): Promise<VerifyKey> {
    let imported = this.#imported.get(key.x);
    if (imported === undefined) {
      imported = importPublicKey(key);
      this.#imported.set(key.x, imported);
    }
    return imported;
  }

  /** Keys change seldom; forgetting all of them with a new registry is simpler than tracking each. */
  clear(): void {
    this.#imported.clear();
  }
}
