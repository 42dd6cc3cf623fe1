import type { Context } from 'hono';
import type { ClusterConfig, Config } from '../config.ts';
import type { AppDeps } from './ports.ts';
import { hasSession } from './session.ts';

/** What a request may do. `reader`: read everything. `admin`: that, and change state. */
export type Access = 'none' | 'reader' | 'admin';

/** As in `config.ts`: a shorter secret is a mistake there, and must not open anything here. */
const MIN_TOKEN_LENGTH = 16;

async function sha256(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
}

/**
 * Whether two secrets are the same, in a time that tells nothing about where they differ or how long they are: their
 * hashes are compared, all of them. (`crypto.subtle.timingSafeEqual` exists in workerd only; this runs anywhere.)
 */
export async function sameSecret(given: string, expected: string): Promise<boolean> {
  const [a, b] = await Promise.all([sha256(given), sha256(expected)]);
  return a.reduce((difference, byte, i) => difference | (byte ^ (b[i] ?? 0)), 0) === 0;
}

/** The token of an `Authorization: Bearer` header (RFC 6750, 2.1). */
function bearerOf(c: Context): string | undefined {
  return /^bearer +([^\s]+) *$/i.exec(c.req.header('authorization') ?? '')?.[1];
}

async function isToken(given: string | undefined, expected: unknown): Promise<boolean> {
  if (given === undefined || typeof expected !== 'string' || expected.length < MIN_TOKEN_LENGTH) return false;
  return sameSecret(given, expected);
}

/**
 * Whether the request carries the admin token. Needs no configuration, so that a broken one can be explained to who
 * can mend it. Only the header counts: a browser sends it by no one's will but a program's, so no page can be tricked
 * into changing anything.
 */
export async function isAdmin(c: Context, deps: AppDeps): Promise<boolean> {
  return isToken(bearerOf(c), deps.adminToken());
}

/** What this request may do. The page's cookie only ever reads, whichever token it was had for. */
export async function accessOf(c: Context, deps: AppDeps, config: Config): Promise<Access> {
  if (await isAdmin(c, deps)) return 'admin';
  if (await isToken(bearerOf(c), config.readToken)) return 'reader';
  return (await hasSession(c, config, deps.now())) ? 'reader' : 'none';
}

/** The configured token that this text is, to sign a session with. */
export async function tokenOf(given: string, config: Config): Promise<string | undefined> {
  for (const token of [config.readToken, config.adminToken]) {
    if (await isToken(given, token)) return token;
  }
  return undefined;
}

export function mayRead(cluster: ClusterConfig, access: Access): boolean {
  return cluster.readers === 'open' || access !== 'none';
}

/** Whether there is any token that a reader could come with. */
export function hasTokens(config: Config): boolean {
  return config.readToken !== undefined || config.adminToken !== undefined;
}
