import { lookup as systemLookup } from 'node:dns/promises';
import type { LookupAddress } from 'node:dns';
import type { LookupFunction } from 'node:net';

type Resolve = (hostname: string) => Promise<LookupAddress[]>;

const resolveBySystem: Resolve = (hostname) => systemLookup(hostname, { all: true });

/** After so long, addresses known from before are used and the question goes on beside them. */
const PATIENCE_MS = 300;

/**
 * Name resolution that asks afresh for every new connection and falls back to the last good answer, so that a
 * resolver which hangs or fails does not silence a node whose path is fine.
 *
 * One question per name is open at a time: each holds one of the few threads that files and signatures need too.
 */
export function rememberingLookup(
  resolve: Resolve = resolveBySystem,
  patienceMs = PATIENCE_MS,
): LookupFunction {
  const known = new Map<string, LookupAddress[]>();
  const open = new Map<string, Promise<LookupAddress[]>>();

  async function ask(hostname: string): Promise<LookupAddress[]> {
    try {
      const addresses = await resolve(hostname);
      known.set(hostname, addresses);
      return addresses;
    } finally {
      open.delete(hostname);
    }
  }

  async function addressesOf(hostname: string): Promise<LookupAddress[]> {
    const fresh = open.get(hostname) ?? ask(hostname);
    open.set(hostname, fresh);
    const before = known.get(hostname);
    if (before === undefined) return fresh;
    const { promise: patience, resolve: giveUp } = Promise.withResolvers<LookupAddress[]>();
    const timer = setTimeout(giveUp, patienceMs, before);
    return Promise.race([fresh.catch(() => before), patience]).finally(() => clearTimeout(timer));
  }

  return (hostname, options, callback) => {
    const family = options.family === 4 || options.family === 6 ? options.family : undefined;
    addressesOf(hostname).then(
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
