import type { ObserverId } from '../../protocol/report.ts';

const FNV_OFFSET_BASIS = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/**
 * Which shard of a region hears a node: 32-bit FNV-1a of its name, the upper half folded into the lower, modulo the
 * number of shards.
 *
 * Stable for ever: the router and the arbiter must agree on it, also while a deploy runs old and new code side by
 * side, and an observer's stored snapshot is found again by it. A node's name is ASCII (RFC 1123), so a character is
 * a byte. FNV's authors ask for the fold where few bits are kept: the lowest bit alone is a mere parity
 * (http://www.isthe.com/chongo/tech/comp/fnv/#xor-fold).
 */
export function shardOf(nodeName: string, shards: number): number {
  let hash = FNV_OFFSET_BASIS;
  for (let i = 0; i < nodeName.length; i++) {
    hash = Math.imul(hash ^ nodeName.charCodeAt(i), FNV_PRIME);
  }
  return ((hash ^ (hash >>> 16)) >>> 0) % shards;
}

/** An observer's name within its cluster: the region, and `.shard` where the region has several. */
export function observerIdOf(region: string, shard: number, shards: number): ObserverId {
  return shards === 1 ? region : `${region}.${shard}`;
}
