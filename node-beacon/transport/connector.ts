import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { isIP, type Socket } from 'node:net';
import { connect as connectTls, type SecureContext, type TLSSocket } from 'node:tls';
import { clip, codeOf } from '../text.ts';
import { AddressOrder } from './address-order.ts';
import { ignoreErrors, raceAddresses } from './address-race.ts';
import { explain } from './failure-text.ts';
import type { Proxy } from './proxy.ts';
import type { Failure } from './transport.ts';
import type { Trust } from './trust.ts';

/** How a connection came out. A connected one is ready for HTTP: tunnelled and in TLS where it has to be. */
export type Connected =
  | { readonly kind: 'connected'; readonly socket: Socket }
  | {
      readonly kind: 'failed';
      readonly failure: Extract<Failure, 'dns' | 'tcp' | 'tls' | 'proxy' | 'timeout'>;
      readonly why: string;
      readonly code: string | undefined;
    };

/** How far a connection came, as a message about one that was given up says it. */
type Doing = 'resolving the name' | 'connecting' | 'asking the proxy' | 'in the TLS handshake';

interface ConnectorParts {
  readonly resolve: (hostname: string) => Promise<readonly LookupAddress[]>;
  readonly trust: Pick<Trust, 'context' | 'reload'>;
  readonly proxy: Proxy | undefined;
  /** How long one address is left alone before the next one is begun beside it. */
  readonly staggerMs: number;
}

/** Ends one step with its cause. */
class StepError extends Error {
  readonly failure: 'dns' | 'tcp' | 'tls' | 'proxy';
  readonly code: string | undefined;

  constructor(failure: StepError['failure'], why: string, cause?: unknown) {
    super(why, { cause });
    this.failure = failure;
    this.code = codeOf(cause);
  }
}

/**
 * Opens connections to endpoints: through the proxy or directly, to whichever address answers first, each one new.
 * One for all transports, since it learns which addresses lead nowhere.
 *
 * Node's own `proxyEnv` would not do: it resolves by itself, takes no CA for the proxy, leaves a tunnel that hangs
 * open, and does not say how far a connection came.
 */
export class Connector {
  readonly #parts: ConnectorParts;
  readonly #order = new AddressOrder();
  /** The address last connected to, by the host that was meant. */
  readonly #lastAddress = new Map<string, string>();

  constructor(parts: ConnectorParts) {
    this.#parts = parts;
  }

  /** A new connection for http, https, ws or wss. Ends soon after the signal at the latest, and never throws. */
  async connect(url: URL, signal: AbortSignal): Promise<Connected> {
    const proxy = this.#parts.proxy?.serves(url) === true ? this.#parts.proxy : undefined;
    let doing: Doing = 'resolving the name';
    let socket: Socket | undefined;
    const giveUp = (): void => void socket?.destroy();
    signal.addEventListener('abort', giveUp);
    try {
      // Before there is a connection: one that its peer ends while we read files would never say so.
      const trusted = await unlessAborted(signal, this.#parts.trust.context());
      const first = proxy?.url ?? url;
      const addresses = await unlessAborted(signal, this.#resolve(first));
      doing = 'connecting';
      socket = await this.#race(url, first, addresses, signal);
      if (proxy !== undefined) {
        doing = 'asking the proxy';
        if (isSecure(proxy.url)) socket = await secure(socket, proxy.url, trusted, signal);
        socket = await openTunnel(socket, proxy, url, signal);
      }
      if (isSecure(url)) {
        doing = 'in the TLS handshake';
        socket = await secure(socket, url, trusted, signal);
      }
      return { kind: 'connected', socket };
    } catch (error) {
      socket?.destroy();
      this.failed(url);
      if (signal.aborted) {
        const whom = proxy !== undefined && doing === 'connecting' ? ` to the proxy ${proxy.name}` : '';
        return { kind: 'failed', failure: 'timeout', why: `gave up ${doing}${whom}`, code: undefined };
      }
      if (!(error instanceof StepError)) throw error;
      if (error.failure === 'tls') this.#parts.trust.reload();
      const { message, failure, code } = error;
      if (proxy === undefined || doing === 'in the TLS handshake')
        return { kind: 'failed', failure, why: message, code };
      const why = failure === 'proxy' ? message : clip(`the proxy ${proxy.name}: ${message}`);
      return { kind: 'failed', failure: 'proxy', why, code };
    } finally {
      signal.removeEventListener('abort', giveUp);
    }
  }

  /** What came over the last connection to this URL was of no use: the next one begins with another address. */
  failed(url: URL): void {
    const address = this.#lastAddress.get(url.host);
    if (address !== undefined) this.#order.failed(address);
    this.#lastAddress.delete(url.host);
  }

  async #resolve(url: URL): Promise<readonly LookupAddress[]> {
    const host = hostOf(url);
    const family = isIP(host);
    if (family !== 0) return [{ address: host, family }];
    try {
      return await this.#parts.resolve(host);
    } catch (error) {
      throw new StepError('dns', explain(error), error);
    }
  }

  async #race(
    url: URL,
    first: URL,
    addresses: readonly LookupAddress[],
    signal: AbortSignal,
  ): Promise<Socket> {
    try {
      const socket = await raceAddresses({
        addresses: this.#order.arrange(addresses),
        port: portOf(first),
        staggerMs: this.#parts.staggerMs,
        signal,
        onLoser: (address) => this.#order.failed(address),
      });
      this.#lastAddress.set(url.host, socket.remoteAddress ?? '');
      return socket;
    } catch (error) {
      throw new StepError('tcp', explain(error), error);
    }
  }
}

async function secure(
  socket: Socket,
  url: URL,
  secureContext: SecureContext,
  signal: AbortSignal,
): Promise<TLSSocket> {
  const host = hostOf(url);
  const secured = connectTls({
    socket,
    secureContext,
    host,
    servername: isIP(host) === 0 ? host : '', // RFC 6066: no addresses in it
    ALPNProtocols: ['http/1.1'],
    rejectUnauthorized: true, // said aloud, or an environment variable could switch it off
  });
  ignoreErrors(secured);
  try {
    await once(secured, 'secureConnect', { signal });
    return secured;
  } catch (error) {
    secured.destroy();
    throw new StepError('tls', explain(error), error);
  }
}

/**
 * An agent whose one connection is this socket: for `http.request` or a WebSocket client, which then neither resolve
 * nor connect. The connection is kept after an answer for as long as both sides leave it open.
 */
export function agentOver(socket: Socket, url: URL, maxIdleMs = 0): http.Agent {
  const options = { keepAlive: true, maxSockets: 1, timeout: maxIdleMs };
  const agent = isSecure(url) ? new https.Agent(options) : new http.Agent(options);
  agent.createConnection = () => socket;
  return agent;
}

/** CONNECT (RFC 9110, 9.3.6). The proxy's words are its own: they are never taken for farpulse's answer. */
async function openTunnel(socket: Socket, proxy: Proxy, url: URL, signal: AbortSignal): Promise<Socket> {
  const target = `${url.hostname}:${portOf(url)}`;
  const { name, authorization } = proxy;
  const request = http.request({
    method: 'CONNECT',
    path: target,
    headers: {
      host: target,
      ...(authorization === undefined ? {} : { 'proxy-authorization': authorization }),
    },
    createConnection: () => socket,
  });
  request.on('error', () => {});
  request.end();
  let answer: [http.IncomingMessage, Socket, Buffer];
  try {
    answer = (await once(request, 'connect', { signal })) as typeof answer;
  } catch (error) {
    throw new StepError('proxy', clip(`the proxy ${name} broke off, or is none: ${explain(error)}`), error);
  }
  const [{ statusCode = 0, statusMessage = '' }, tunnel, head] = answer;
  if (statusCode >= 200 && statusCode < 300) {
    if (head.length > 0) tunnel.unshift(head);
    return tunnel;
  }
  throw new StepError('proxy', clip(refusalText(proxy, target, statusCode, statusMessage)));
}

function refusalText({ name, authorization }: Proxy, target: string, status: number, said: string): string {
  const words = `${status} ${said}`.trim();
  if (status !== 407) return `the proxy ${name} refuses to connect to ${target} (${words})`;
  return authorization === undefined
    ? `the proxy ${name} wants credentials: user and password belong into HTTPS_PROXY (${words})`
    : `the proxy ${name} does not accept the credentials of HTTPS_PROXY (${words})`;
}

function isSecure({ protocol }: URL): boolean {
  return protocol === 'https:' || protocol === 'wss:';
}

function portOf(url: URL): number {
  return Number(url.port) || (isSecure(url) ? 443 : 80);
}

function hostOf({ hostname }: URL): string {
  return hostname.replaceAll(/[[\]]/g, '');
}

/** The step's end or the signal's, whichever comes first. */
async function unlessAborted<T>(signal: AbortSignal, step: Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(signal.reason as Error);
  signal.addEventListener('abort', abort);
  step.catch(() => {}); // when the signal wins, nobody else waits for it
  try {
    return await Promise.race([step, promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
