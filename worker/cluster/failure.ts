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
      why: known === undefined ? notTheApi(answer) : `${known} (${hint(answer)})`,
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
const EDGE_STATUS: Readonly<Record<number, string>> = {
  409: 'DNS: the edge cannot resolve the name',
  502: 'bad gateway: whatever stands before the API server cannot reach it',
  503: 'whatever stands before the API server has no server to ask',
  504: 'gateway timeout: the API server did not answer whatever stands before it',
  520: 'the API server answered the edge with something it does not understand',
  521: 'connection refused',
  522: 'connection timed out',
  523: 'no route to the API server',
  524: 'timed out: connected, but no answer in time',
  525: 'TLS: the handshake failed',
  526: 'TLS: the certificate is not valid for this name, or not from a public authority',
  530: 'the edge cannot reach the API server: an unknown name (error 1016) or a tunnel without connectors (error 1033)',
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

/** First match wins: a certificate's complaint may name a host, and a DNS error say that the connection failed. */
const LOSSES: readonly (readonly [RegExp, string])[] = [
  [/certificate|self.?signed|\bCERT|\bTLS|_TLS_|_SSL_|UNABLE_TO_VERIFY/i, 'TLS'],
  [/ENOTFOUND|EAI_AGAIN|\bDNS\b|getaddrinfo/i, 'DNS'],
  [/ECONNREFUSED|refused/i, 'connection refused'],
  [/ETIMEDOUT|TIMEOUT|timed out/i, 'timed out'],
  // workerd's words for a refused connection as well.
  [/Network connection lost/i, 'connection refused or lost'],
  [/ECONNRESET|EPIPE|UND_ERR_SOCKET|terminated|socket hang up|other side closed/i, 'connection lost'],
  [/EHOSTUNREACH|ENETUNREACH/i, 'no route'],
  // What workerd makes of an unknown name and of a certificate it does not trust: the reason is only in its log.
  [/internal error; reference/i, 'DNS or TLS'],
];

function describeLoss(cause: unknown): string {
  const text = chainOf(cause).join(': ');
  const kind = LOSSES.find(([pattern]) => pattern.test(text))?.[1] ?? 'no connection';
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
