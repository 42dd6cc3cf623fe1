import { describe, expect, test } from 'vitest';
import type { NodeStatus } from '../../worker/core/arbiter/view.ts';
import { SCRIPT } from '../../worker/http/page/script.ts';
import {
  ADMIN_TOKEN,
  bearer,
  clusterStatus,
  READ_TOKEN,
  START_MS,
  type Subject,
  subject,
} from './support/http-app.ts';

const ORIGIN = 'http://localhost';

function node(fields: Partial<NodeStatus> & { name: string }): NodeStatus {
  return {
    uid: 'uid',
    zone: 'a',
    phase: 'alive',
    sinceMs: START_MS,
    why: 'beats come',
    lastHeard: [],
    ...fields,
  };
}

function signIn({ app }: Subject, token: string, headers: Record<string, string> = { origin: ORIGIN }) {
  return app.request('/sign-in', {
    method: 'POST',
    body: new URLSearchParams({ token }).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
  });
}

/** What a browser would send back. */
function cookieOf(response: Response): string {
  return (response.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
}

const OPEN = { prod: { apiUrl: 'https://kube.example.com', readers: 'open' } };

describe('what is shown', () => {
  test('nodes that need a look come first, the most urgent of them first; healthy ones are a plain list', async () => {
    const nodes = [
      node({ name: 'fine-10' }),
      node({ name: 'fine-9' }),
      node({ name: 'cut', cause: 'api-path-cut' }),
      node({ name: 'suspicious', phase: 'suspect' }),
      node({ name: 'dead', phase: 'down', cause: 'host-silent' }),
      node({ name: 'quiet', phase: 'watched', cause: 'beacon-lost' }),
      node({ name: 'fresh', phase: 'new' }),
    ];
    const { app } = subject({ clusters: OPEN, status: async () => clusterStatus({ nodes }) });

    const html = await (await app.request('/')).text();

    const order = ['dead', 'suspicious', 'cut', 'quiet', 'fresh', 'fine-9', 'fine-10'];
    expect(order.map((name) => html.indexOf(`>${name}<`)).every((at) => at > 0)).toBe(true);
    expect(order.toSorted((a, b) => html.indexOf(`>${a}<`) - html.indexOf(`>${b}<`))).toEqual(order);
    expect(html.match(/<tr>/g)).toHaveLength(1 + 4);
    expect(html).toContain('<title>1 down · 1 suspect · farpulse</title>');
  });

  test('text of nodes cannot become markup, nor turn the line around, nor fill the page', async () => {
    const nodes = [
      node({
        name: 'evil',
        phase: 'down',
        cause: 'host-silent',
        why: `<script>alert(1)</script>\u202e${'x'.repeat(5_000)}`,
        zone: '"><img src=x>',
      }),
    ];
    const alerts = [{ code: '<b>', sinceMs: START_MS, message: '<i>', node: '<u>' }];
    const { app } = subject({
      clusters: OPEN,
      status: async () => clusterStatus({ nodes, alerts, why: '<s>' }),
    });

    const html = await (await app.request('/fragment')).text();

    expect(html).toContain('&lt;script&gt;');
    expect(html).not.toMatch(/<script|<img|<b>|<i>|<u>|<s>/);
    expect(html).not.toContain('\u202e');
    expect(html).not.toContain('x'.repeat(301));
  });

  test.for([
    {
      name: 'a hold, and how to release it',
      fields: {
        state: 'hold' as const,
        hold: { id: 'hold-1', sinceMs: START_MS - 60_000, nodes: ['a', 'b'], share: 0.61 },
      },
      texts: ['Hold: nothing is written', '61 %', '/v1/clusters/prod/holds/hold-1/release'],
    },
    {
      name: 'that it cannot see',
      fields: { state: 'cannot-see' as const, why: 'weur is blind' },
      texts: ['Cannot see', 'weur is blind'],
    },
    {
      name: 'that the API is unreachable',
      fields: { api: { state: 'unreachable' as const, sinceMs: START_MS - 40_000, why: 'refused' } },
      texts: ['API is unreachable', '40 s'],
    },
    {
      name: 'a blind region',
      fields: { regions: [{ region: 'apac', nodesHeard: 0, blind: 'just started' }] },
      texts: ['apac', 'blind: just started', 'has not reported'],
    },
    {
      name: 'that observe mode writes nothing',
      fields: { mode: 'observe' as const },
      texts: ['observe: decides, writes nothing'],
    },
  ])('the banner says $name', async ({ fields, texts }) => {
    const { app } = subject({ clusters: OPEN, status: async () => clusterStatus(fields) });

    const html = (await (await app.request('/')).text()).replace(/<[^>]*>/g, '').replaceAll('&#39;', "'");

    for (const text of texts) expect(html).toContain(text);
  });

  test('an arbiter that does not answer is shown as such, beside the others', async () => {
    const { app } = subject({
      clusters: { ...OPEN, gone: OPEN.prod },
      status: async (cluster) => {
        if (cluster === 'gone') throw new Error('secret text');
        return clusterStatus({ cluster });
      },
    });

    const response = await app.request('/');
    const html = await response.text();

    expect(response.status).toBe(200);
    expect(html).toContain('Nothing is known');
    expect(html).toContain('Judging');
    expect(html).not.toContain('secret');
  });

  test('at 1,000 nodes it stays under 130 kB, and a disaster of 1,000 under 250 kB', async () => {
    const named = (fields: Partial<NodeStatus>): NodeStatus[] =>
      Array.from({ length: 1_000 }, (_, i) =>
        node({
          name: `ip-10-0-${i}.eu-west-1.compute.internal`,
          lastHeard: ['weur', 'enam', 'apac'].map((region) => ({ region, sight: 'heard', heardAgoMs: i })),
          ...fields,
        }),
      );
    const calm = subject({ clusters: OPEN, status: async () => clusterStatus({ nodes: named({}) }) });
    const disaster = subject({
      clusters: OPEN,
      status: async () => clusterStatus({ nodes: named({ phase: 'down', cause: 'host-silent' }) }),
    });

    const calmHtml = await (await calm.app.request('/fragment')).text();
    const disasterHtml = await (await disaster.app.request('/fragment')).text();

    expect(calmHtml.match(/<li>/g)?.length).toBeGreaterThanOrEqual(1_000);
    expect(calmHtml.length).toBeLessThan(130_000);
    expect(disasterHtml).toContain('800 more in');
    expect(disasterHtml.length).toBeLessThan(250_000);
  });

  test('?cluster= shows that one only, in the fragment too', async () => {
    const { app, statusReads } = subject({ clusters: { ...OPEN, other: OPEN.prod } });

    await app.request('/?cluster=other');
    await app.request('/fragment?cluster=other');

    expect(statusReads).toEqual(['other']);
  });
});

describe('how it is served', () => {
  test('nothing runs but what carries the nonce of this very answer', async () => {
    const { app } = subject({ clusters: OPEN });

    const [first, second] = [await app.request('/'), await app.request('/')];

    const policy = first.headers.get('content-security-policy') ?? '';
    const nonce = /script-src 'nonce-([^']+)'/.exec(policy)?.[1] ?? 'none';
    const html = await first.text();
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toContain('unsafe');
    expect(html.match(/<(script|style)[^>]*>/g)).toEqual([
      `<style nonce="${nonce}">`,
      `<script nonce="${nonce}">`,
    ]);
    expect(html).not.toMatch(/ style=| on[a-z]+=/);
    expect(second.headers.get('content-security-policy')).not.toBe(policy);
    expect(first.headers.get('x-content-type-options')).toBe('nosniff');
    expect(first.headers.get('referrer-policy')).toBe('no-referrer');
    expect(first.headers.get('cache-control')).toBe('no-store');
  });

  test('it refreshes itself, without script by reloading', async () => {
    const { app } = subject({ clusters: OPEN });

    const html = await (await app.request('/')).text();

    expect(html).toMatch(/^<!doctype html>/);
    expect(html).toContain('<noscript><meta http-equiv="refresh" content="5"/></noscript>');
    expect(html).toContain(SCRIPT);
  });

  test('the fragment is what the page holds, and is marked as ours', async () => {
    const { app } = subject({ clusters: OPEN });

    const html = await (await app.request('/')).text();
    const fragment = await app.request('/fragment');

    expect(fragment.headers.has('farpulse-fragment')).toBe(true);
    expect(html).toContain(`<main id="live">${await fragment.text()}</main>`);
  });
});

describe('signing in', () => {
  test('a closed page asks for a token, and its fragment is refused', async () => {
    const { app, statusReads } = subject();

    const pageResponse = await app.request('/');

    expect(pageResponse.status).toBe(401);
    expect(await pageResponse.text()).toContain('name="token"');
    expect((await app.request('/fragment')).status).toBe(401);
    expect(statusReads).toEqual([]);
  });

  test('beside open clusters the closed ones are not named', async () => {
    const { app } = subject({ clusters: { ...OPEN, 'private-one': { apiUrl: 'https://kube.example.com' } } });

    const html = await (await app.request('/')).text();

    expect(html).not.toContain('private-one');
    expect(html).toContain('href="/sign-in"');
  });

  test.for([
    { name: 'the read token', token: READ_TOKEN },
    { name: 'the admin token', token: ADMIN_TOKEN },
    { name: 'the read token, pasted with a newline', token: `${READ_TOKEN}\n` },
  ])('with $name: a cookie that reads the page and the API', async ({ token }) => {
    const it = subject();

    const response = await signIn(it, token);
    const cookie = cookieOf(response);

    expect(response.status).toBe(303);
    expect(response.headers.get('location')).toBe('/');
    const attributes = response.headers.get('set-cookie') ?? '';
    for (const attribute of ['HttpOnly', 'Secure', 'SameSite=Lax', 'Path=/', 'Max-Age=604800']) {
      expect(attributes).toContain(attribute);
    }
    expect(attributes).toMatch(/^__Host-/);
    expect(attributes).not.toMatch(/Domain/i);
    expect(attributes).not.toContain(token.trim());
    expect(await (await it.app.request('/', { headers: { cookie } })).text()).toContain('Judging');
    expect((await it.app.request('/v1/clusters/prod', { headers: { cookie } })).status).toBe(200);
  });

  test.for(['', 'wrong-token-wrong-token', READ_TOKEN.toUpperCase()])(
    'with "%s": 401, no cookie',
    async (token) => {
      const response = await signIn(subject(), token);

      expect(response.status).toBe(401);
      expect(response.headers.get('set-cookie')).toBeNull();
      expect(await response.text()).toContain('not a token of this deployment');
    },
  );

  test('a form from another site is refused, even with the right token', async () => {
    const response = await signIn(subject(), READ_TOKEN, { origin: 'https://evil.example.com' });

    expect(response.status).toBe(403);
    expect(response.headers.get('set-cookie')).toBeNull();
  });

  test('a form that is too large is not read', async () => {
    const response = await signIn(subject(), `${READ_TOKEN}${' '.repeat(5_000)}`);

    expect(response.status).toBe(401);
  });

  test('a cookie had for the admin token does not release a hold', async () => {
    const it = subject();
    const cookie = cookieOf(await signIn(it, ADMIN_TOKEN));

    const response = await it.app.request('/v1/clusters/prod/holds/hold-1/release', {
      method: 'POST',
      headers: { cookie, origin: ORIGIN },
    });

    expect(response.status).toBe(403);
    expect(it.releases).toEqual([]);
  });

  test('a session ends after seven days', async () => {
    const it = subject();
    const cookie = cookieOf(await signIn(it, READ_TOKEN));

    it.clock.nowMs += 7 * 24 * 3_600_000 - 1_000;
    expect((await it.app.request('/', { headers: { cookie } })).status).toBe(200);

    it.clock.nowMs += 1_000;
    expect((await it.app.request('/', { headers: { cookie } })).status).toBe(401);
  });

  test('a session does not outlive its token', async () => {
    const cookie = cookieOf(await signIn(subject(), READ_TOKEN));
    const rotated = subject({ env: { READ_TOKEN: 'another-token-altogether' } });

    expect((await rotated.app.request('/', { headers: { cookie } })).status).toBe(401);
  });

  test.for([
    { name: 'with its end moved', forge: (cookie: string) => cookie.replace(/\.(\d+)\./, '.9999999999.') },
    { name: 'with its signature cut off', forge: (cookie: string) => cookie.replace(/\.[^.]*$/, '') },
    { name: 'that holds the token itself', forge: () => `__Host-farpulse=${READ_TOKEN}` },
    { name: 'that is empty', forge: () => '__Host-farpulse=' },
  ])('a cookie $name is worth nothing', async ({ forge }) => {
    const it = subject();
    const cookie = cookieOf(await signIn(it, READ_TOKEN));

    const response = await it.app.request('/', { headers: { cookie: forge(cookie) } });

    expect(response.status).toBe(401);
  });

  test('the cookie is no bearer token', async () => {
    const it = subject();
    const value = cookieOf(await signIn(it, READ_TOKEN)).replace('__Host-farpulse=', '');

    expect((await it.app.request('/v1/clusters/prod', { headers: bearer(value) })).status).toBe(401);
  });

  test('signing out takes the cookie back', async () => {
    const { app } = subject();

    const response = await app.request('/sign-out', { method: 'POST', headers: { origin: ORIGIN } });

    expect(response.status).toBe(303);
    expect(response.headers.get('set-cookie')).toMatch(/^__Host-farpulse=; Max-Age=0;/);
  });
});
