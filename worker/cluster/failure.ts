import { z } from 'zod';
import type { ClusterFailure } from '../core/cluster-port.ts';

/** An answer that is not JSON with a 2xx status. */
export class HttpFailure extends Error {
  override readonly name = 'HttpFailure';
  readonly answer: RefusingAnswer;

  constructor(answer: RefusingAnswer) {
    super(`HTTP ${answer.status}`);
    this.answer = answer;
  }
}

export interface RefusingAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly retryAfter: string | null;
  readonly date: string | null;
  readonly text: string;
}

/** No answer, or none that was complete. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
  /** Set when the deadline was the reason. */
  readonly timeoutMs: number | undefined;

  constructor(cause: unknown, timeoutMs: number | undefined) {
    super('no answer', { cause });
    this.timeoutMs = timeoutMs;
  }
}

/** JSON that is not what was asked for. */
export class UnreadableAnswer extends Error {
  override readonly name = 'UnreadableAnswer';
}

/** The generated client could not be loaded: a fault of the deployment, which must not pass for the cluster's. */
export class ClientNotLoaded extends Error {
  override readonly name = 'ClientNotLoaded';
}

/** What the API server sends with every refusal of its own; proxies and edges do not. */
const Status = z.object({
  kind: z.literal('Status'),
  message: z.string().default(''),
  reason: z.string().default(''),
  details: z
    .object({
      name: z.string().optional(),
      causes: z.array(z.object({ field: z.string().optional() })).optional(),
    })
    .nullish(),
});
type Status = z.infer<typeof Status>;

const DEFAULT_RETRY_AFTER_MS = 1_000;
/** An absurd Retry-After must not silence the detector. */
const MAX_RETRY_AFTER_MS = 60_000;
const MAX_WHY_CHARS = 300;

/**
 * Sorts whatever a call threw into the port's failures.
 *
 * Only a Status object lets a 404 mean "absent" and a 409 mean "conflict": an edge answers 404 for an unknown
 * tunnel and 409 for a name it cannot resolve (error 1001), and neither says anything about a Node.
 *
 * @param secrets texts that must not show in `why`
 */
export function failureOf(error: unknown, secrets: readonly string[] = []): ClusterFailure {
  const failure = sort(error);
  if (failure.kind === 'not-found') return failure;
  return { ...failure, why: clean(failure.why, secrets) };
}

/** A create met an object of the same name. */
export function isAlreadyExists(error: unknown): boolean {
  return error instanceof HttpFailure && parseStatus(error.answer.text)?.reason === 'AlreadyExists';
}

function sort(error: unknown): ClusterFailure {
  if (error instanceof HttpFailure) return sortAnswer(error.answer);
  if (error instanceof NoAnswer) {
    const why =
      error.timeoutMs === undefined
        ? describeLoss(error.cause)
        : `no answer within ${error.timeoutMs / 1000} s`;
    return { kind: 'unreachable', why };
  }
  if (error instanceof ClientNotLoaded) {
    return { kind: 'unreachable', why: `the Kubernetes client does not load: ${messageOf(error.cause)}` };
  }
  // Also what the generated client throws when it stumbles over JSON of another shape.
  return { kind: 'unreachable', why: `the answer is not the Kubernetes API's: ${messageOf(error)}` };
}

function sortAnswer(answer: RefusingAnswer): ClusterFailure {
  const { status } = answer;
  const said = parseStatus(answer.text);
  if (status === 401 || status === 403) {
    return { kind: 'refused', status, why: said === undefined ? notTheApi(answer) : describe(status, said) };
  }
  if (status === 429 || (status === 503 && (said !== undefined || answer.retryAfter !== null))) {
    const why = said === undefined ? notTheApi(answer) : describe(status, said);
    return { kind: 'busy', retryAfterMs: retryAfterMs(answer), why };
  }
  if (said === undefined) {
    const known = EDGE_STATUS[status];
    return {
      kind: 'unreachable',
      why: known === undefined ? notTheApi(answer) : `${known.why} (${hint(answer)})`,
    };
  }
  // etcd without a leader, a webhook that fails: the server's trouble, not a fault of the request.
  if (status >= 500) return { kind: 'unreachable', why: describe(status, said) };
  switch (status) {
    case 404:
      // Without a name it is the path that does not exist: `apiUrl` leads to another place.
      return said.details?.name === undefined
        ? { kind: 'unreachable', why: describe(status, said) }
        : { kind: 'not-found' };
    case 409: {
      const stale = said.reason === 'Conflict';
      return { kind: 'conflict', why: `${stale ? 'resourceVersion: ' : ''}${describe(status, said)}` };
    }
    // The list has changed since its first page: begin again.
    case 410:
      return { kind: 'conflict', why: describe(status, said) };
    case 422: {
      const aboutUid = said.details?.causes?.some(({ field }) => field === 'metadata.uid') === true;
      if (aboutUid) return { kind: 'conflict', why: `uid: ${describe(status, said)}` };
      return { kind: 'invalid', status, why: describe(status, said) };
    }
    default:
      return { kind: 'invalid', status, why: describe(status, said) };
  }
}

/**
 * What Cloudflare answers for an origin it cannot talk to
 * (https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors/).
 */
const EDGE_STATUS: Readonly<Record<number, { readonly layer: Layer; readonly why: string }>> = {
  409: { layer: 'name', why: 'DNS: the edge cannot resolve the name' },
  502: {
    layer: 'connection',
    why: 'bad gateway: whatever stands before the API server cannot reach it',
  },
  503: { layer: 'connection', why: 'whatever stands before the API server has no server to ask' },
  504: {
    layer: 'connection',
    why: 'gateway timeout: the API server did not answer whatever stands before it',
  },
  520: {
    layer: 'connection',
    why: 'the API server answered the edge with something it does not understand',
  },
  521: { layer: 'connection', why: 'connection refused' },
  522: { layer: 'connection', why: 'connection timed out' },
  523: { layer: 'connection', why: 'no route to the API server' },
  524: { layer: 'connection', why: 'timed out: connected, but no answer in time' },
  525: { layer: 'tls', why: 'TLS: the handshake failed' },
  // The edge does not say which of the three.
  526: {
    layer: 'tls',
    why: 'TLS: the certificate is not valid for this name, or not from a public authority, or has expired',
  },
  530: {
    layer: 'unsaid',
    why: 'the edge cannot reach the API server: an unknown name (error 1016) or a tunnel without connectors (error 1033)',
  },
};

function notTheApi(answer: RefusingAnswer): string {
  if (answer.status >= 300 && answer.status < 400) {
    return `redirected (${answer.status}): this is not the Kubernetes API, perhaps a login page before it`;
  }
  return `not from the Kubernetes API: ${hint(answer)}`;
}

/** The status, and whatever short plain text came with it, such as `error code: 1016`. A page of HTML says nothing. */
function hint({ status, contentType, text }: RefusingAnswer): string {
  const isPage = /html/i.test(contentType) || text.trimStart().startsWith('<');
  const said = isPage || text.trim() === '' ? contentType.split(';')[0] : text.trim();
  return said === undefined || said === '' ? `${status}` : `${status}, ${said}`;
}

function describe(status: number, { reason, message }: Status): string {
  return [status, reason, message === '' ? '' : `: ${message}`].join(' ').replace(/ +:/, ':').trim();
}

function parseStatus(text: string): Status | undefined {
  try {
    return Status.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** Seconds or a date (RFC 9110, 10.2.3). A date counts from the answer's own Date: no two clocks are compared. */
function retryAfterMs({ retryAfter, date }: RefusingAnswer): number {
  if (retryAfter === null) return DEFAULT_RETRY_AFTER_MS;
  const ms = /^\d+$/.test(retryAfter)
    ? Number(retryAfter) * 1_000
    : Date.parse(retryAfter) - Date.parse(date ?? '');
  return Number.isNaN(ms)
    ? DEFAULT_RETRY_AFTER_MS
    : Math.min(Math.max(ms, DEFAULT_RETRY_AFTER_MS), MAX_RETRY_AFTER_MS);
}

/**
 * First match wins: a certificate's complaint may name a host, and a DNS error say that the connection failed. The
 * words are Node's (openssl), rustls' and those of RFC 9209, which a Workers VPC binding throws as `ProxyError: …`.
 */
const LOSSES: readonly (readonly [RegExp, Layer, string])[] = [
  [/UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER|SELF_?SIGNED|UnknownIssuer/i, 'tls', 'TLS: unknown authority'],
  [/ALTNAME|NotValidForName/i, 'tls', 'TLS: wrong name'],
  [/CERT_HAS_EXPIRED|certificate (?:has )?expired/i, 'tls', 'TLS: expired'],
  [/certificate|\bCERT|\bTLS|_TLS_|_SSL_/i, 'tls', 'TLS'],
  [/ENOTFOUND|EAI_AGAIN|\bDNS(?:\b|_)|getaddrinfo/i, 'name', 'DNS'],
  [/ECONNREFUSED|refused/i, 'connection', 'connection refused'],
  [/ETIMEDOUT|TIMEOUT|timed out/i, 'connection', 'timed out'],
  // workerd's words for a refused connection as well.
  [/Network connection lost/i, 'connection', 'connection refused or lost'],
  [
    /ECONNRESET|EPIPE|UND_ERR_SOCKET|terminated|socket hang up|other side closed/i,
    'connection',
    'connection lost',
  ],
  [/EHOSTUNREACH|ENETUNREACH|destination_(?:unavailable|ip_unroutable)/i, 'connection', 'no route'],
  // What workerd makes of an unknown name and of any certificate it does not trust, and the edge of a fault of its own:
  // the reason is only in the platform's log.
  [
    /internal error; reference/i,
    'unsaid',
    'the platform does not say why (an unknown name, a certificate that is not trusted, or a fault of its own)',
  ],
];

/**
 * How far a call came that brought no answer of the API server's: `name` was not resolved, `tls` was not agreed on,
 * the `connection` failed or broke; or the platform does not say (`unsaid`).
 */
export type Layer = 'name' | 'tls' | 'connection' | 'unsaid';

/** What `failureOf` says in words, for who has to tell what to do. Undefined when something did answer. */
export function layerOf(error: unknown): Layer | undefined {
  if (error instanceof HttpFailure) {
    const { status, text } = error.answer;
    if (parseStatus(text) !== undefined) return undefined;
    if (status === 530)
      return /\b1016\b/.test(text) ? 'name' : /\b1033\b/.test(text) ? 'connection' : 'unsaid';
    return EDGE_STATUS[status]?.layer;
  }
  if (!(error instanceof NoAnswer)) return undefined;
  if (error.timeoutMs !== undefined) return 'connection';
  const text = chainOf(error.cause).join(': ');
  return LOSSES.find(([pattern]) => pattern.test(text))?.[1] ?? 'unsaid';
}

function describeLoss(cause: unknown): string {
  const text = chainOf(cause).join(': ');
  const kind = LOSSES.find(([pattern]) => pattern.test(text))?.[2] ?? 'no connection';
  return `${kind}: ${text}`;
}

const Chained = z.object({ code: z.string().optional(), cause: z.unknown().optional() });

/** Messages and codes down the `cause` chain: Node says `fetch failed` and hides the reason below. */
function chainOf(error: unknown): string[] {
  const texts: string[] = [];
  for (let at = error, depth = 0; at !== undefined && depth < 5; depth += 1) {
    const { code, cause } = Chained.safeParse(at).data ?? {};
    const message = messageOf(at);
    texts.push(code === undefined || message.includes(code) ? message : `${message} (${code})`);
    at = cause;
  }
  return texts.filter((text) => text !== '');
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function clean(why: string, secrets: readonly string[]): string {
  let text = why.replaceAll(/\/\/[^/\s@]*@/g, '//').replaceAll(/[\p{Cc}\s]+/gu, ' ');
  for (const secret of secrets) if (secret !== '') text = text.replaceAll(secret, '[secret]');
  return text.length <= MAX_WHY_CHARS ? text : `${text.slice(0, MAX_WHY_CHARS - 1)}…`;
}
