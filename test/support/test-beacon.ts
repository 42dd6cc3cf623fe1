import { exportJWK, generateKeyPair, type CryptoKey } from 'jose';
import type { Beat } from '../../protocol/beat.ts';
import { signBeat, thumbprintOf } from '../../protocol/jws.ts';
import { audienceOf } from '../../protocol/names.ts';
import { PublicKey } from '../../protocol/keys.ts';

/** A beacon for tests: makes well-formed beats and signs them, and does whatever a test asks. */
export class TestBeacon {
  readonly node: string;
  readonly key: PublicKey;
  readonly #privateKey: CryptoKey;
  readonly #base: Pick<Beat, 'aud' | 'node' | 'uid'>;
  #seq = 0;

  private constructor(base: Pick<Beat, 'aud' | 'node' | 'uid'>, key: PublicKey, privateKey: CryptoKey) {
    this.node = base.node;
    this.#base = base;
    this.key = key;
    this.#privateKey = privateKey;
  }

  static async create(
    node: string,
    options: { uid?: string; deployment?: string; cluster?: string } = {},
  ): Promise<TestBeacon> {
    const { publicKey, privateKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519', extractable: true });
    const { uid = `uid-of-${node}`, deployment = 'test', cluster = 'lab' } = options;
    const base = { aud: audienceOf(deployment, cluster), node, uid };
    return new TestBeacon(base, PublicKey.parse(await exportJWK(publicKey)), privateKey);
  }

  /** The payload of the next beat. */
  payload(changes: Partial<Beat> = {}): Beat {
    this.#seq += 10_000;
    return {
      v: 1,
      ...this.#base,
      boot: `boot-1-of-${this.node}`,
      seq: this.#seq,
      intervalMs: 10_000,
      sentAtMs: Date.now(),
      kubelet: { state: 'ok', okThisBoot: true },
      api: { state: 'ok' },
      beacon: 'test',
      ...changes,
    };
  }

  /** The next beat, signed. */
  beat(changes: Partial<Beat> = {}): Promise<string> {
    return this.sign(this.payload(changes));
  }

  async sign(payload: Beat): Promise<string> {
    return signBeat(payload, this.#privateKey, await thumbprintOf(this.key));
  }
}
