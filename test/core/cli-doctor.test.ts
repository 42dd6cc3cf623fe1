// `farpulse doctor` as an operator meets it: what it asks, prints and exits with.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { doctor, tableOf } from '../../cli/doctor.ts';

const TOKEN = 'admin-token-of-the-test';
const AT = '2026-12-01T12:00:00.000Z';
const OK = { check: 'api', state: 'ok', found: 'Kubernetes v1.37.0 answers' } as const;
const UNKNOWN = { check: 'mode', state: 'unknown', found: 'not seen', todo: 'look at its flags' } as const;
const WARN = { check: 'beacons', state: 'warn', found: '1 of 2', todo: 'install it' } as const;
const FAIL = {
  check: 'permission: patch nodes/status',
  state: 'fail',
  found: 'not allowed',
  todo: 'apply',
} as const;

let server: Server;
let url: string;
let answer: (request: IncomingMessage, response: ServerResponse) => void;
let requests: IncomingMessage[];

beforeEach(async () => {
  requests = [];
  server = createServer((request, response) => {
    requests.push(request);
    answer(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // SAFETY: it listens on a port, so this is no pipe's name.
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(() => {
  server.closeAllConnections();
  server.close();
});

function answering(rows: readonly object[]): void {
  answer = (_, response) => response.end(JSON.stringify({ cluster: 'prod', at: AT, rows }));
}

async function run(
  args: readonly string[],
  env: Readonly<Record<string, string>> = { FARPULSE_ADMIN_TOKEN: TOKEN },
): Promise<{ code: number; out: string; err: string }> {
  let out = '';
  let err = '';
  const code = await doctor(args, { env, out: (text) => (out += text), err: (text) => (err += text) });
  return { code, out, err };
}

test.for([
  { name: 'all ok', rows: [OK], code: 0 },
  { name: 'what cannot be known, or should be looked at, is no failure', rows: [OK, UNKNOWN, WARN], code: 0 },
  { name: 'a failing row', rows: [OK, FAIL, WARN], code: 1 },
])('$name: exit code $code', async ({ rows, code }) => {
  answering(rows);
  const result = await run(['prod', '--url', url]);
  expect(result).toMatchObject({ code, err: '' });
  expect(requests.map(({ method, url: path, headers }) => [method, path, headers.authorization])).toEqual([
    ['POST', '/v1/clusters/prod/doctor', `Bearer ${TOKEN}`],
  ]);
  expect(result.out).not.toContain(TOKEN);
});

test('the table says below each row what to do', () => {
  expect(tableOf({ cluster: 'prod', at: AT, rows: [OK, FAIL, WARN, UNKNOWN] })).toMatchInlineSnapshot(`
    "prod at 2026-12-01T12:00:00.000Z

    ok    api                             Kubernetes v1.37.0 answers
    FAIL  permission: patch nodes/status  not allowed
                                          -> apply
    WARN  beacons                         1 of 2
                                          -> install it
    ?     mode                            not seen
                                          -> look at its flags

    1 failing, 1 to look at, 1 not known from here
    "
  `);
});

test('nothing that an API server says steers the terminal', () => {
  const rows = [{ ...OK, found: 'v1\u001B[2Jgone\u0007' }];
  const table = tableOf({ cluster: 'prod', at: AT, rows });
  expect(table).toContain('v1 [2Jgone');
  expect(table).not.toContain('\u001B');
  expect(table).not.toContain('\u0007');
});

test('--json prints what machines read', async () => {
  answering([OK, FAIL]);
  const { code, out } = await run(['prod', '--url', url, '--json']);
  expect(code).toBe(1);
  expect(JSON.parse(out)).toEqual({ cluster: 'prod', at: AT, rows: [OK, FAIL] });
});

test('the address may come from the environment', async () => {
  answering([OK]);
  expect(await run(['prod'], { FARPULSE_ADMIN_TOKEN: TOKEN, FARPULSE_URL: url })).toMatchObject({ code: 0 });
});

test('--help explains, and asks nobody', async () => {
  const { code, out } = await run(['--help'], {});
  expect(code).toBe(0);
  expect(out).toContain('FARPULSE_ADMIN_TOKEN');
  expect(requests).toEqual([]);
});

describe('exit code 2, and a sentence', () => {
  test.for([
    { name: 'no cluster', args: ['--url', 'http://x'], says: /one cluster is wanted/ },
    { name: 'two clusters', args: ['a', 'b', '--url', 'http://x'], says: /one cluster is wanted/ },
    { name: 'no address', args: ['prod'], says: /--url/ },
    {
      name: 'something that is no address',
      args: ['prod', '--url', 'farpulse'],
      says: /no http\(s\) address/,
    },
    { name: 'an unknown option', args: ['prod', '--token', 'x'], says: /--token/ },
  ])('$name', async ({ args, says }) => {
    const { code, err } = await run(args);
    expect(code).toBe(2);
    expect(err).toMatch(says);
  });

  test('no admin token', async () => {
    const { code, err } = await run(['prod', '--url', url], {});
    expect(code).toBe(2);
    expect(err).toMatch(/^FARPULSE_ADMIN_TOKEN is not set/);
    expect(requests).toEqual([]);
  });

  test.for([
    {
      name: 'a problem of the Worker',
      status: 500,
      body: JSON.stringify({
        title: 'This deployment is misconfigured',
        field: 'CLUSTERS.prod',
        expected: 'x',
      }),
      says: /500 This deployment is misconfigured: CLUSTERS\.prod: expected x/,
    },
    {
      name: 'something that is not farpulse',
      status: 404,
      body: '<html>',
      says: /404 not an answer of farpulse/,
    },
    { name: 'a success that is not farpulse', status: 200, body: '<html>', says: /not one of farpulse/ },
    { name: 'a redirect, which would take the token along', status: 302, body: '', says: /redirect/ },
  ])('$name', async ({ status, body, says }) => {
    answer = (_, response) => response.writeHead(status, { location: '/elsewhere' }).end(body);
    const { code, err } = await run(['prod', '--url', url]);
    expect(code).toBe(2);
    expect(err).toMatch(says);
    expect(requests).toHaveLength(1);
  });

  test('nobody there', async () => {
    server.close();
    const { code, err } = await run(['prod', '--url', url]);
    expect(code).toBe(2);
    expect(err).toMatch(/ECONNREFUSED/);
  });
});
