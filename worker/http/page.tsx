import type { OpenAPIHono } from '@hono/zod-openapi';
import { type Context, Hono } from 'hono';
import { csrf } from 'hono/csrf';
import type { FC } from 'hono/jsx';
import { NONCE, secureHeaders, type SecureHeadersVariables } from 'hono/secure-headers';
import type { ClusterConfig } from '../config.ts';
import { hasTokens, tokenOf } from './auth.ts';
import { readBounded } from './body.ts';
import { Cluster, SilentCluster } from './page/cluster.tsx';
import { Document, Notice, SignIn } from './page/document.tsx';
import { FRAGMENT_HEADER } from './page/script.ts';
import type { AppDeps } from './ports.ts';
import { problem } from './problem.ts';
import { readableClusters, type Reader, readerOf } from './readable.ts';
import { endSession, hasSession, startSession } from './session.ts';
import type { StatusCache, StatusResult } from './status-cache.ts';

/** A form with one token in it. */
const MAX_FORM_BYTES = 4_096;

type PageEnv = { Variables: SecureHeadersVariables };
type PageContext = Context<PageEnv>;

/** Nothing is loaded from anywhere, nothing runs without the nonce, nobody frames it, and no address leaks. */
const headers = secureHeaders({
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    scriptSrc: [NONCE],
    styleSrc: [NONCE],
    imgSrc: ['data:'],
    connectSrc: ["'self'"],
    formAction: ["'self'"],
    baseUri: ["'none'"],
    frameAncestors: ["'none'"],
  },
  referrerPolicy: 'no-referrer',
  xFrameOptions: 'DENY',
  // Whether the whole zone is to be HTTPS for ever is not ours to promise: the Worker may sit on a shared domain.
  strictTransportSecurity: false,
});

type Seen = { readonly name: string; readonly result: StatusResult };

/** `GET /` and what belongs to it: the fragment it refreshes itself with, and the way in and out. */
export function page(app: OpenAPIHono, deps: AppDeps, cache: StatusCache): void {
  const pages = new Hono<PageEnv>();

  pages.get('/', headers, async (c) => {
    const reader = await readerOf(c, deps);
    if (reader instanceof Response) return html(c, 500, <Misconfigured nonce={nonceOf(c)} />);
    const clusters = chosen(c, reader);
    const closed = closedTo(reader);
    if (clusters.length === 0 && closed) return signIn(c, 401, false);
    const signedIn = await hasSession(c, reader.config, deps.now());
    const seen = await look(c, clusters);
    return html(
      c,
      200,
      <Document title={titleOf(seen)} nonce={nonceOf(c)} live signedIn={signedIn}>
        <Live seen={seen} configured={reader.config.clusters.size > 0} closed={closed} />
      </Document>,
    );
  });

  pages.get('/fragment', headers, async (c) => {
    const reader = await readerOf(c, deps);
    if (reader instanceof Response) return reader;
    const clusters = chosen(c, reader);
    if (clusters.length === 0 && closedTo(reader)) return problem('unauthorized');
    c.header(FRAGMENT_HEADER, '1');
    c.header('cache-control', 'no-store');
    const seen = await look(c, clusters);
    return c.html(
      <Live seen={seen} configured={reader.config.clusters.size > 0} closed={closedTo(reader)} />,
    );
  });

  pages.get('/sign-in', headers, (c) => signIn(c, 200, false));

  pages.post('/sign-in', headers, csrf(), async (c) => {
    const configured = deps.config();
    if (!configured.ok) return html(c, 500, <Misconfigured nonce={nonceOf(c)} />);
    const form = new URLSearchParams(await readBounded(c.req.raw, MAX_FORM_BYTES));
    const token = await tokenOf(form.get('token')?.trim() ?? '', configured.config);
    if (token === undefined) return signIn(c, 401, true);
    await startSession(c, token, deps.now());
    return c.redirect('/', 303);
  });

  pages.post('/sign-out', headers, csrf(), (c) => {
    endSession(c);
    return c.redirect('/', 303);
  });

  async function look(c: Context, clusters: readonly ClusterConfig[]): Promise<readonly Seen[]> {
    return Promise.all(clusters.map(async ({ name }) => ({ name, result: await cache.get(c, name) })));
  }

  app.route('/', pages);
}

/** The clusters to show: all that may be read, or the one that `?cluster=` names. */
function chosen(c: Context, reader: Reader): readonly ClusterConfig[] {
  const wanted = c.req.query('cluster');
  return readableClusters(reader).filter(({ name }) => wanted === undefined || name === wanted);
}

/** Whether there is more to see for who brings a token. */
function closedTo({ config, access }: Reader): boolean {
  return (
    access === 'none' &&
    hasTokens(config) &&
    [...config.clusters.values()].some(({ readers }) => readers === 'token')
  );
}

function nonceOf(c: PageContext): string {
  return c.get('secureHeadersNonce') ?? '';
}

/** What JSX makes. */
type Rendered = Parameters<PageContext['html']>[0];

function html(c: PageContext, status: 200 | 401 | 500, element: Rendered): Response | Promise<Response> {
  c.header('cache-control', 'no-store');
  return c.html(element, status);
}

function signIn(c: PageContext, status: 200 | 401, wrong: boolean): Response | Promise<Response> {
  return html(
    c,
    status,
    <Document title="Sign in · farpulse" nonce={nonceOf(c)} live={false}>
      <SignIn wrong={wrong} />
    </Document>,
  );
}

/** What the tab says, so that trouble shows from another window. */
function titleOf(seen: readonly Seen[]): string {
  const nodes = seen.flatMap(({ result }) => (result.ok ? result.status.nodes : []));
  const down = nodes.filter(({ phase }) => phase === 'down').length;
  const suspect = nodes.filter(({ phase }) => phase === 'suspect').length;
  const counts = [...(down > 0 ? [`${down} down`] : []), ...(suspect > 0 ? [`${suspect} suspect`] : [])];
  return [...counts, 'farpulse'].join(' · ');
}

interface LiveProps {
  readonly seen: readonly Seen[];
  /** Whether any cluster is configured. */
  readonly configured: boolean;
  /** Whether there is more to see with a token. */
  readonly closed: boolean;
}

/** All that changes. Its first element carries the title. */
const Live: FC<LiveProps> = ({ seen, configured, closed }) => (
  <div data-title={titleOf(seen)}>
    {seen.map(({ name, result }) =>
      result.ok ? <Cluster status={result.status} /> : <SilentCluster name={name} />,
    )}
    {seen.length === 0 && (
      <Notice heading="Nothing to show">
        {configured ? (
          <p>There is no cluster of that name.</p>
        ) : (
          <p>
            No cluster is configured yet: add a table <code>[vars.CLUSTERS.name]</code> to{' '}
            <code>wrangler.toml</code>.
          </p>
        )}
      </Notice>
    )}
    {closed && (
      <p class="muted">
        <a href="/sign-in">Sign in</a> to see the clusters that are not open to everybody.
      </p>
    )}
  </div>
);

const Misconfigured: FC<{ nonce: string }> = ({ nonce }) => (
  <Document title="Misconfigured · farpulse" nonce={nonce} live={false}>
    <Notice heading="This deployment is misconfigured">
      <p>
        Nothing is judged and nothing is written. <code>GET /healthz</code> with the admin token names the
        wrong field and what is expected there.
      </p>
    </Notice>
  </Document>
);
