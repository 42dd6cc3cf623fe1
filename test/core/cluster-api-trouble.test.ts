// The adapter against real sockets: what each kind of trouble looks like through Node's fetch and through workerd's,
// and what can honestly be said of it. The edge itself answers with statuses instead (525, 526, 530), which
// `cluster-adapter.test.ts` has.
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import type { Miniflare } from 'miniflare';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { createKubernetesCluster } from '../../worker/cluster/kubernetes.ts';
import type { ClusterFailure } from '../../worker/core/cluster-port.ts';
import { Authority, type Issued } from '../support/certificates.ts';

/** Short, where a server never answers. */
const SLOW_TIMEOUT_MS = 300;

const known = new Authority('an authority that is trusted here');
const unknown = new Authority('the private authority of a cluster');

/** Listens on loopback until the test ends; returns the port. */
async function listen(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  // SAFETY: it listens on a port, so this is no pipe's name.
  return (server.address() as AddressInfo).port;
}

const over = {
  tls: async (issued: Issued, listener: RequestListener = whole): Promise<string> =>
    `https://localhost:${await listen(createHttpsServer(issued, listener))}`,
  plain: async (listener: RequestListener): Promise<string> =>
    `http://127.0.0.1:${await listen(createHttpServer(listener))}`,
};

const whole: RequestListener = (_, response) => {
  const body = { kind: 'Node', metadata: { name: 'node-1', uid: 'uid-1', resourceVersion: '7' } };
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
};

function refusing(code: number, reason: string, headers: Record<string, string> = {}): RequestListener {
  const body = { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message: 'said the API' };
  return (_, response) =>
    response.writeHead(code, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

interface Situation {
  readonly name: string;
  /** Starts what is to be called; returns where it is. */
  readonly arrange: () => Promise<string>;
  readonly kind: ClusterFailure['kind'];
  /** What the operator is told, as far as Node's fetch knows it. */
  readonly inNode: RegExp;
  /** The same in workerd, where it differs: it knows less. */
  readonly inWorkerd?: RegExp;
  readonly retryAfterMs?: number;
  /** Only the deadline ends it. */
  readonly slow?: true;
}

const UNSAID = /^the platform does not say why \(an unknown name, a certificate that is not trusted, or/;

const SITUATIONS: readonly Situation[] = [
  {
    name: 'nobody listens',
    arrange: async () => {
      const server = createTcpServer();
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      server.close();
      await once(server, 'close');
      return `http://127.0.0.1:${port}`;
    },
    kind: 'unreachable',
    inNode: /^connection refused: /,
    inWorkerd: /^connection refused or lost: /,
  },
  {
    name: 'the name does not resolve',
    arrange: async () => 'https://kube.invalid',
    kind: 'unreachable',
    inNode: /^DNS: .*kube\.invalid/,
    inWorkerd: UNSAID,
  },
  {
    name: 'a connection that is never established: no handshake comes',
    arrange: async () => `https://localhost:${await listen(createTcpServer())}`,
    kind: 'unreachable',
    slow: true,
    inNode: /^no answer within 0\.3 s$/,
  },
  {
    name: 'the certificate is from an unknown authority',
    arrange: () => over.tls(unknown.issue({ names: ['localhost'] })),
    kind: 'unreachable',
    inNode: /^TLS: unknown authority: /,
    inWorkerd: UNSAID,
  },
  {
    name: 'the certificate is for another name',
    arrange: () => over.tls(known.issue({ names: ['kubernetes.default.svc'], loopback: false })),
    kind: 'unreachable',
    inNode: /^TLS: wrong name: .*kubernetes\.default\.svc/,
    inWorkerd: UNSAID,
  },
  {
    name: 'the certificate has expired',
    arrange: () => over.tls(known.issue({ names: ['localhost'], expired: true })),
    kind: 'unreachable',
    inNode: /^TLS: expired: /,
    inWorkerd: UNSAID,
  },
  {
    name: 'the port speaks no TLS',
    arrange: async () =>
      (await over.plain(whole)).replace('http:', 'https:').replace('127.0.0.1', 'localhost'),
    kind: 'unreachable',
    inNode: /^TLS: .*wrong version number/,
    inWorkerd: UNSAID,
  },
  {
    name: '401',
    arrange: () => over.tls(known.issue({ names: ['localhost'] }), refusing(401, 'Unauthorized')),
    kind: 'refused',
    inNode: /^401 Unauthorized: said the API$/,
  },
  {
    name: '403',
    arrange: () => over.tls(known.issue({ names: ['localhost'] }), refusing(403, 'Forbidden')),
    kind: 'refused',
    inNode: /^403 Forbidden: said the API$/,
  },
  {
    name: '429 with Retry-After',
    arrange: () => over.plain(refusing(429, 'TooManyRequests', { 'retry-after': '7' })),
    kind: 'busy',
    retryAfterMs: 7_000,
    inNode: /^429 TooManyRequests: said the API$/,
  },
  {
    name: '503 with Retry-After',
    arrange: () => over.plain(refusing(503, 'ServiceUnavailable', { 'retry-after': '20' })),
    kind: 'busy',
    retryAfterMs: 20_000,
    inNode: /^503 ServiceUnavailable: said the API$/,
  },
  {
    name: 'slow: nothing comes',
    arrange: () => over.plain(() => {}),
    kind: 'unreachable',
    slow: true,
    inNode: /^no answer within 0\.3 s$/,
  },
  {
    name: 'slow: the body does not end',
    arrange: () =>
      over.plain((_, response) => {
        response.writeHead(200, { 'content-type': 'application/json' }).write('{"kind":"Node",');
      }),
    kind: 'unreachable',
    slow: true,
    inNode: /^no answer within 0\.3 s$/,
  },
  {
    name: 'the connection is reset before an answer',
    arrange: () => over.plain((request) => request.socket.resetAndDestroy()),
    kind: 'unreachable',
    inNode: /^connection lost: .*ECONNRESET/,
    inWorkerd: /^connection refused or lost: /,
  },
  {
    name: 'the connection breaks off in the middle of an answer',
    arrange: () =>
      over.plain((request, response) => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
        response.write('{"kind":"Node",', () => request.socket.resetAndDestroy());
      }),
    kind: 'unreachable',
    inNode: /^connection lost: /,
    inWorkerd: /^connection (?:refused or )?lost: /,
  },
];

/** What came of reading one Node, with no clock but the situation's own. */
async function read(apiUrl: string, send: typeof fetch, slow = false) {
  const timeoutMs = slow ? { timeoutMs: SLOW_TIMEOUT_MS } : {};
  const cluster = createKubernetesCluster({ apiUrl, fetch: send, nodeSelector: '', ...timeoutMs });
  return cluster.readNode('node-1');
}

function expected(situation: Situation, why: RegExp): object {
  const { kind, retryAfterMs } = situation;
  return {
    kind,
    why: expect.stringMatching(why) as string,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(kind === 'refused' && { status: Number(situation.name) }),
  };
}

describe("through Node's fetch", () => {
  const before = getCACertificates();
  beforeAll(() => setDefaultCACertificates([...before, known.cert]));
  afterAll(() => setDefaultCACertificates(before));

  test('a certificate of a known authority for the right name is trusted', async () => {
    const url = await over.tls(known.issue({ names: ['localhost'] }));
    expect(await read(url, fetch)).toMatchObject({ kind: 'ok', value: { uid: 'uid-1' } });
  });

  test.for(SITUATIONS)('$name', async (situation) => {
    expect(await read(await situation.arrange(), fetch, situation.slow)).toEqual(
      expected(situation, situation.inNode),
    );
  });
});

describe("through workerd's fetch", () => {
  /** Passes a request on; what its fetch throws comes back as 599. */
  const PASS_ON = `export default {
    async fetch(request) {
      const headers = new Headers(request.headers);
      const target = headers.get('x-target');
      headers.delete('x-target');
      try {
        const answer = await fetch(target, { method: request.method, headers, redirect: 'manual' });
        const body = await answer.text();
        return new Response(body, { status: answer.status, headers: answer.headers });
      } catch (error) {
        return new Response(error.message, { status: 599 });
      }
    },
  };`;
  let folder: string;
  let workerd: Miniflare;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farpulse-trust-'));
    const file = join(folder, 'ca.pem');
    await writeFile(file, known.cert);
    // Read by miniflare when it is loaded: what workerd trusts besides the public authorities.
    const before = process.env['NODE_EXTRA_CA_CERTS'];
    process.env['NODE_EXTRA_CA_CERTS'] = file;
    const { convertV4MiniflareOptions, Miniflare } = await import('miniflare');
    if (before === undefined) delete process.env['NODE_EXTRA_CA_CERTS'];
    else process.env['NODE_EXTRA_CA_CERTS'] = before;
    workerd = new Miniflare(
      convertV4MiniflareOptions({
        modules: true,
        script: PASS_ON,
        compatibilityDate: '2026-11-01',
        cf: false,
        // It logs every handshake that fails, which is what is asked for here.
        handleStructuredLogs: () => {},
      }),
    );
    await workerd.ready;
  }, 60_000);

  afterAll(async () => {
    await workerd.dispose();
    await rm(folder, { recursive: true });
  });

  const send: typeof fetch = async (input, init) => {
    if (typeof input !== 'string') throw new TypeError('the adapter gives its URLs as text');
    const headers = { ...Object.fromEntries(new Headers(init?.headers)), 'x-target': input };
    const answered = workerd.dispatchFetch('http://pass-on/', { headers });
    const late = new Promise<never>((_, reject) =>
      init?.signal?.addEventListener('abort', () => reject(new Error('aborted'))),
    );
    const answer = await Promise.race([answered, late]);
    if (answer.status === 599) throw new Error(await answer.text());
    return new Response(await answer.text(), {
      status: answer.status,
      headers: Object.fromEntries(answer.headers),
    });
  };

  test('a certificate of a known authority for the right name is trusted', async () => {
    const url = await over.tls(known.issue({ names: ['localhost'] }));
    expect(await read(url, send)).toMatchObject({ kind: 'ok', value: { uid: 'uid-1' } });
  });

  test.for(SITUATIONS)('$name', async (situation) => {
    const why = situation.inWorkerd ?? situation.inNode;
    expect(await read(await situation.arrange(), send, situation.slow)).toEqual(expected(situation, why));
  });
});
