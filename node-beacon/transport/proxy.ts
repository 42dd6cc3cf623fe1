import { BlockList, isIP } from 'node:net';
import { isLoopback } from '../loopback.ts';

type Environment = Readonly<Record<string, string | undefined>>;

export type ParsedProxy =
  | { readonly kind: 'proxy'; readonly proxy: Proxy | undefined }
  /** What is wrong, without the value: it may hold a password. */
  | { readonly kind: 'wrong'; readonly problem: string };

/** The proxy that connections go through, and the hosts that are reached without it. */
export class Proxy {
  /** Without credentials: fit for a log. */
  readonly url: URL;
  /** Private to the language too, so that no dump of the settings shows it. */
  readonly #authorization: string | undefined;
  readonly #bypasses: readonly string[];

  constructor(withCredentials: URL, bypasses: readonly string[]) {
    this.url = new URL(withCredentials.origin);
    this.#authorization = authorizationOf(withCredentials);
    this.#bypasses = bypasses;
  }

  /** `proxy.example.com:3128` */
  get name(): string {
    return this.url.port === '' ? `${this.url.hostname}:${defaultPort(this.url)}` : this.url.host;
  }

  get port(): number {
    return Number(this.url.port) || defaultPort(this.url);
  }

  /** The value of `proxy-authorization`. */
  get authorization(): string | undefined {
    return this.#authorization;
  }

  /** Loopback is never asked for elsewhere. */
  serves(url: URL): boolean {
    return !isLoopback(url) && !this.#bypasses.some((entry) => isNamedBy(entry, url));
  }
}

/**
 * Reads `HTTPS_PROXY` and `NO_PROXY`, or their lower-case forms, which win. `NO_PROXY` is read as Go programs and curl
 * read it, so that a node's usual value works: names with all names below them, addresses, CIDR ranges, `*`; each
 * with a port if only that one is meant.
 */
export function readProxy(env: Environment): ParsedProxy {
  const from = ['https_proxy', 'HTTPS_PROXY'].find((name) => (env[name] ?? '').trim() !== '');
  if (from === undefined) return { kind: 'proxy', proxy: undefined };
  const text = (env[from] ?? '').trim();
  const url = URL.parse(/^[\w+.-]+:\/\//.test(text) ? text : `http://${text}`);
  if (
    url === null ||
    !['http:', 'https:'].includes(url.protocol) ||
    !isDecodable(url.username + url.password)
  ) {
    const problem = `${from}: expected http:// or https://, credentials in percent-encoding if any, host and port`;
    return { kind: 'wrong', problem };
  }
  const bypasses = (env['no_proxy'] ?? env['NO_PROXY'] ?? '').split(/[,\s]+/).filter((entry) => entry !== '');
  return { kind: 'proxy', proxy: new Proxy(url, bypasses) };
}

function authorizationOf({ username, password }: URL): string | undefined {
  if (username === '' && password === '') return undefined;
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return `Basic ${Buffer.from(credentials).toString('base64')}`;
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

function defaultPort({ protocol }: URL): number {
  return protocol === 'https:' ? 443 : 80;
}

function isNamedBy(entry: string, url: URL): boolean {
  if (entry === '*') return true;
  const host = url.hostname.replaceAll(/[[\]]/g, '');
  const family = isIP(host);
  if (entry.includes('/')) return family !== 0 && isInRange(host, family, entry);
  const { name, port } = splitPort(entry.toLowerCase());
  if (port !== undefined && port !== (Number(url.port) || defaultPort(url))) return false;
  if (family !== 0) return name === host;
  const domain = name.replace(/^\*?\./, '');
  return host === domain || host.endsWith(`.${domain}`);
}

function splitPort(entry: string): { name: string; port: number | undefined } {
  const bracketed = /^\[(.+)\](?::(\d+))?$/.exec(entry);
  const plain = /^([^:]+)(?::(\d+))?$/.exec(entry); // a bare IPv6 address has more colons
  const [, name = entry, port] = bracketed ?? plain ?? [];
  return { name, port: port === undefined ? undefined : Number(port) };
}

function isInRange(host: string, family: number, entry: string): boolean {
  const [network = '', bits = ''] = entry.split('/');
  const own = family === 6 ? 'ipv6' : 'ipv4';
  const isRange =
    isIP(network) === family && /^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32);
  if (!isRange) return false;
  const range = new BlockList();
  range.addSubnet(network, Number(bits), own);
  return range.check(host, own);
}
