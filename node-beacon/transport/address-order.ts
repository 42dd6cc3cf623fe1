import type { LookupAddress } from 'node:dns';

/** Far more than one service has; beyond it the memory begins anew. */
const MAX_REMEMBERED = 64;

/**
 * In which order a name's addresses are tried: the two families in turn, as the resolver ordered them, and those
 * that failed last come last. So the next try does not begin where this one hung.
 */
export class AddressOrder {
  /** In the order of their last failure. */
  readonly #failed = new Set<string>();

  arrange(addresses: readonly LookupAddress[]): LookupAddress[] {
    const order = [...this.#failed];
    // -1, that is before all others, where it never failed. The sort is stable.
    return interleave(addresses).toSorted((a, b) => order.indexOf(a.address) - order.indexOf(b.address));
  }

  failed(address: string): void {
    this.#failed.delete(address);
    if (this.#failed.size >= MAX_REMEMBERED) this.#failed.clear();
    this.#failed.add(address);
  }
}

/** The resolver's favourite first, then the families in turn: one that leads nowhere costs one address, not all. */
function interleave(addresses: readonly LookupAddress[]): LookupAddress[] {
  const [first] = addresses;
  const own = addresses.filter(({ family }) => family === first?.family);
  const other = addresses.filter(({ family }) => family !== first?.family);
  const longest = Math.max(own.length, other.length);
  return Array.from({ length: longest }, (_, index) => [own[index], other[index]])
    .flat()
    .filter((address) => address !== undefined);
}
