// The three ways to an API server: their configuration, and the production bundle in workerd taking each of them. What
// only the edge does (a tunnel, Access itself, 526) is played by whatever stands at the other end.
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildBundle } from '../../cli/local/bundle.ts';
import { COMPATIBILITY_DATE } from '../../cli/local/local-worker.ts';
import { fetchOf } from '../../worker/cluster/cluster-of.ts';
import { parseConfig } from '../../worker/config.ts';
import { DoctorJson } from '../../worker/http/doctor.ts';
import { Api } from '../support/api-stand-in/api.ts';
import { REAL_CLOCK } from '../support/api-stand-in/index.ts';
import { Authority } from '../support/certificates.ts';
import { doctorApi } from '../support/doctor-api.ts';

const ADMIN_TOKEN = 'admin-token-of-the-test';
const TOKEN = 'token-of-the-account';
const ACCESS = { id: 'id.access', secret: 'the-secret-half' };

describe('the configuration', () => {
  const binding = { fetch: async () => new Response() };

  function parsed(vars: object, env: object) {
    const clusters = { 'prod-eu': { apiUrl: 'https://kube.example.com', ...vars } };
    return parseConfig({ DEPLOYMENT_ID: 'test', ADMIN_TOKEN, CLUSTERS: clusters, ...env });
  }

  test.for([
    { name: 'a public certificate needs nothing but apiUrl', vars: {}, env: {}, ok: true },
    {
      name: 'a binding that is there',
      vars: { apiUrl: 'https://kubernetes.default.svc', apiBinding: 'KUBE' },
      env: { KUBE: binding },
      ok: true,
    },
    {
      name: 'a binding that is not there',
      vars: { apiBinding: 'KUBE' },
      env: {},
      field: 'CLUSTERS.prod-eu.apiBinding',
      expected: 'a service binding (Workers VPC) named KUBE',
    },
    {
      name: 'a variable in place of a binding',
      vars: { apiBinding: 'KUBE' },
      env: { KUBE: 'https://kube.example.com' },
      field: 'CLUSTERS.prod-eu.apiBinding',
      expected: 'a service binding (Workers VPC) named KUBE',
    },
    {
      name: 'a binding without the name that it is asked by',
      vars: { apiUrl: undefined, apiBinding: 'KUBE', keys: {} },
      env: { KUBE: binding },
      field: 'CLUSTERS.prod-eu.apiUrl',
      expected: 'needed beside `apiBinding`: it gives Host and SNI, such as https://kubernetes.default.svc',
    },
    {
      name: 'both halves of a service token',
      vars: {},
      env: { ACCESS_CLIENT_ID_PROD_EU: ACCESS.id, ACCESS_CLIENT_SECRET_PROD_EU: ACCESS.secret },
      ok: true,
    },
    {
      name: 'only the id of a service token',
      vars: {},
      env: { ACCESS_CLIENT_ID_PROD_EU: ACCESS.id },
      field: 'ACCESS_CLIENT_SECRET_PROD_EU',
      expected: 'a secret without spaces, as ACCESS_CLIENT_ID_PROD_EU is one: they go together',
    },
    {
      name: 'only the secret of a service token',
      vars: {},
      env: { ACCESS_CLIENT_SECRET_PROD_EU: ACCESS.secret },
      field: 'ACCESS_CLIENT_ID_PROD_EU',
      expected: 'a secret without spaces, as ACCESS_CLIENT_SECRET_PROD_EU is one: they go together',
    },
    {
      name: 'a service token with the end of a line',
      vars: {},
      env: { ACCESS_CLIENT_ID_PROD_EU: ACCESS.id, ACCESS_CLIENT_SECRET_PROD_EU: `${ACCESS.secret}\n` },
      field: 'ACCESS_CLIENT_SECRET_PROD_EU',
      expected: 'a secret without spaces, as ACCESS_CLIENT_ID_PROD_EU is one: they go together',
    },
  ])('$name', ({ vars, env, ok = false, field, expected }) => {
    const result = parsed(vars, env);
    if (ok) expect(result).toMatchObject({ ok: true });
    else expect(result).toEqual({ ok: false, field, expected });
  });

  test('a binding is called as it stands, and the service token stays here', async () => {
    const seen: Headers[] = [];
    const env = {
      ACCESS_CLIENT_ID_PROD_EU: ACCESS.id,
      ACCESS_CLIENT_SECRET_PROD_EU: ACCESS.secret,
      KUBE: {
        fetch: async (_: unknown, init: RequestInit) => {
          seen.push(new Headers(init.headers));
          return new Response();
        },
      },
    };
    const result = parsed({ apiBinding: 'KUBE' }, env);
    const config = result.ok ? result.config.clusters.get('prod-eu') : undefined;
    if (config === undefined) throw new Error('not configured');
    await fetchOf(config, env)('https://kubernetes.default.svc/version', { headers: { a: 'b' } });
    expect(seen.map((headers) => Object.fromEntries(headers))).toEqual([{ a: 'b' }]);
  });
});

describe('the production bundle in workerd', () => {
  const servers: Server[] = [];
  const seen: { readonly by: string; readonly headers: IncomingHttpHeaders }[] = [];
  let worker: Miniflare;

  /** Something on loopback that answers as an API server would, and keeps what it was sent. */
  async function listen(server: Server): Promise<number> {
    servers.push(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    // SAFETY: it listens on a port, so this is no pipe's name.
    return (server.address() as AddressInfo).port;
  }

  beforeAll(async () => {
    const { script } = await buildBundle();
    const api = doctorApi(new Api(REAL_CLOCK), () => Date.now());
    const access = createServer((request, response) => {
      seen.push({ by: 'access', headers: request.headers });
      const isLetIn =
        request.headers['cf-access-client-id'] === ACCESS.id &&
        request.headers['cf-access-client-secret'] === ACCESS.secret;
      if (!isLetIn) {
        // As Access answers who has no session.
        response.writeHead(302, { location: 'https://team.cloudflareaccess.com/login' }).end();
        return;
      }
      const chunks: Buffer[] = [];
      request
        .on('data', (chunk: Buffer) => chunks.push(chunk))
        .on('end', () => {
          const { method = 'GET', url = '/' } = request;
          const body = Buffer.concat(chunks).toString();
          void api
            .fetch(`http://kube.test${url}`, { method, ...(body !== '' && { body }) })
            .then(async (answer) =>
              response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text()),
            );
        });
    });
    const accessUrl = `http://127.0.0.1:${await listen(access)}`;
    const privateTls = new Authority('the private authority of a cluster').issue({ names: ['kube'] });
    const privateUrl = `https://127.0.0.1:${await listen(createHttpsServer(privateTls))}`;

    const common = { modules: true, compatibilityDate: COMPATIBILITY_DATE } as const;
    worker = new Miniflare(
      convertV4MiniflareOptions({
        cf: false,
        handleStructuredLogs: () => {},
        workers: [
          {
            ...common,
            name: 'farpulse',
            modules: [{ type: 'ESModule', path: 'index.js', contents: script }],
            durableObjects: {
              OBSERVER: { className: 'Observer', useSQLite: true },
              ARBITER: { className: 'Arbiter', useSQLite: true },
            },
            serviceBindings: {
              KUBE: async (request: Request) => {
                seen.push({ by: new URL(request.url).origin, headers: Object.fromEntries(request.headers) });
                const body = await request.text();
                const answer = await api.fetch(request.url, {
                  method: request.method,
                  ...(body !== '' && { body }),
                });
                return new Response(await answer.text(), {
                  status: answer.status,
                  headers: Object.fromEntries(answer.headers),
                });
              },
              UNTRUSTED: 'untrusted',
            },
            bindings: {
              DEPLOYMENT_ID: 'test',
              ADMIN_TOKEN,
              KUBE_TOKEN_VPC: TOKEN,
              KUBE_TOKEN_ACCESS: TOKEN,
              ACCESS_CLIENT_ID_ACCESS: ACCESS.id,
              ACCESS_CLIENT_SECRET_ACCESS: ACCESS.secret,
              CLUSTERS: {
                vpc: { apiUrl: 'https://kubernetes.default.svc', apiBinding: 'KUBE', mode: 'compat' },
                untrusted: { apiUrl: 'https://kubernetes.default.svc', apiBinding: 'UNTRUSTED' },
                access: { apiUrl: accessUrl, mode: 'compat' },
                'no-access': { apiUrl: accessUrl },
                private: { apiUrl: privateUrl },
              },
            },
          },
          {
            ...common,
            name: 'untrusted',
            // In the words of Workers VPC.
            script: `export default { fetch() { throw new Error('ProxyError: tls_certificate_error'); } };`,
          },
        ],
      }),
    );
    await worker.ready;
  }, 120_000);

  afterAll(async () => {
    await worker?.dispose();
    for (const server of servers) server.close();
  });

  async function examined(cluster: string) {
    const answer = await worker.dispatchFetch(`http://farpulse/v1/clusters/${cluster}/doctor`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    });
    const { rows } = DoctorJson.parse(await answer.json());
    return new Map(rows.map((row) => [row.check, row]));
  }

  test('a service binding: asked by the name in apiUrl, with the credential', async () => {
    const rows = await examined('vpc');
    expect(rows.get('name')?.found).toMatch(/^not looked up: the binding KUBE leads there/);
    expect([rows.get('tls')?.state, rows.get('api')?.state, rows.get('credential')?.state]).toEqual([
      'ok',
      'ok',
      'ok',
    ]);
    const asked = seen.filter(({ by }) => by === 'https://kubernetes.default.svc');
    expect(asked.length).toBeGreaterThan(0);
    expect(asked.every(({ headers }) => headers.authorization === `Bearer ${TOKEN}`)).toBe(true);
  });

  test('a service binding that does not trust the certificate says so', async () => {
    const rows = await examined('untrusted');
    expect(rows.get('tls')).toMatchObject({ state: 'fail', found: 'TLS: ProxyError: tls_certificate_error' });
    expect(rows.get('tls')?.todo).toContain('wrangler vpc service update');
  });

  test('behind Access: every request carries the service token and the credential', async () => {
    const rows = await examined('access');
    expect(rows.get('api')).toMatchObject({ state: 'ok', found: 'Kubernetes v1.37.0 answers' });
    expect(rows.get('permission: patch pods/status')?.state).toBe('ok');
    const asked = seen.filter(({ by }) => by === 'access');
    expect(asked.length).toBeGreaterThan(10);
    expect(asked.every(({ headers }) => headers.authorization === `Bearer ${TOKEN}`)).toBe(true);
    expect(JSON.stringify([...rows.values()])).not.toContain(ACCESS.secret);
  });

  test('behind Access without a service token: its login page is named', async () => {
    const rows = await examined('no-access');
    expect(rows.get('api')).toMatchObject({
      state: 'fail',
      found: expect.stringMatching(/^redirected \(302\)/) as string,
      todo: expect.stringContaining('ACCESS_CLIENT_ID_NO_ACCESS') as string,
    });
  });

  test('a private authority over the plain way: it fails, and no cause is made up', async () => {
    const rows = await examined('private');
    expect(rows.get('api')).toMatchObject({
      state: 'fail',
      found: expect.stringMatching(
        /^the platform does not say why \(an unknown name, a certificate/,
      ) as string,
    });
    expect(rows.get('tls')?.state).toBe('unknown');
    expect(rows.get('tls')?.todo).toContain('openssl s_client');
  });
});
