import { raw } from 'hono/html';
import type { Child, FC } from 'hono/jsx';
import { SCRIPT } from './script.ts';
import { STYLE } from './style.ts';

/** Seconds between reloads where there is no script. */
const RELOAD_SECONDS = 5;

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 16'%3E%3Cpath fill='none' stroke='%2324693f' " +
  "stroke-width='2' d='M1 9h6l2-6 4 11 3-8 1.5 3H23'/%3E%3C/svg%3E";

interface DocumentProps {
  readonly title: string;
  readonly nonce: string;
  /** Whether what it shows changes, and is to be fetched again. */
  readonly live: boolean;
  readonly signedIn?: boolean;
  readonly children?: Child;
}

/** The frame of every page. */
export const Document: FC<DocumentProps> = ({ title, nonce, live, signedIn, children }) => (
  <>
    {raw('<!doctype html>')}
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        {live && (
          <noscript>
            <meta http-equiv="refresh" content={String(RELOAD_SECONDS)} />
          </noscript>
        )}
        <title>{title}</title>
        <link rel="icon" href={ICON} />
        <style nonce={nonce} dangerouslySetInnerHTML={{ __html: STYLE }} />
      </head>
      <body>
        <div class="page">
          <div class="top">
            <h1>
              <svg viewBox="0 0 24 16" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">
                <path d="M1 9h6l2-6 4 11 3-8 1.5 3H23" />
              </svg>
              farpulse
            </h1>
            {live && (
              <p id="connection" role="status">
                Live
              </p>
            )}
            {signedIn === true && (
              <form method="post" action="/sign-out">
                <button type="submit">Sign out</button>
              </form>
            )}
          </div>
          {live ? <main id="live">{children}</main> : <main>{children}</main>}
        </div>
        {live && <script nonce={nonce} dangerouslySetInnerHTML={{ __html: SCRIPT }} />}
      </body>
    </html>
  </>
);

/** A page that says one thing. */
export const Notice: FC<{ heading: string; children?: Child }> = ({ heading, children }) => (
  <section class="cluster card">
    <h2>{heading}</h2>
    {children}
  </section>
);

/** Takes a token once, in the body of a POST: never in an address. */
export const SignIn: FC<{ wrong?: boolean }> = ({ wrong }) => (
  <Notice heading="Sign in to read">
    <form method="post" action="/sign-in">
      <label for="token">Read token</label>
      <input
        id="token"
        name="token"
        type="password"
        autocomplete="current-password"
        required
        {...(wrong === true && { 'aria-invalid': 'true', 'aria-describedby': 'wrong' })}
      />
      {wrong === true && (
        <p id="wrong" class="bad-text">
          That is not a token of this deployment.
        </p>
      )}
      <button type="submit">Sign in</button>
    </form>
    <p class="muted">
      The admin token reads too. This browser then keeps a cookie that can read and nothing else.
    </p>
  </Notice>
);
