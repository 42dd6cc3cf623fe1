import {
  type ApiPathSign,
  type Beat,
  type CheckResult,
  type KubeletSign,
  type LeavingSign,
  MAX_BEAT_BYTES,
  WIRE_VERSION,
} from '../protocol/beat.ts';
import { digestOf, signBeat } from '../protocol/jws.ts';
import type { BeaconKey } from './key-file.ts';
import type { SignedBeat } from './transport/transport.ts';

/** What a beat says about its node besides that it lives. Read when the beat is made, never waited for. */
export interface Signs {
  readonly kubelet: KubeletSign;
  readonly api: ApiPathSign;
  readonly checks?: readonly CheckResult[];
}

/** What this beacon can do, for those who read its beats. Names are part of the wire: add, never rename. */
const FEATURES: readonly string[] = ['checks', 'early-beat', 'leaving', 'rotation'];

/** Of JSON, so that with its signature and header, in base64, a beat is still under MAX_BEAT_BYTES. */
const MAX_PAYLOAD_BYTES = (MAX_BEAT_BYTES - 256) * (3 / 4);

/** A signed beat and its place in the stream. */
export interface MadeBeat extends SignedBeat {
  readonly seq: number;
}

/** Above this a sequence is nonsense: it leaves 140,000 years of uptime, and room to count on. */
const MAX_BELIEVED_SEQ = Number.MAX_SAFE_INTEGER / 2;

interface BeatMakerParts {
  readonly audience: string;
  readonly node: string;
  readonly bootId: string;
  readonly intervalMs: number;
  readonly beacon: string;
  readonly uptimeMs: () => number;
  readonly wallMs: () => number;
  readonly signs: () => Signs;
  readonly sign: (beat: Beat) => Promise<SignedBeat>;
}

/** Makes the beats of one boot. Their sequence rises whatever happens, and nothing of it has to be stored. */
export class BeatMaker {
  readonly #parts: BeatMakerParts;
  #lastSeq = -1;

  constructor(parts: BeatMakerParts) {
    this.#parts = parts;
  }

  async make(uid: string, leaving?: LeavingSign): Promise<MadeBeat> {
    const { audience, node, bootId, intervalMs, beacon, uptimeMs, wallMs, signs, sign } = this.#parts;
    // Taken before anything is awaited: two beats never share a sequence.
    const seq = Math.max(uptimeMs(), this.#lastSeq + 1);
    this.#lastSeq = seq;
    const { kubelet, api, checks = [] } = signs();
    const beat: Beat = {
      v: WIRE_VERSION,
      aud: audience,
      node,
      uid,
      boot: bootId,
      seq,
      intervalMs,
      sentAtMs: wallMs(),
      kubelet,
      api,
      ...(leaving === undefined ? {} : { leaving }),
      beacon,
      ...(checks.length === 0 ? {} : { checks: [...checks] }),
      features: [...FEATURES],
    };
    return { ...(await sign(fitting(beat))), seq };
  }

  /**
   * An observer knows a higher sequence of this boot: go on above it. (An uptime can be lower than before within one
   * boot id: containers that virtualise one and not the other.)
   *
   * @returns false when there is nothing to gain: the number is no news, or nonsense
   */
  goOnAbove(highestSeq: number): boolean {
    if (highestSeq < this.#lastSeq || highestSeq > MAX_BELIEVED_SEQ) return false;
    this.#lastSeq = highestSeq;
    return true;
  }
}

/** The whole beat if it is short enough; else without the words of the checks, or without them. The rest always fits. */
function fitting(beat: Beat): Beat {
  const fits = (each: Beat): boolean => Buffer.byteLength(JSON.stringify(each)) <= MAX_PAYLOAD_BYTES;
  if (beat.checks === undefined || fits(beat)) return beat;
  const { checks, ...rest } = beat;
  const wordless = { ...rest, checks: checks.map(({ name, state }) => ({ name, state })) };
  return fits(wordless) ? wordless : rest;
}

/** Signs with the beacon's key. */
export function signerWith(key: BeaconKey): (beat: Beat) => Promise<SignedBeat> {
  return async (beat) => {
    const jws = await signBeat(beat, key.privateKey, key.kid);
    return { jws, digest: await digestOf(jws) };
  };
}
