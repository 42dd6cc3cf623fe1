import type { Context } from 'hono';
import { deleteCookie, getSignedCookie, setSignedCookie } from 'hono/cookie';
import type { Config } from '../config.ts';

/*
 * Browsers cannot be made to send a bearer token with a page, and a token in a URL ends in logs and histories. So the
 * page takes the token once, in a POST, and gives a cookie in exchange:
 *
 * 1. The cookie holds an expiry and its HMAC-SHA256 under the token. It is neither the token nor its hash, so it is of
 *    no use to the API's Authorization header, and nothing is stored here.
 * 2. Changing the token ends all of its sessions.
 * 3. It opens reading and nothing else, and is not sent with what other sites post (SameSite=Lax: a link
 *    in a chat does open the page; HttpOnly, Secure, no Domain: the `__Host-` prefix, RFC 6265bis 4.1.3.2, has the browser insist on the last two).
 */
const COOKIE = 'farpulse';

/** A screen on the wall should not ask every morning; a lost laptop should not read for ever. */
const SESSION_SECONDS = 7 * 24 * 3600;

/** Names what is signed, so that no other use of the token's HMAC can be taken for a session. */
const PURPOSE = 'page-session-v1';

export async function startSession(c: Context, token: string, nowMs: number): Promise<void> {
  const untilSeconds = Math.floor(nowMs / 1000) + SESSION_SECONDS;
  await setSignedCookie(c, COOKIE, `${PURPOSE}.${untilSeconds}`, token, {
    prefix: 'host',
    httpOnly: true,
    secure: true,
    sameSite: 'Lax',
    path: '/',
    maxAge: SESSION_SECONDS,
  });
}

export function endSession(c: Context): void {
  deleteCookie(c, COOKIE, { prefix: 'host', secure: true, path: '/' });
}

/** Whether the request carries a session that was started with one of the tokens and is not over. */
export async function hasSession(c: Context, config: Config, nowMs: number): Promise<boolean> {
  for (const token of [config.readToken, config.adminToken]) {
    if (token === undefined) continue;
    // `false`: there is one, signed with something else. hono compares with `subtle.verify`, in constant time.
    const value = await getSignedCookie(c, token, COOKIE, 'host');
    if (typeof value !== 'string') continue;
    const [purpose, untilSeconds] = value.split('.');
    if (purpose === PURPOSE && Number(untilSeconds) * 1000 > nowMs) return true;
  }
  return false;
}
