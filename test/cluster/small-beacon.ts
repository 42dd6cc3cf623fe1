// A beacon in the test's own process: it signs and sends real beats and does nothing else a beacon does. Many of them
// cost what one real beacon costs. How a real one tries, checks and enrols is told by the story.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';

import { exportJWK, generateKeyPair } from 'jose';

import { BeatMaker, signerWith } from '../../node-beacon/beat-maker.ts';
import { BEAT_CONTENT_TYPE } from '../../protocol/ack.ts';
import type { KubeletSign } from '../../protocol/beat.ts';
import { thumbprintOf } from '../../protocol/jws.ts';
import { PublicKey } from '../../protocol/keys.ts';
import { audienceOf } from '../../protocol/names.ts';

export interface SmallBeaconOptions {
  readonly deployment: string;
  readonly cluster: string;
  readonly node: string;
  readonly intervalMs: number;
  /** Of the Worker; asked for each beat. Undefined: it is away. */
  readonly endpoint: () => string | undefined;
  readonly kubelet: () => KubeletSign;
}

type Signer = ReturnType<typeof signerWith>;

export class SmallBeacon {
  readonly publicKey: PublicKey;
  readonly #options: SmallBeaconOptions;
  readonly #sign: Signer;
  #beating: AbortController | undefined;

  private constructor(options: SmallBeaconOptions, publicKey: PublicKey, sign: Signer) {
    this.#options = options;
    this.publicKey = publicKey;
    this.#sign = sign;
  }

  static async create(options: SmallBeaconOptions): Promise<SmallBeacon> {
    const pair = await generateKeyPair('EdDSA');
    const publicKey = PublicKey.parse(await exportJWK(pair.publicKey));
    const kid = await thumbprintOf(publicKey);
    const sign = signerWith({ publicKey, privateKey: pair.privateKey, kid, made: true });
    return new SmallBeacon(options, publicKey, sign);
  }

  /** Begins a new boot of the node with that uid. */
  start(uid: string): void {
    this.kill();
    const { deployment, cluster, node, intervalMs, kubelet } = this.#options;
    const maker = new BeatMaker({
      audience: audienceOf(deployment, cluster),
      node,
      bootId: randomUUID(),
      intervalMs,
      beacon: 'test',
      uptimeMs: () => Math.floor(performance.now()),
      wallMs: () => Date.now(),
      signs: () => ({ kubelet: kubelet(), api: { state: 'ok' } }),
      sign: this.#sign,
    });
    this.#beating = new AbortController();
    void this.#beat(maker, uid, this.#beating.signal);
  }

  kill(): void {
    this.#beating?.abort();
    this.#beating = undefined;
  }

  async #beat(maker: BeatMaker, uid: string, signal: AbortSignal): Promise<void> {
    let nextAtMs = performance.now();
    while (!signal.aborted) {
      const { jws } = await maker.make(uid);
      const endpoint = this.#options.endpoint();
      if (endpoint !== undefined) this.#send(endpoint, jws, signal);
      nextAtMs += this.#options.intervalMs;
      const pauseMs = Math.max(0, nextAtMs - performance.now());
      await delay(pauseMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Not waited for: a slow answer must not delay the next beat. One that is lost is lost. */
  #send(endpoint: string, jws: string, signal: AbortSignal): void {
    const request = {
      method: 'POST',
      headers: { 'content-type': BEAT_CONTENT_TYPE },
      body: jws,
      signal,
    };
    fetch(`${endpoint}/v1/beats`, request)
      .then((response) => response.arrayBuffer())
      .catch(() => undefined);
  }
}
