import { randomUUID } from 'node:crypto';
import { exportJWK, generateKeyPair, type CryptoKey } from 'jose';
import type { Beat } from '../../protocol/beat.ts';
import { digestOf, signBeat, thumbprintOf } from '../../protocol/jws.ts';
import { PublicKey } from '../../protocol/keys.ts';
import { audienceOf } from '../../protocol/names.ts';

export const DEPLOYMENT = 'bench';
export const CLUSTER = 'bench';
export const INTERVAL_MS = 10_000;
export const REGIONS = ['weur', 'enam', 'apac'] as const;
/** One observer takes 500 sockets, and 1,000 nodes are not shared out evenly. */
export const SHARDS = 3;

/** What beats go by: `websocket` is what beacons prefer, `https` what they fall back to. */
export type Transport = 'websocket' | 'https';

/** A cluster's `keys` in the configuration. */
export type RegisteredKeys = Record<string, { uid: string; key: string }>;

export interface SignedBeat {
  /** Index of the node. */
  readonly node: number;
  readonly jws: string;
  /** What a true acknowledgement echoes. */
  readonly digest: string;
}

interface Node {
  readonly name: string;
  readonly uid: string;
  readonly boot: string;
  readonly publicKey: PublicKey;
  readonly privateKey: CryptoKey;
  readonly kid: string;
  seq: number;
}

/** Signed at once: enough to keep the crypto threads busy. */
const BATCH = 250;

/** The nodes' side: a key each, and beats of the size that real beacons send, signed ahead of the load. */
export class Fleet {
  readonly #nodes: readonly Node[];
  #next = 0;

  private constructor(nodes: readonly Node[]) {
    this.#nodes = nodes;
  }

  static async create(size: number): Promise<Fleet> {
    return new Fleet(await Promise.all(Array.from({ length: size }, (_, index) => createNode(index))));
  }

  get size(): number {
    return this.#nodes.length;
  }

  get keys(): RegisteredKeys {
    return Object.fromEntries(
      this.#nodes.map(({ name, uid, publicKey }) => [name, { uid, key: publicKey.x }]),
    );
  }

  /** The next `count` beats, the nodes in turn. */
  async sign(count: number): Promise<SignedBeat[]> {
    const beats: SignedBeat[] = [];
    while (beats.length < count) {
      const batch = Math.min(BATCH, count - beats.length);
      beats.push(...(await Promise.all(Array.from({ length: batch }, () => this.#signNext()))));
    }
    return beats;
  }

  async #signNext(): Promise<SignedBeat> {
    const index = this.#next;
    this.#next = (this.#next + 1) % this.#nodes.length;
    const node = this.#nodes[index];
    if (node === undefined) throw new Error('a fleet without nodes');
    node.seq += INTERVAL_MS;
    const jws = await signBeat(beatOf(node), node.privateKey, node.kid);
    return { node: index, jws, digest: await digestOf(jws) };
  }
}

/** The name of the node with this index. */
export function nameOf(index: number): string {
  return `node-${String(index + 1).padStart(4, '0')}`;
}

async function createNode(index: number): Promise<Node> {
  const { publicKey, privateKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519', extractable: true });
  const key = PublicKey.parse(await exportJWK(publicKey));
  return {
    name: nameOf(index),
    uid: randomUUID(),
    boot: randomUUID(),
    publicKey: key,
    privateKey,
    kid: await thumbprintOf(key),
    seq: 0,
  };
}

function beatOf(node: Node): Beat {
  return {
    v: 1,
    aud: audienceOf(DEPLOYMENT, CLUSTER),
    node: node.name,
    uid: node.uid,
    boot: node.boot,
    seq: node.seq,
    intervalMs: INTERVAL_MS,
    sentAtMs: Date.now(),
    kubelet: { state: 'ok', okThisBoot: true },
    api: { state: 'ok', roundTripMs: 3.2 },
    beacon: 'farpulse-node-beacon/0.1.0',
  };
}
