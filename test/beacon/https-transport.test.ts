import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Connector } from '../../node-beacon/transport/connector.ts';
import { HttpsTransport } from '../../node-beacon/transport/https.ts';
import { systemResolver } from '../../node-beacon/transport/lookup.ts';
import { Trust } from '../../node-beacon/transport/trust.ts';
import type { TryResult } from '../../node-beacon/transport/transport.ts';
import { selfSigned } from './support/certificate.ts';
import { collectingLog } from './support/collecting-log.ts';
import { eventually } from './support/eventually.ts';
import { type Answer, closedPort, sendJson, serve } from './support/local-server.ts';

const BEAT = { jws: 'head.payload.signature', digest: 'digest-of-it' };
const ACK = { v: 1, digest: BEAT.digest, recordedBy: ['weur', 'enam'], missing: [], quorum: 2 };
const ackIt: Answer = (_request, response) => sendJson(response, 200, ACK);
const PATIENT_MS = 10_000;

function makeTransport(): HttpsTransport {
  const transport = new HttpsTransport(
    new Connector({
      resolve: (hostname) => systemResolver.addresses(hostname),
      trust: new Trust({ caFile: undefined, log: collectingLog().log }),
      proxy: undefined,
      staggerMs: 250,
    }),
  );
  onTestFinished(() => transport.close());
  return transport;
}

function send(
  endpoint: string,
  transport = makeTransport(),
  recordedBy: string[] = [],
  timeoutMs = PATIENT_MS,
): Promise<TryResult> {
  return transport.send(endpoint, BEAT, recordedBy, AbortSignal.timeout(timeoutMs));
}

describe('what is asked', () => {
  test('the beat is posted as it was signed', async () => {
    const server = await serve(ackIt);
    await expect(send(server.url)).resolves.toEqual({ kind: 'acked', ack: ACK });
    const [request] = server.requests;
    expect(request).toMatchObject({ method: 'POST', path: '/v1/beats', body: BEAT.jws });
    expect(request?.headers['content-type']).toBe('application/jose');
    expect(request?.headers['farpulse-recorded-by']).toBeUndefined();
  });

  test('an endpoint may have a path', async () => {
    const server = await serve(ackIt);
    await send(`${server.url}/farpulse`);
    expect(server.requests[0]?.path).toBe('/farpulse/v1/beats');
  });

  test('a retry names the observers that have the beat', async () => {
    const server = await serve(ackIt);
    await send(server.url, undefined, ['weur', 'apac']);
    expect(server.requests[0]?.headers['farpulse-recorded-by']).toBe('weur,apac');
  });
});

const PROBLEM = {
  type: 'about:blank',
  title: 'No',
  status: 409,
  detail: 'a lower sequence',
  code: 'replayed',
  highestSeq: 99,
};

test('an observer’s name that no header can carry costs the name and not the beat', async () => {
  const server = await serve(ackIt);
  expect(await send(server.url, undefined, ['weur', 'a\r\nb'])).toMatchObject({ kind: 'acked' });
  expect(server.requests[0]?.headers['farpulse-recorded-by']).toBe('weur');
});

describe('what an answer is taken for', () => {
  test.for<{ name: string; answer: Answer; result: object }>([
    {
      name: 'a captive portal’s page with 200 is no ack',
      answer: (_request, response) =>
        response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Welcome</h1>'),
      result: { kind: 'failed', failure: 'foreign-answer', why: 'answered 200 without an ack (text/html)' },
    },
    {
      name: 'a captive portal’s redirect is named',
      answer: (_request, response) => response.writeHead(302, { location: 'http://portal.hotel/' }).end(),
      result: { failure: 'foreign-answer', why: 'answered 302, but not by farpulse (http://portal.hotel/)' },
    },
    {
      name: 'an ack for another beat is no ack',
      answer: (_request, response) => sendJson(response, 200, { ...ACK, digest: 'another' }),
      result: { kind: 'failed', failure: 'foreign-answer', why: 'acknowledged another beat than this one' },
    },
    {
      name: 'an ack without a quorum is no ack',
      answer: (_request, response) => sendJson(response, 200, { ...ACK, quorum: 0 }),
      result: { kind: 'failed', failure: 'foreign-answer' },
    },
    {
      name: 'an answer without end is cut off',
      answer: (_request, response) => {
        const pour = (): boolean => response.write('x'.repeat(65_536), (error) => error ?? pour());
        pour();
      },
      result: { kind: 'failed', failure: 'foreign-answer' },
    },
    {
      name: 'a problem is a refusal with its code and the highest sequence',
      answer: (_request, response) => sendJson(response, 409, PROBLEM),
      result: { kind: 'refused', code: 'replayed', status: 409, why: 'a lower sequence', highestSeq: 99 },
    },
    {
      name: 'a problem that claims another status is somebody else’s',
      answer: (_request, response) => sendJson(response, 403, PROBLEM),
      result: { kind: 'failed', failure: 'foreign-answer' },
    },
    {
      name: 'Retry-After in seconds',
      answer: (_request, response) => response.writeHead(503, { 'retry-after': '3' }).end('error code: 1101'),
      result: { kind: 'failed', failure: 'http-status', why: 'answered 503', retryAfterMs: 3_000 },
    },
    {
      name: 'Retry-After as a date is read against the answer’s own date',
      answer: (_request, response) =>
        response
          .writeHead(429, {
            date: 'Tue, 01 Jan 1980 00:00:00 GMT',
            'retry-after': 'Tue, 01 Jan 1980 00:00:07 GMT',
          })
          .end(),
      result: { kind: 'failed', failure: 'http-status', retryAfterMs: 7_000 },
    },
    {
      name: 'a refusal’s Retry-After is kept',
      answer: (_request, response) =>
        sendJson(response, 429, { ...PROBLEM, status: 429, code: 'rate-limited' }, { 'retry-after': '2' }),
      result: { kind: 'refused', code: 'rate-limited', retryAfterMs: 2_000 },
    },
    {
      name: 'a connection that breaks before the answer',
      answer: (request) => request.socket.resetAndDestroy(),
      result: { kind: 'failed', failure: 'tcp' },
    },
    {
      name: 'a connection that breaks within the answer',
      answer: (request, response) => {
        response
          .writeHead(200, { 'content-length': '5000' })
          .write('{"v":1,', () => request.socket.destroy());
      },
      result: { kind: 'failed', failure: 'tcp' },
    },
  ])('$name', async ({ answer, result }) => {
    const server = await serve(answer);
    expect(await send(server.url)).toMatchObject(result);
  });
});

describe('how far a request came', () => {
  test('nobody listens: tcp', async () => {
    const result = await send(`http://127.0.0.1:${await closedPort()}`);
    expect(result).toMatchObject({
      kind: 'failed',
      failure: 'tcp',
      why: expect.stringContaining('ECONNREFUSED'),
    });
  });

  test('no such name: dns', async () => {
    // RFC 6761: names under .invalid never resolve, whichever resolver is asked.
    const result = await send('https://farpulse.invalid');
    expect(result).toMatchObject({ kind: 'failed', failure: 'dns' });
  });

  test('a certificate that nobody vouches for: tls, with its cause', async () => {
    const server = await serve(ackIt, { tls: selfSigned('portal') });
    const result = await send(server.url);
    expect(result).toMatchObject({
      kind: 'failed',
      failure: 'tls',
      why: expect.stringContaining('DEPTH_ZERO_SELF_SIGNED_CERT'),
    });
    expect(server.requests).toHaveLength(0);
  });

  test('a peer that does not speak TLS: tls', async () => {
    const server = await serve(ackIt);
    const result = await send(server.url.replace('http:', 'https:'));
    expect(result).toMatchObject({ kind: 'failed', failure: 'tls' });
  });

  test('an answer that does not come: timeout, told to have waited for the answer', async () => {
    const deadline = new AbortController();
    const server = await serve(() => deadline.abort());
    const result = await makeTransport().send(server.url, BEAT, [], deadline.signal);
    expect(result).toEqual({ kind: 'failed', failure: 'timeout', why: 'gave up waiting for the answer' });
    await eventually(() => expect(server.connections[0]?.destroyed).toBe(true));
  });

  test('a handshake that does not come: timeout, told to have hung in the handshake', async () => {
    const deadline = new AbortController();
    const silent = createServer((socket) => {
      socket.on('error', () => {}).on('data', () => deadline.abort()); // the client's hello has come
      onTestFinished(() => void socket.destroy());
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void silent.close());
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const result = await makeTransport().send(`https://127.0.0.1:${port}`, BEAT, [], deadline.signal);
    expect(result).toMatchObject({ failure: 'timeout', why: 'gave up in the TLS handshake' });
  });

  test('a deadline that has passed already asks nobody', async () => {
    const server = await serve(ackIt);
    const result = await makeTransport().send(server.url, BEAT, [], AbortSignal.abort());
    expect(result).toMatchObject({ kind: 'failed', failure: 'timeout' });
    expect(server.requests).toHaveLength(0);
  });
});

describe('connections', () => {
  test('one is kept as long as all goes well, refusals included', async () => {
    const server = await serve((_request, response) => {
      if (server.requests.length === 2) sendJson(response, 409, PROBLEM);
      else sendJson(response, 200, ACK);
    });
    const transport = makeTransport();
    for (let beat = 0; beat < 4; beat++) await send(server.url, transport);
    expect(server.requests).toHaveLength(4);
    expect(server.connections).toHaveLength(1);
  });

  test.for<{ name: string; failing: Answer }>([
    { name: 'an error status', failing: (_request, response) => response.writeHead(502).end() },
    { name: 'a foreign answer', failing: (_request, response) => response.writeHead(200).end('hello') },
    { name: 'a timeout', failing: () => {} },
  ])('after $name the next try is on a new one', async ({ failing }) => {
    const server = await serve((request, response) =>
      (server.requests.length === 2 ? failing : ackIt)(request, response),
    );
    const transport = makeTransport();
    await send(server.url, transport);
    await send(server.url, transport, [], 300);
    expect(server.connections).toHaveLength(1);
    expect(await send(server.url, transport)).toMatchObject({ kind: 'acked' });
    expect(server.connections).toHaveLength(2);
  });

  test('a kept one that was closed meanwhile costs no try', async () => {
    const server = await serve((request, response) => {
      // Closes without saying so, as a middlebox that forgot the connection does: the next beat meets a reset.
      if (server.requests.length === 2) request.socket.resetAndDestroy();
      else sendJson(response, 200, ACK);
    });
    const transport = makeTransport();
    await send(server.url, transport);
    expect(await send(server.url, transport)).toMatchObject({ kind: 'acked' });
    expect(server.requests).toHaveLength(3);
    expect(server.connections).toHaveLength(2);
  });

  test('a try that still hangs on the kept one does not hold up the next try', async () => {
    const server = await serve((request, response) => {
      if (server.requests.length !== 2) ackIt(request, response);
    });
    const transport = makeTransport();
    await send(server.url, transport);
    const deadline = new AbortController();
    const hanging = transport.send(server.url, BEAT, [], deadline.signal);
    expect(await send(server.url, transport)).toMatchObject({ kind: 'acked' });
    deadline.abort();
    expect(await hanging).toMatchObject({ kind: 'failed', failure: 'timeout' });
    // The connection that worked is kept, though the other try ended later.
    expect(await send(server.url, transport)).toMatchObject({ kind: 'acked' });
    expect(server.connections).toHaveLength(2);
  });

  test('a new one that breaks is not tried again behind the plan’s back', async () => {
    const server = await serve((request) => request.socket.resetAndDestroy());
    expect(await send(server.url)).toMatchObject({ kind: 'failed', failure: 'tcp' });
    expect(server.requests).toHaveLength(1);
  });
});
