import { describe, expect, test } from 'vitest';
import {
  API_CHECK_PERIOD_MS,
  type ApiLook,
  ApiPathCheck,
  firstApiPathState,
  judgeApiPath,
} from '../../node-beacon/checks/api-path.ts';
import { rhythmFor } from '../../node-beacon/checks/repeat.ts';
import { systemClock } from '../../node-beacon/clock.ts';
import type { KubeAccess } from '../../node-beacon/kubeconfig.ts';
import type { Exchanged } from '../../node-beacon/transport/exchange.ts';
import { selfSigned } from './support/certificate.ts';
import { collectingLog } from './support/collecting-log.ts';
import { eventually } from './support/eventually.ts';
import { serve } from './support/local-server.ts';

const looked = (exchanged: Exchanged): ApiLook => ({ kind: 'looked', exchanged, roundTripMs: 12.4 });
const answered = (status: number): ApiLook => looked({ kind: 'answered', status, headers: {}, body: '' });
const broken = (failure: 'dns' | 'tcp' | 'tls' | 'timeout', code: string): ApiLook =>
  looked({ kind: 'failed', failure, why: code, code, stale: false });
const OK = answered(200);

describe('the sign after a row of looks', () => {
  test.for<{ name: string; looks: ApiLook[]; sign: object }>([
    { name: 'ok, with its round trip', looks: [OK], sign: { state: 'ok', roundTripMs: 12 } },
    { name: 'a refusal shows that the path carries', looks: [answered(403)], sign: { state: 'ok' } },
    {
      name: 'a failing API server shows that the path carries',
      looks: [answered(500)],
      sign: { state: 'ok' },
    },
    {
      name: 'one failure changes nothing',
      looks: [OK, broken('tcp', 'ECONNREFUSED')],
      sign: { state: 'ok' },
    },
    {
      name: 'two in a row are cut',
      looks: [OK, broken('tcp', 'A'), broken('timeout', 'B')],
      sign: { state: 'cut', why: 'timeout: B' },
    },
    {
      name: 'a name that does not resolve is cut',
      looks: [broken('dns', 'A'), broken('dns', 'A')],
      sign: { state: 'cut' },
    },
    {
      name: 'a handshake broken by something in between is cut',
      looks: [broken('tls', 'ECONNRESET'), broken('tls', 'ECONNRESET')],
      sign: { state: 'cut' },
    },
    {
      name: 'a certificate that is not trusted says nothing',
      looks: [OK, broken('tls', 'CERT_HAS_EXPIRED'), broken('tls', 'CERT_HAS_EXPIRED')],
      sign: { state: 'unknown', why: 'CERT_HAS_EXPIRED' },
    },
    {
      name: 'a kubeconfig that cannot be read says nothing',
      looks: [OK, { kind: 'could-not-look', why: 'no file' }],
      sign: { state: 'unknown', why: 'no file' },
    },
    {
      name: 'an answer ends cut at once',
      looks: [broken('tcp', 'A'), broken('tcp', 'A'), OK],
      sign: { state: 'ok' },
    },
  ])('$name', ({ looks, sign }) => {
    expect(looks.reduce(judgeApiPath, firstApiPathState()).sign).toMatchObject(sign);
  });
});

test('the API server is asked every 30 s at most, whatever the interval', () => {
  expect(rhythmFor(1_000, API_CHECK_PERIOD_MS).periodMs).toBe(30_000);
  expect(rhythmFor(10_000, API_CHECK_PERIOD_MS)).toEqual({
    periodMs: 30_000,
    recheckMs: 1_000,
    timeoutMs: 2_000,
  });
});

function watch(loadAccess: () => Promise<Pick<KubeAccess, 'server' | 'trust'>>) {
  const { log, events } = collectingLog();
  const stop = new AbortController();
  const check = new ApiPathCheck({
    loadAccess,
    rhythm: { periodMs: 20, recheckMs: 5, timeoutMs: 1_000 },
    clock: systemClock,
    log,
  });
  const running = check.run(stop.signal);
  return { check, stop, running, events };
}

describe('against a real server', () => {
  test('asks /livez without a credential on one kept connection; cut and back are told once', async () => {
    const authority = selfSigned('api server');
    const server = await serve((_request, response) => response.writeHead(401).end(), { tls: authority });
    const access = { server: new URL(server.url), trust: { ca: authority.cert } };
    const { check, stop, running, events } = watch(() => Promise.resolve(access));
    await eventually(() => expect(server.requests.length).toBeGreaterThan(3));
    expect(check.sign).toEqual({ state: 'ok', roundTripMs: expect.any(Number) });
    expect(server.requests[0]).toMatchObject({ method: 'GET', path: '/livez?exclude=etcd' });
    expect(server.requests[0]?.headers.authorization).toBeUndefined();
    expect(server.connections).toHaveLength(1);

    await server.close();
    await eventually(() => expect(check.sign.state).toBe('cut'));
    await serve((_request, response) => response.end('ok'), { tls: authority, port: server.port });
    await eventually(() => expect(check.sign.state).toBe('ok'));
    stop.abort();
    await running;
    expect(events()).toEqual(['api-path-ok', 'api-path-cut', 'api-path-ok']);
  });

  test('a kubeconfig that turns unreadable is unknown, not cut', async () => {
    const server = await serve((_request, response) => response.end('ok'));
    let readable = true;
    const { check, stop, running } = watch(() =>
      readable
        ? Promise.resolve({ server: new URL(server.url), trust: {} })
        : Promise.reject(new Error('EACCES')),
    );
    await eventually(() => expect(check.sign.state).toBe('ok'));
    readable = false;
    await eventually(() => expect(check.sign).toEqual({ state: 'unknown', why: 'EACCES' }));
    stop.abort();
    await running;
  });
});
