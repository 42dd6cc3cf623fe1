import { lookup as systemLookup } from 'node:dns/promises';
import type { LookupAddress } from 'node:dns';
import type { LookupFunction } from 'node:net';

type Ask = (hostname: string) => Promise<LookupAddress[]>;

const askSystem: Ask = (hostname) => systemLookup(hostname, { all: true });

/** After so long, addresses known from before are used and the question goes on beside them. */
export const PATIENCE_MS = 300;

/** Each open question holds one of the runtime's four threads, and a beat's signature needs one too. */
const MAX_OPEN = 2;

/**
 * Name resolution that asks afresh for every new connection and falls back to the last good answer, so that a
 * resolver which hangs or fails does not silence a node whose path is fine. One question per name is open at a time,
 * and two in all.
 */
export class Resolver {
  readonly #ask: Ask;
  readonly #known = new Map<string, LookupAddress[]>();
  readonly #open = new Map<string, Promise<LookupAddress[]>>();
  readonly #waiting: (() => void)[] = [];
  #asking = 0;
  /** Told of each fresh answer. */
  onAnswer: (hostname: string, addresses: LookupAddress[]) => void = () => {};

  constructor(ask: Ask = askSystem) {
    this.#ask = ask;
  }

  /** @throws what the resolver said, when the name was never resolved before */
  async addresses(hostname: string, patienceMs = PATIENCE_MS): Promise<LookupAddress[]> {
    const fresh = this.#open.get(hostname) ?? this.#begin(hostname);
    this.#open.set(hostname, fresh);
    const before = this.#known.get(hostname);
    if (before === undefined) return fresh;
    const { promise: patience, resolve: giveUp } = Promise.withResolvers<LookupAddress[]>();
    const timer = setTimeout(giveUp, patienceMs, before);
    return Promise.race([fresh.catch(() => before), patience]).finally(() => clearTimeout(timer));
  }

  /** Addresses from another run, for as long as there is no answer. */
  recall(hostname: string, addresses: readonly LookupAddress[]): void {
    if (!this.#known.has(hostname)) this.#known.set(hostname, [...addresses]);
  }

  async #begin(hostname: string): Promise<LookupAddress[]> {
    if (this.#asking >= MAX_OPEN) await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    else this.#asking += 1;
    try {
      const addresses = await this.#ask(hostname);
      this.#known.set(hostname, addresses);
      this.onAnswer(hostname, addresses);
      return addresses;
    } finally {
      this.#open.delete(hostname);
      const next = this.#waiting.shift();
      if (next === undefined) this.#asking -= 1;
      else next(); // hands its place over
    }
  }
}

/** What an earlier run knew, by name. */
export type KnownAddresses = Record<string, LookupAddress[]>;

/**
 * Gives a resolver what an earlier run knew of these names, and tells when that has changed: so a beacon that is
 * started while its resolver hangs still beats.
 */
export function recallAddresses(
  resolver: Resolver,
  names: ReadonlySet<string>,
  known: KnownAddresses,
  keep: (known: KnownAddresses) => void,
): void {
  let kept: KnownAddresses = Object.fromEntries(Object.entries(known).filter(([name]) => names.has(name)));
  for (const [name, addresses] of Object.entries(kept)) resolver.recall(name, addresses);
  resolver.onAnswer = (name, addresses) => {
    // Resolvers shuffle them; that alone is not worth a write.
    if (!names.has(name) || sameAddresses(kept[name] ?? [], addresses)) return;
    kept = { ...kept, [name]: addresses };
    keep(kept);
  };
}

function sameAddresses(some: readonly LookupAddress[], others: readonly LookupAddress[]): boolean {
  const listOf = (addresses: readonly LookupAddress[]): string =>
    addresses
      .map(({ address }) => address)
      .toSorted()
      .join();
  return listOf(some) === listOf(others);
}

/** The process's one resolver: its limits hold only where everybody asks it. */
export const systemResolver = new Resolver();

/** The resolver in the shape that `http.request` and `net.connect` take. */
export function lookupBy(resolver: Resolver): LookupFunction {
  return (hostname, options, callback) => {
    const family = options.family === 4 || options.family === 6 ? options.family : undefined;
    resolver.addresses(hostname).then(
      (addresses) => {
        const fitting = addresses.filter((address) => family === undefined || address.family === family);
        const [first] = fitting;
        if (first === undefined) {
          callback(Object.assign(new Error(`no address for ${hostname}`), { code: 'ENOTFOUND' }), '');
        } else if (options.all === true) callback(null, fitting);
        else callback(null, first.address, first.family);
      },
      (error: unknown) => callback(error instanceof Error ? error : new Error(String(error)), ''),
    );
  };
}
