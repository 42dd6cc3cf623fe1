// What the doctor makes of each situation. The real API server is asked in `test/cluster/doctor.test.ts`.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { examine, type DoctorOptions, type DoctorRow } from '../../worker/cluster/doctor/doctor.ts';
import { durationMsOf } from '../../worker/cluster/doctor/controller.ts';
import { lookUpInPublicDns } from '../../worker/cluster/doctor/look-up.ts';
import { type ClusterConfig, parseConfig } from '../../worker/config.ts';
import { ADMIN, KubeletModel, ManualClock, NODES } from '../support/api-stand-in/index.ts';
import { Api } from '../support/api-stand-in/api.ts';
import { doctorApi, type DoctorApi } from '../support/doctor-api.ts';

const T = Date.parse('2026-12-01T12:00:00Z');
const SECRET = 'the-secret-half-of-a-service-token';

let api: Api;
let cluster: DoctorApi;

beforeEach(async () => {
  const clock = new ManualClock(T);
  api = new Api(clock);
  const kubelet = new KubeletModel({ api, clock, node: 'node-1' });
  await kubelet.start();
  await kubelet.kill();
  cluster = doctorApi(api, () => T);
});

/** A token of a ServiceAccount that ends then; never, if left out. */
function tokenUntil(exp?: number): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({ alg: 'RS256' })}.${part({ sub: 'detector', ...(exp !== undefined && { exp }) })}.c2ln`;
}

const TOKEN = tokenUntil(T / 1000 + 30 * 86_400);

function configOf(vars: object = {}, env: object = {}): ClusterConfig {
  const parsed = parseConfig({
    DEPLOYMENT_ID: 'test',
    READ_TOKEN: 'read-token-of-the-test',
    KUBE_TOKEN_PROD: TOKEN,
    CLUSTERS: { prod: { apiUrl: 'https://kube.example.com', mode: 'compat', ...vars } },
    ...env,
  });
  const config = parsed.ok ? parsed.config.clusters.get('prod') : undefined;
  if (config === undefined) throw new Error(JSON.stringify(parsed));
  return config;
}

async function rowsOf(
  over: Partial<DoctorOptions> & { readonly vars?: object; readonly env?: object } = {},
): Promise<ReadonlyMap<string, DoctorRow>> {
  const { vars, env, ...options } = over;
  const config = configOf(vars, env);
  const rows = await examine({
    config,
    fetch: cluster.fetch,
    secrets: [config.apiToken ?? '', config.apiAccess?.clientSecret ?? ''],
    nodes: [{ name: 'node-1', phase: 'alive' }],
    isListed: true,
    now: () => T,
    lookUp: async () => 'unknown',
    timeoutMs: 500,
    ...options,
  });
  const byCheck = new Map(rows.map((row) => [row.check, row]));
  expect(byCheck.size, 'every check has one row').toBe(rows.length);
  return byCheck;
}

function failing(code: string, message: string): typeof fetch {
  return async () => {
    throw new TypeError('fetch failed', { cause: Object.assign(new Error(message), { code }) });
  };
}

function answering(status: number, body: string, headers: Record<string, string> = {}): typeof fetch {
  return async () => new Response(body, { status, headers: { 'content-type': 'text/html', ...headers } });
}

describe('a cluster that is well', () => {
  test('in compat mode has no row that asks for anything but a look at the controller', async () => {
    const rows = await rowsOf();
    const others = [...rows.values()].filter(({ state }) => state !== 'ok');
    expect(others.map(({ check, state }) => [check, state])).toEqual([
      ['mode', 'unknown'],
      ['grace', 'unknown'],
    ]);
    expect([...rows.keys()]).toEqual([
      'name',
      'tls',
      'api',
      'credential',
      'credential-expiry',
      'permission: get nodes',
      'permission: list nodes',
      'permission: get leases in kube-node-lease',
      'permission: list leases in kube-node-lease',
      'permission: patch nodes/status',
      'permission: create events in default',
      'permission: patch leases in farpulse',
      'permission: list pods',
      'permission: patch pods/status',
      'admission-policy',
      'dry-run-write',
      'mode',
      'grace',
      'beacons',
      'clock',
    ]);
    expect(rows.get('api')?.found).toBe('Kubernetes v1.37.0 answers');
    expect(rows.get('admission-policy')?.found).toMatch(/^in force: farpulse-nodes refuses Ready=True/);
  });

  test('nothing is changed, and the requests are few', async () => {
    const before = api.store.get(NODES, '', 'node-1');
    await rowsOf();
    expect(api.store.get(NODES, '', 'node-1')).toEqual(before);
    const patches = cluster.requests.filter(({ method }) => method === 'PATCH');
    expect(patches).toHaveLength(2);
    expect(patches.every(({ url }) => url.searchParams.get('dryRun') === 'All')).toBe(true);
    expect(cluster.requests.length).toBeLessThanOrEqual(20);
  });

  test('in observe mode nothing is tried and no permission to write is wanted', async () => {
    const rows = await rowsOf({ vars: { mode: 'observe' } });
    expect([...rows.keys()].filter((check) => check.startsWith('permission'))).toHaveLength(4);
    expect(rows.get('dry-run-write')).toMatchObject({ state: 'unknown' });
    expect(cluster.requests.some(({ method }) => method === 'PATCH')).toBe(false);
  });

  test('without an API there is only the inventory', async () => {
    const keys = { 'node-1': { uid: 'u', key: 'x'.repeat(43) } };
    const rows = await rowsOf({ vars: { apiUrl: undefined, mode: 'observe', keys } });
    expect([...rows.keys()]).toEqual(['api', 'beacons']);
    expect(cluster.requests).toEqual([]);
  });
});

interface Situation {
  readonly name: string;
  readonly arrange?: () => void;
  readonly options?: Parameters<typeof rowsOf>[0];
  readonly check: string;
  readonly state: DoctorRow['state'];
  readonly found: RegExp;
  readonly todo: RegExp;
}

const SITUATIONS: readonly Situation[] = [
  {
    name: 'the name does not resolve, and fetch says so',
    options: { fetch: failing('ENOTFOUND', 'getaddrinfo ENOTFOUND kube.example.com') },
    check: 'name',
    state: 'fail',
    found: /^DNS: /,
    todo: /public DNS record for kube\.example\.com/,
  },
  {
    name: 'the platform does not say why, and public DNS does not know the name',
    options: { fetch: failing('', 'internal error; reference = abc'), lookUp: async () => 'absent' },
    check: 'name',
    state: 'fail',
    found: /^public DNS does not know kube\.example\.com$/,
    todo: /public DNS record/,
  },
  {
    name: 'the platform does not say why, and the name exists: TLS is not made up',
    options: { fetch: failing('', 'internal error; reference = abc'), lookUp: async () => 'found' },
    check: 'tls',
    state: 'unknown',
    found: /does not say/,
    todo: /openssl s_client -connect kube\.example\.com:443/,
  },
  {
    name: 'a bare address, as the edge refuses it',
    options: { vars: { apiUrl: 'https://192.0.2.1:6443' }, fetch: answering(403, 'error code: 1003') },
    check: 'name',
    state: 'fail',
    found: /bare address/,
    todo: /give the API server a name/,
  },
  {
    name: 'an unknown authority',
    options: { fetch: failing('UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'unable to verify') },
    check: 'tls',
    state: 'fail',
    found: /^TLS: unknown authority: /,
    todo: /openssl .* private authority needs/,
  },
  {
    name: 'a certificate for another name',
    options: { fetch: failing('ERR_TLS_CERT_ALTNAME_INVALID', 'not in altnames') },
    check: 'tls',
    state: 'fail',
    found: /^TLS: wrong name: /,
    todo: /openssl/,
  },
  {
    name: 'an expired certificate',
    options: { fetch: failing('CERT_HAS_EXPIRED', 'certificate has expired') },
    check: 'tls',
    state: 'fail',
    found: /^TLS: expired: /,
    todo: /openssl/,
  },
  {
    name: "the edge's 526 names all that it may be",
    options: { fetch: answering(526, '') },
    check: 'tls',
    state: 'fail',
    found: /not valid for this name, or not from a public authority, or has expired/,
    todo: /openssl/,
  },
  {
    name: 'plain HTTP over a network',
    options: { vars: { apiUrl: 'http://kube.example.com' } },
    check: 'tls',
    state: 'warn',
    found: /the credential can be read/,
    todo: /use https/,
  },
  {
    name: 'a tunnel without connectors',
    options: { fetch: answering(530, 'error code: 1033', { 'content-type': 'text/plain' }) },
    check: 'api',
    state: 'fail',
    found: /1033/,
    todo: /reach-the-api/,
  },
  {
    name: 'a login page of Access, with no service token set',
    options: { fetch: answering(302, '', { location: 'https://team.cloudflareaccess.com' }) },
    check: 'api',
    state: 'fail',
    found: /^redirected \(302\)/,
    todo: /ACCESS_CLIENT_ID_PROD and ACCESS_CLIENT_SECRET_PROD/,
  },
  {
    name: 'Access that does not take the service token',
    options: {
      env: { ACCESS_CLIENT_ID_PROD: 'id.access', ACCESS_CLIENT_SECRET_PROD: SECRET },
      fetch: answering(403, '<html>'),
    },
    check: 'api',
    state: 'fail',
    found: /^not from the Kubernetes API: 403/,
    todo: /Service Auth/,
  },
  {
    name: 'JSON of something else',
    options: { fetch: async () => Response.json({ hello: 'world' }) },
    check: 'api',
    state: 'fail',
    found: /not the Kubernetes API/,
    todo: /curl https:\/\/kube\.example\.com\/version/,
  },
  {
    name: 'a credential that is not accepted',
    arrange: () => (cluster.unauthorized = true),
    check: 'credential',
    state: 'fail',
    found: /^401 Unauthorized.*wrong, expired or revoked/,
    todo: /wrangler secret put KUBE_TOKEN_PROD/,
  },
  {
    name: 'the credential of somebody else',
    arrange: () => (cluster.username = 'kubernetes-admin'),
    check: 'credential',
    state: 'warn',
    found: /^kubernetes-admin: /,
    todo: /account of deploy/,
  },
  {
    name: 'a credential that has ended',
    options: { env: { KUBE_TOKEN_PROD: tokenUntil(T / 1000 - 60) } },
    check: 'credential-expiry',
    state: 'fail',
    found: /^ended 2026-12-01T11:59:00Z$/,
    todo: /KUBE_TOKEN_PROD/,
  },
  {
    name: 'a credential that ends soon',
    options: { env: { KUBE_TOKEN_PROD: tokenUntil(T / 1000 + 3 * 86_400) } },
    check: 'credential-expiry',
    state: 'warn',
    found: /^ends 2026-12-04T12:00:00Z, in 3 days$/,
    todo: /KUBE_TOKEN_PROD/,
  },
  {
    name: 'a credential that says nothing of its end',
    options: { env: { KUBE_TOKEN_PROD: 'opaque' } },
    check: 'credential-expiry',
    state: 'unknown',
    found: /does not say/,
    todo: /issued it/,
  },
  {
    name: 'a permission that verdicts need',
    arrange: () => cluster.denied.add('patch nodes/status'),
    check: 'permission: patch nodes/status',
    state: 'fail',
    found: /^not allowed$/,
    todo: /^kubectl apply -k deploy\/overlays\/compat$/,
  },
  {
    name: 'a permission that verdicts can do without',
    arrange: () => cluster.denied.add('create events'),
    check: 'permission: create events in default',
    state: 'warn',
    found: /no Events about Nodes/,
    todo: /overlays\/compat/,
  },
  {
    name: 'no admission policy',
    arrange: () => (cluster.policies = false),
    check: 'admission-policy',
    state: 'fail',
    found: /was not refused \(dry run\): nothing bounds the account/,
    todo: /overlays\/compat/,
  },
  {
    name: 'a kill switch that is on',
    arrange: () => (cluster.disarmed = 'ask Ada'),
    check: 'dry-run-write',
    state: 'warn',
    found: /farpulse is disarmed: ask Ada/,
    todo: /farpulse\/disarmed-$/,
  },
  {
    name: 'a way that drops the query, so that a dry run would be a write',
    arrange: () => (cluster.dropsQuery = true),
    check: 'dry-run-write',
    state: 'unknown',
    found: /^not tried, because a dry run might be taken for a write/,
    todo: /pass on the query/,
  },
  {
    name: 'a kubelet that writes between every read and dry run',
    arrange: () => (cluster.conflicts = 100),
    check: 'dry-run-write',
    state: 'unknown',
    found: /the object has been modified/,
    todo: /run it again/,
  },
  {
    name: 'no Node to try it on',
    options: { nodes: [{ name: 'gone', phase: 'alive' }] },
    check: 'dry-run-write',
    state: 'unknown',
    found: /no Node of the inventory/,
    todo: /run it again/,
  },
  {
    name: 'Nodes without a beacon',
    options: {
      nodes: [
        { name: 'node-1', phase: 'alive' },
        { name: 'node-2', phase: 'unenrolled' },
      ],
    },
    check: 'beacons',
    state: 'warn',
    found: /^1 of 2 Nodes without: node-2$/,
    todo: /install the beacon/,
  },
  {
    name: 'a beacon that was never heard',
    options: { nodes: [{ name: 'node-1', phase: 'new' }] },
    check: 'beacons',
    state: 'warn',
    found: /^1 of 1 enrolled, but never heard: node-1$/,
    todo: /journalctl/,
  },
  {
    name: 'an inventory that was never listed',
    options: { isListed: false },
    check: 'beacons',
    state: 'unknown',
    found: /not been listed/,
    todo: /again/,
  },
  {
    name: 'clocks that differ',
    arrange: () => (cluster.skewMs = -90_000),
    check: 'clock',
    state: 'warn',
    found: /90\.0 s behind/,
    todo: /nothing is judged by it/,
  },
];

describe('a situation', () => {
  test.for(SITUATIONS)('$name', async ({ arrange, options, check, state, found, todo }) => {
    arrange?.();
    const row = (await rowsOf(options)).get(check);
    expect(row).toEqual({
      check,
      state,
      found: expect.stringMatching(found) as string,
      todo: expect.stringMatching(todo) as string,
    });
  });

  test('one conflict is read again, and tried again', async () => {
    cluster.conflicts = 1;
    expect((await rowsOf()).get('dry-run-write')?.state).toBe('ok');
  });

  test('when the API server is not reached nothing else is asked', async () => {
    let calls = 0;
    const rows = await rowsOf({
      fetch: async () => {
        calls += 1;
        throw new Error('Network connection lost.');
      },
    });
    expect(calls).toBe(1);
    expect(rows.get('everything else')).toMatchObject({ state: 'unknown' });
  });
});

describe('the controller manager, where its flags can be seen', () => {
  function controller(flags: readonly string[]): void {
    const answer = api.handle({
      method: 'POST',
      path: '/api/v1/namespaces/kube-system/pods',
      query: new URLSearchParams(),
      contentType: 'application/json',
      accept: '',
      body: {
        metadata: { name: 'kcm', labels: { component: 'kube-controller-manager' } },
        spec: {
          nodeName: 'node-1',
          containers: [{ name: 'kcm', command: ['kube-controller-manager', ...flags] }],
        },
      },
      user: ADMIN,
      manager: 'test',
    });
    expect(answer.status).toBe(201);
  }

  test.for([
    { name: 'defaults', flags: [], mode: 'ok', grace: 'ok' },
    { name: 'a long grace', flags: ['--node-monitor-grace-period=10m0s'], mode: 'ok', grace: 'ok' },
    {
      name: 'a grace as short as ours',
      flags: ['--node-monitor-grace-period', '30s'],
      mode: 'ok',
      grace: 'warn',
    },
    { name: 'an external source', flags: ['--node-liveness-source=external'], mode: 'fail', grace: 'ok' },
  ] as const)('$name', async ({ flags, mode, grace }) => {
    controller(flags);
    const rows = await rowsOf();
    expect([rows.get('mode')?.state, rows.get('grace')?.state]).toEqual([mode, grace]);
  });

  test.for([
    { text: '40s', ms: 40_000 },
    { text: '10m0s', ms: 600_000 },
    { text: '1h2m3.5s', ms: 3_723_500 },
    { text: '500ms', ms: 500 },
    { text: '40', ms: undefined },
    { text: undefined, ms: undefined },
  ])('$text', ({ text, ms }) => {
    expect(durationMsOf(text)).toBe(ms);
  });
});

describe('public DNS', () => {
  afterEach(() => vi.restoreAllMocks());

  test.for([
    { name: 'has an address', answers: [{ Status: 0, Answer: [{}] }], found: 'found' },
    { name: 'has one for IPv6 only', answers: [{ Status: 0 }, { Status: 0, Answer: [{}] }], found: 'found' },
    { name: 'has the name, and no address', answers: [{ Status: 0 }, { Status: 0 }], found: 'absent' },
    { name: 'has no such name', answers: [{ Status: 3 }], found: 'absent' },
    { name: 'fails', answers: [{ Status: 2 }], found: 'unknown' },
    { name: 'answers with something else', answers: ['<html>'], found: 'unknown' },
    { name: 'does not answer', answers: [], found: 'unknown' },
  ])('$name: $found', async ({ answers, found }) => {
    const left = [...answers];
    const asked = vi.spyOn(globalThis, 'fetch').mockImplementation(async () => {
      const answer = left.shift();
      if (answer === undefined) throw new Error('Network connection lost.');
      return new Response(JSON.stringify(answer), { headers: { 'content-type': 'application/dns-json' } });
    });
    expect(await lookUpInPublicDns('kube.example.com')).toBe(found);
    expect(asked.mock.calls[0]?.[0]).toBe(
      'https://cloudflare-dns.com/dns-query?name=kube.example.com&type=A',
    );
  });
});

test('no row shows a credential, whatever the way says', async () => {
  const env = { ACCESS_CLIENT_ID_PROD: 'id.access', ACCESS_CLIENT_SECRET_PROD: SECRET };
  const rows = await rowsOf({
    env,
    fetch: async () => {
      throw new Error(`bad header: Bearer ${TOKEN}, cf-access-client-secret: ${SECRET}`);
    },
  });
  const shown = JSON.stringify([...rows.values()]);
  expect(shown).toContain('[secret]');
  expect(shown).not.toContain(TOKEN);
  expect(shown).not.toContain(SECRET);
});
