/** Refused beats an address may send at once. Above the beats that 1,000 nodes can have in flight while observers hang. */
const BURST = 500;

/** Refused beats a second that an address may go on with: a twentieth of what an observer can take. */
const PER_SECOND = 50;

/** Addresses remembered. A forgotten one starts full: a flood from more addresses is for the platform to stop. */
const MAX_ADDRESSES = 1_000;

interface Bucket {
  tokens: number;
  atMs: number;
}

/**
 * How many beats that nobody accepts one address may have fanned out to the observers.
 *
 * A whole cluster may sit behind one address, and after a deploy this isolate knows none of its keys. So it is not
 * beats that cost, but refusals: a token is taken when a beat is let through and given back unless it was refused.
 * Thus a cold start of any size is never limited, and a flood of garbage soon is.
 */
export class RefusalBudget {
  readonly #buckets = new Map<string, Bucket>();

  /** Takes a token for one beat. @returns 0, or the seconds after which there is one again */
  take(address: string, nowMs: number): number {
    const bucket = this.#bucketOf(address, nowMs);
    if (bucket.tokens < 1) return Math.ceil((1 - bucket.tokens) / PER_SECOND);
    bucket.tokens -= 1;
    return 0;
  }

  giveBack(address: string, nowMs: number): void {
    const bucket = this.#bucketOf(address, nowMs);
    bucket.tokens = Math.min(BURST, bucket.tokens + 1);
  }

  #bucketOf(address: string, nowMs: number): Bucket {
    const key = networkOf(address);
    const known = this.#buckets.get(key);
    const bucket = known ?? { tokens: BURST, atMs: nowMs };
    bucket.tokens = Math.min(BURST, bucket.tokens + (Math.max(0, nowMs - bucket.atMs) / 1000) * PER_SECOND);
    bucket.atMs = nowMs;
    // Re-inserted, so that the first key is always the one that has been quiet for longest.
    this.#buckets.delete(key);
    this.#buckets.set(key, bucket);
    if (this.#buckets.size > MAX_ADDRESSES) {
      const quietest = this.#buckets.keys().next();
      if (quietest.done !== true) this.#buckets.delete(quietest.value);
    }
    return bucket;
  }
}

/** An IPv4 address itself; of an IPv6 address its /64, since one host owns all of it (RFC 7421). */
function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    const after = tail === '' ? [] : tail.split(':');
    while (groups.length + after.length < 8) groups.push('0');
    groups.push(...after);
  }
  return groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, '').toLowerCase())
    .join(':');
}
