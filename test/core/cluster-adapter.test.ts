// The adapter over a fetch of our own: how it asks, and what it makes of every kind of refusal. What a real API answers
// is in `test/cluster/api-table-adapter.ts`.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createKubernetesCluster, type KubernetesOptions } from '../../worker/cluster/kubernetes.ts';
import type { ClusterFailure, ClusterPort } from '../../worker/core/cluster-port.ts';

const TOKEN = 'token-that-must-not-show';
const JSON_TYPE = { 'content-type': 'application/json' };

const NODE = {
  kind: 'Node',
  apiVersion: 'v1',
  metadata: { name: 'node-1', uid: 'uid-1', resourceVersion: '7' },
  spec: {},
  status: {},
};

/** The URL and the rest of one request. */
interface Sent {
  readonly url: URL;
  readonly init: RequestInit;
}

function clusterOver(
  answer: (sent: Sent) => Response | Promise<Response>,
  options: Partial<KubernetesOptions> = { token: TOKEN },
): { readonly cluster: ClusterPort; readonly sent: Sent[] } {
  const sent: Sent[] = [];
  const cluster = createKubernetesCluster({
    apiUrl: 'https://kube.example.com',
    nodeSelector: '',
    fetch: async (url, init = {}) => {
      const request = { url: new URL(url instanceof Request ? url.url : url), init };
      sent.push(request);
      return answer(request);
    },
    ...options,
  });
  return { cluster, sent };
}

function bodyOf(sent: Sent | undefined): unknown {
  const body = sent?.init.body;
  if (typeof body !== 'string') throw new Error('no text was sent');
  return JSON.parse(body);
}

function json(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers: { ...JSON_TYPE, ...headers } });
}

function refusal(code: number, reason: string, message = 'a message', details: object = {}): object {
  return { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message, details };
}

interface RefusalCase {
  readonly name: string;
  readonly status: number;
  readonly headers?: Record<string, string>;
  /** Text is sent as it is. */
  readonly body?: object | string;
  readonly failure: ClusterFailure;
}

const NO_TEXT = { 'content-type': 'text/plain' };
const HTML = { 'content-type': 'text/html; charset=utf-8' };

const REFUSALS: readonly RefusalCase[] = [
  {
    name: '404 with a Status that names the object: it is absent',
    status: 404,
    body: refusal(404, 'NotFound', 'nodes "node-1" not found', { name: 'node-1', kind: 'nodes' }),
    failure: { kind: 'not-found' },
  },
  {
    name: '404 with a Status that names nothing: the path is wrong, no node is gone',
    status: 404,
    body: refusal(404, 'NotFound', 'the server could not find the requested resource'),
    failure: { kind: 'unreachable', why: '404 NotFound: the server could not find the requested resource' },
  },
  {
    name: '404 from something in front: no node is gone',
    status: 404,
    headers: HTML,
    body: '<html>no such tunnel</html>',
    failure: { kind: 'unreachable', why: 'not from the Kubernetes API: 404, text/html' },
  },
  {
    name: '409 about the version: a conflict that says so',
    status: 409,
    body: refusal(409, 'Conflict', 'the object has been modified'),
    failure: { kind: 'conflict', why: 'resourceVersion: 409 Conflict: the object has been modified' },
  },
  {
    name: '409 of the edge about a name: not a conflict',
    status: 409,
    headers: NO_TEXT,
    body: 'error code: 1001',
    failure: { kind: 'unreachable', why: 'DNS: the edge cannot resolve the name (409, error code: 1001)' },
  },
  {
    name: '410: the list has changed under its pages',
    status: 410,
    body: refusal(410, 'Expired', 'too old'),
    failure: { kind: 'conflict', why: '410 Expired: too old' },
  },
  {
    name: '422 about the uid: a conflict that says so',
    status: 422,
    body: refusal(422, 'Invalid', 'field is immutable', { causes: [{ field: 'metadata.uid' }] }),
    failure: { kind: 'conflict', why: 'uid: 422 Invalid: field is immutable' },
  },
  {
    name: '422 about anything else: invalid',
    status: 422,
    body: refusal(422, 'Invalid', 'unknown field', { causes: [{ field: 'patch' }] }),
    failure: { kind: 'invalid', status: 422, why: '422 Invalid: unknown field' },
  },
  {
    name: '400: invalid',
    status: 400,
    body: refusal(400, 'BadRequest', 'no such selector'),
    failure: { kind: 'invalid', status: 400, why: '400 BadRequest: no such selector' },
  },
  {
    name: '415: invalid',
    status: 415,
    body: refusal(415, 'UnsupportedMediaType', ''),
    failure: { kind: 'invalid', status: 415, why: '415 UnsupportedMediaType' },
  },
  {
    name: '401 of the API server: refused, with its words',
    status: 401,
    body: refusal(401, 'Unauthorized', 'Unauthorized'),
    failure: { kind: 'refused', status: 401, why: '401 Unauthorized: Unauthorized' },
  },
  {
    name: '403 of the API server: refused, with its words',
    status: 403,
    body: refusal(403, 'Forbidden', 'nodes "node-1" is forbidden: User "x" cannot patch'),
    failure: {
      kind: 'refused',
      status: 403,
      why: '403 Forbidden: nodes "node-1" is forbidden: User "x" cannot patch',
    },
  },
  {
    name: '403 of something in front: refused, and not by the API server',
    status: 403,
    headers: NO_TEXT,
    body: 'error code: 1003',
    failure: { kind: 'refused', status: 403, why: 'not from the Kubernetes API: 403, error code: 1003' },
  },
  {
    name: '429 with Retry-After in seconds: busy for that long',
    status: 429,
    headers: { ...JSON_TYPE, 'retry-after': '7' },
    body: refusal(429, 'TooManyRequests', 'slow down'),
    failure: { kind: 'busy', retryAfterMs: 7_000, why: '429 TooManyRequests: slow down' },
  },
  {
    name: '429 without Retry-After: busy for a second',
    status: 429,
    headers: NO_TEXT,
    body: 'error code: 1015',
    failure: { kind: 'busy', retryAfterMs: 1_000, why: 'not from the Kubernetes API: 429, error code: 1015' },
  },
  {
    name: '429 with Retry-After: 0: busy for a second all the same',
    status: 429,
    headers: { ...JSON_TYPE, 'retry-after': '0' },
    body: refusal(429, 'TooManyRequests'),
    failure: { kind: 'busy', retryAfterMs: 1_000, why: '429 TooManyRequests: a message' },
  },
  {
    name: '429 with a Retry-After of a day: busy for a minute',
    status: 429,
    headers: { ...JSON_TYPE, 'retry-after': '86400' },
    body: refusal(429, 'TooManyRequests'),
    failure: { kind: 'busy', retryAfterMs: 60_000, why: '429 TooManyRequests: a message' },
  },
  {
    name: "503 with Retry-After as a date: counted from the answer's own date",
    status: 503,
    headers: {
      ...NO_TEXT,
      date: 'Tue, 01 Dec 2026 00:00:00 GMT',
      'retry-after': 'Tue, 01 Dec 2026 00:00:20 GMT',
    },
    body: 'back soon',
    failure: { kind: 'busy', retryAfterMs: 20_000, why: 'not from the Kubernetes API: 503, back soon' },
  },
  {
    name: '503 of the API server: busy',
    status: 503,
    body: refusal(503, 'ServiceUnavailable', 'apiserver is shutting down'),
    failure: { kind: 'busy', retryAfterMs: 1_000, why: '503 ServiceUnavailable: apiserver is shutting down' },
  },
  {
    name: '503 of a load balancer: unreachable',
    status: 503,
    headers: HTML,
    body: '<html>',
    failure: {
      kind: 'unreachable',
      why: 'whatever stands before the API server has no server to ask (503, text/html)',
    },
  },
  {
    name: '500 of the API server: its own trouble',
    status: 500,
    body: refusal(500, 'InternalError', 'etcdserver: leader changed'),
    failure: { kind: 'unreachable', why: '500 InternalError: etcdserver: leader changed' },
  },
  {
    name: '504 of the API server: its own trouble',
    status: 504,
    body: refusal(504, 'Timeout', 'request did not complete'),
    failure: { kind: 'unreachable', why: '504 Timeout: request did not complete' },
  },
  {
    name: '526: TLS',
    status: 526,
    headers: HTML,
    failure: {
      kind: 'unreachable',
      why: 'TLS: the certificate is not valid for this name, or not from a public authority, or has expired (526, text/html)',
    },
  },
  {
    name: "530: DNS or tunnel, with the edge's own code",
    status: 530,
    headers: NO_TEXT,
    body: 'error code: 1016',
    failure: {
      kind: 'unreachable',
      why: 'the edge cannot reach the API server: an unknown name (error 1016) or a tunnel without connectors (error 1033) (530, error code: 1016)',
    },
  },
  {
    name: '302 to a login page: not followed',
    status: 302,
    headers: { location: 'https://login.example.com' },
    failure: {
      kind: 'unreachable',
      why: 'redirected (302): this is not the Kubernetes API, perhaps a login page before it',
    },
  },
  {
    name: '200 with a web page: not the API',
    status: 200,
    headers: HTML,
    body: '<html>welcome</html>',
    failure: { kind: 'unreachable', why: 'not from the Kubernetes API: 200, text/html' },
  },
  {
    name: '200 with JSON of somebody else: not the API',
    status: 200,
    body: { hello: 'world' },
    failure: {
      kind: 'unreachable',
      why: expect.stringContaining("the answer is not the Kubernetes API's: not a Node: kind:") as string,
    },
  },
  {
    name: '200 with half an object: not believed',
    status: 200,
    body: { ...NODE, metadata: { name: 'node-1' } },
    failure: { kind: 'unreachable', why: expect.stringContaining('not a Node: metadata.uid:') as string },
  },
  {
    name: '200 with a Ready condition of an unknown status: not believed',
    status: 200,
    body: { ...NODE, status: { conditions: [{ type: 'Ready', status: 'Maybe' }] } },
    failure: { kind: 'unreachable', why: expect.stringContaining('Ready: status:') as string },
  },
  {
    name: '200 with broken JSON: not believed',
    status: 200,
    headers: JSON_TYPE,
    body: '{"kind":',
    failure: { kind: 'unreachable', why: expect.stringContaining('JSON') as string },
  },
];

describe('an answer that is no success', () => {
  test.for(REFUSALS)('$name', async ({ status: code, headers, body = '', failure }) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const { cluster } = clusterOver(
      () => new Response(text, { status: code, headers: headers ?? JSON_TYPE }),
    );
    expect(await cluster.readNode('node-1')).toEqual(failure);
  });
});

interface LossCase {
  readonly name: string;
  readonly error: unknown;
  readonly why: string;
}

/** As Node's fetch reports it. */
function fetchFailed(code: string, message: string): TypeError {
  return new TypeError('fetch failed', { cause: Object.assign(new Error(message), { code }) });
}

const LOSSES: readonly LossCase[] = [
  {
    name: 'an unknown name is DNS',
    error: fetchFailed('ENOTFOUND', 'getaddrinfo ENOTFOUND kube.example.com'),
    why: 'DNS: fetch failed: getaddrinfo ENOTFOUND kube.example.com',
  },
  {
    name: 'a private authority is TLS',
    error: fetchFailed('DEPTH_ZERO_SELF_SIGNED_CERT', 'self-signed certificate'),
    why: 'TLS: unknown authority: fetch failed: self-signed certificate (DEPTH_ZERO_SELF_SIGNED_CERT)',
  },
  {
    name: 'a certificate for another name is TLS, though it speaks of hosts',
    error: fetchFailed('ERR_TLS_CERT_ALTNAME_INVALID', "Host: x. is not in the cert's altnames: DNS:y"),
    why: "TLS: wrong name: fetch failed: Host: x. is not in the cert's altnames: DNS:y (ERR_TLS_CERT_ALTNAME_INVALID)",
  },
  {
    name: 'a closed port is a refused connection',
    error: fetchFailed('ECONNREFUSED', ''),
    why: 'connection refused: fetch failed: (ECONNREFUSED)',
  },
  {
    name: 'a connection that takes too long has timed out',
    error: fetchFailed('UND_ERR_CONNECT_TIMEOUT', 'Connect Timeout Error'),
    why: 'timed out: fetch failed: Connect Timeout Error (UND_ERR_CONNECT_TIMEOUT)',
  },
  {
    name: 'a cut connection is lost',
    error: fetchFailed('ECONNRESET', 'read ECONNRESET'),
    why: 'connection lost: fetch failed: read ECONNRESET',
  },
  {
    name: 'workerd does not tell a refused connection from a lost one',
    error: new Error('Network connection lost.'),
    why: 'connection refused or lost: Network connection lost.',
  },
  {
    name: 'workerd hides DNS and TLS errors alike, so no cause is made up',
    error: new Error('internal error; reference = vsk0pk0vgfq5g47tmf6e0bud'),
    why: 'the platform does not say why (an unknown name, a certificate that is not trusted, or a fault of its own): internal error; reference = vsk0pk0vgfq5g47tmf6e0bud',
  },
  {
    name: 'a Workers VPC binding names a certificate that it does not trust',
    error: new Error('ProxyError: tls_certificate_error'),
    why: 'TLS: ProxyError: tls_certificate_error',
  },
  {
    name: 'and a name that does not resolve behind the tunnel',
    error: new Error('ProxyError: dns_error'),
    why: 'DNS: ProxyError: dns_error',
  },
  {
    name: 'and a tunnel without connectors',
    error: new Error('ProxyError: destination_unavailable'),
    why: 'no route: ProxyError: destination_unavailable',
  },
  {
    name: 'anything else is told as it is',
    error: new Error('the binding has no service'),
    why: 'no connection: the binding has no service',
  },
  { name: 'even a thrown text', error: 'odd', why: 'no connection: odd' },
  {
    name: 'the token does not show, wherever it turns up',
    error: new Error(`bad header: Bearer ${TOKEN}`),
    why: 'no connection: bad header: Bearer [secret]',
  },
  {
    name: 'a user and password in a URL do not show',
    error: new Error('cannot fetch https://me:hidden@kube.example.com/api'),
    why: 'no connection: cannot fetch https://kube.example.com/api',
  },
  {
    name: 'a long story is cut short',
    error: new Error('x'.repeat(1000)),
    why: `no connection: ${'x'.repeat(284)}…`,
  },
];

describe('no answer', () => {
  test.for(LOSSES)('$name', async ({ error, why }) => {
    const { cluster } = clusterOver(() => {
      throw error;
    });
    expect(await cluster.readNode('node-1')).toEqual({ kind: 'unreachable', why });
  });

  test('a body that breaks off is no answer', async () => {
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"kind":"Node"'));
        controller.error(new Error('terminated'));
      },
    });
    const { cluster } = clusterOver(() => new Response(body, { headers: JSON_TYPE }));
    expect(await cluster.readNode('node-1')).toEqual({
      kind: 'unreachable',
      why: 'connection lost: terminated',
    });
  });
});

describe('deadlines', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** A fetch that obeys its signal and does nothing else. */
  function hanging(): { readonly cluster: ClusterPort; readonly signal: Promise<AbortSignal> } {
    const { promise, resolve } = Promise.withResolvers<AbortSignal>();
    const { cluster } = clusterOver(
      ({ init: { signal } }) =>
        new Promise((_, reject) => {
          if (!signal) throw new Error('no signal');
          signal.addEventListener('abort', () => reject(signal.reason as Error));
          resolve(signal);
        }),
    );
    return { cluster, signal: promise };
  }

  test('a call without an answer ends after four seconds', async () => {
    const { cluster, signal } = hanging();
    const result = cluster.readNode('node-1');
    const { aborted } = await afterMs(signal, 3_999);
    expect(aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(await result).toEqual({ kind: 'unreachable', why: 'no answer within 4 s' });
  });

  test('a page of a list may take ten', async () => {
    const { cluster, signal } = hanging();
    const result = cluster.listLeases();
    const { aborted } = await afterMs(signal, 9_999);
    expect(aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(await result).toEqual({ kind: 'unreachable', why: 'no answer within 10 s' });
  });

  /** The signal's state so long after the request was sent. */
  async function afterMs(signal: Promise<AbortSignal>, ms: number): Promise<{ readonly aborted: boolean }> {
    const sent = await signal;
    await vi.advanceTimersByTimeAsync(ms);
    return { aborted: sent.aborted };
  }

  test('a body that never ends is cancelled, even if fetch does not look at its signal any more', async () => {
    const cancelled = vi.fn<() => void>();
    const body = new ReadableStream({ cancel: cancelled });
    const { cluster, sent } = clusterOver(() => new Response(body, { headers: JSON_TYPE }), {
      timeoutMs: 500,
    });
    const result = cluster.readNode('node-1');
    await vi.waitFor(() => expect(sent).toHaveLength(1));
    await vi.advanceTimersByTimeAsync(500);
    expect(await result).toEqual({ kind: 'unreachable', why: 'no answer within 0.5 s' });
    expect(cancelled).toHaveBeenCalledOnce();
  });

  test('an answer leaves no timer behind', async () => {
    const { cluster } = clusterOver(() => json(NODE));
    expect(await cluster.readNode('node-1')).toMatchObject({ kind: 'ok' });
    expect(vi.getTimerCount()).toBe(0);
  });
});

test('a client that does not load is told apart from a cluster that does not answer', async () => {
  vi.doMock('../../worker/cluster/kubernetes-client.ts', () => {
    throw new Error('no such module');
  });
  try {
    const { cluster, sent } = clusterOver(() => json(NODE));
    expect(await cluster.readNode('node-1')).toMatchObject({
      kind: 'unreachable',
      why: expect.stringMatching(/^the Kubernetes client does not load: /),
    });
    expect(sent).toEqual([]);
  } finally {
    vi.doUnmock('../../worker/cluster/kubernetes-client.ts');
  }
});

describe('connections', () => {
  test('no more than five requests at once, and none is forgotten', async () => {
    let running = 0;
    let most = 0;
    const { cluster, sent } = clusterOver(async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise(setImmediate);
      running -= 1;
      return json(NODE);
    });
    const results = await Promise.all(Array.from({ length: 23 }, () => cluster.readNode('node-1')));
    expect(results.every(({ kind }) => kind === 'ok')).toBe(true);
    expect({ most, sent: sent.length }).toEqual({ most: 5, sent: 23 });
  });

  test('a failed request gives its place to the next', async () => {
    let count = 0;
    const { cluster } = clusterOver(() => {
      count += 1;
      if (count <= 10) throw new Error('no');
      return json(NODE);
    });
    const results = await Promise.all(Array.from({ length: 12 }, () => cluster.readNode('node-1')));
    expect(results.filter(({ kind }) => kind === 'ok')).toHaveLength(2);
  });

  test('the rest of a huge error page is cancelled', async () => {
    const cancelled = vi.fn<() => void>();
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(10_000)),
      cancel: cancelled,
    });
    const { cluster } = clusterOver(() => new Response(body, { status: 502, headers: HTML }));
    expect(await cluster.readNode('node-1')).toMatchObject({ kind: 'unreachable' });
    expect(cancelled).toHaveBeenCalledOnce();
  });
});

describe('how it asks', () => {
  test('the write is exactly the Ready condition, on exactly the copy that was read', async () => {
    const { cluster, sent } = clusterOver(() =>
      json({ ...NODE, metadata: { ...NODE.metadata, resourceVersion: '8' } }),
    );
    const written = await cluster.patchReadyUnknown({
      node: 'node-1',
      uid: 'uid-1',
      resourceVersion: '7',
      reason: 'FarpulseHostSilent',
      message: 'silent',
      lastTransitionTime: '2026-12-01T00:00:00Z',
    });
    expect(written).toEqual({ kind: 'ok', value: { resourceVersion: '8' } });
    const [request] = sent;
    expect(request?.init.method).toBe('PATCH');
    expect(request?.url.pathname).toBe('/api/v1/nodes/node-1/status');
    expect(Object.fromEntries(request?.url.searchParams ?? [])).toEqual({
      fieldManager: 'farpulse',
      fieldValidation: 'Strict',
    });
    expect(new Headers(request?.init.headers).get('content-type')).toBe(
      'application/strategic-merge-patch+json',
    );
    expect(bodyOf(request)).toEqual({
      metadata: { uid: 'uid-1', resourceVersion: '7' },
      status: {
        conditions: [
          {
            type: 'Ready',
            status: 'Unknown',
            reason: 'FarpulseHostSilent',
            message: 'silent',
            lastTransitionTime: '2026-12-01T00:00:00Z',
          },
        ],
      },
    });
  });

  test('a pod is marked with nothing but its Ready status and time', async () => {
    const { cluster, sent } = clusterOver(() => json({ ...NODE, kind: 'PartialObjectMetadata' }));
    const pod = {
      namespace: 'web',
      name: 'web-1',
      uid: 'uid-2',
      resourceVersion: '9',
      ready: 'True',
    } as const;
    expect(await cluster.patchPodNotReady(pod, '2026-12-01T00:00:00Z')).toEqual({
      kind: 'ok',
      value: undefined,
    });
    expect(sent[0]?.url.pathname).toBe('/api/v1/namespaces/web/pods/web-1/status');
    expect(bodyOf(sent[0])).toEqual({
      metadata: { uid: 'uid-2', resourceVersion: '9' },
      status: {
        conditions: [{ type: 'Ready', status: 'False', lastTransitionTime: '2026-12-01T00:00:00Z' }],
      },
    });
  });

  test('the inventory is metadata of the selected nodes from the watch cache', async () => {
    const { cluster, sent } = clusterOver(
      () => json({ kind: 'PartialObjectMetadataList', metadata: { resourceVersion: '1' }, items: [] }),
      { nodeSelector: 'farpulse in (on)' },
    );
    expect(await cluster.listNodes()).toEqual({ kind: 'ok', value: [] });
    expect(Object.fromEntries(sent[0]?.url.searchParams ?? [])).toEqual({
      limit: '500',
      resourceVersion: '0',
      labelSelector: 'farpulse in (on)',
    });
    expect(new Headers(sent[0]?.init.headers).get('accept')).toContain('as=PartialObjectMetadataList');
  });

  test('evidence is never read from a cache', async () => {
    const { cluster, sent } = clusterOver(() => json({}));
    await cluster.readNode('node-1');
    await cluster.readLease('node-1');
    await cluster.listLeases();
    await cluster.listPods('node-1');
    expect(sent).toHaveLength(4);
    expect(sent.filter(({ url }) => url.searchParams.has('resourceVersion'))).toEqual([]);
  });

  test.for([
    { name: 'with a token', options: { token: TOKEN }, authorization: `Bearer ${TOKEN}` },
    { name: 'without one, for a tunnel that brings its own', options: {}, authorization: null },
  ])('$name', async ({ options, authorization }) => {
    const { cluster, sent } = clusterOver(() => json(NODE), options);
    await cluster.readNode('node-1');
    expect(new Headers(sent[0]?.init.headers).get('authorization')).toBe(authorization);
    expect(sent[0]?.init.redirect).toBe('manual');
  });

  test.for([
    { apiUrl: 'https://kube.example.com/', path: '/api/v1/nodes/node-1' },
    {
      apiUrl: 'https://kube.example.com:6443/k8s/clusters/c-1//',
      path: '/k8s/clusters/c-1/api/v1/nodes/node-1',
    },
  ])('apiUrl $apiUrl leads to $path', async ({ apiUrl, path }) => {
    const { cluster, sent } = clusterOver(() => json(NODE), { apiUrl });
    await cluster.readNode('node-1');
    expect(sent[0]?.url.pathname).toBe(path);
  });

  test('an apiUrl with a password is refused without repeating it', () => {
    const open = (): unknown =>
      clusterOver(() => json(NODE), { apiUrl: 'https://me:hidden@kube.example.com' });
    expect(open).toThrow(/^apiUrl must not contain a user or password$/);
  });
});

describe('pages', () => {
  function leases(names: readonly string[], next?: string): Response {
    const items = names.map((name) => ({
      metadata: { name },
      spec: { renewTime: '2026-12-01T00:00:00.000001Z' },
    }));
    return json({
      kind: 'LeaseList',
      metadata: { resourceVersion: '1', ...(next && { continue: next }) },
      items,
    });
  }

  test('are followed to the end', async () => {
    const { cluster, sent } = clusterOver(({ url }) =>
      url.searchParams.get('continue') === 'two' ? leases(['b']) : leases(['a'], 'two'),
    );
    const renewTimeMs = Date.parse('2026-12-01T00:00:00Z');
    expect(await cluster.listLeases()).toEqual({
      kind: 'ok',
      value: [
        { node: 'a', renewTimeMs },
        { node: 'b', renewTimeMs },
      ],
    });
    expect(sent.map(({ url }) => url.searchParams.get('limit'))).toEqual(['500', '500']);
  });

  test('a page that fails makes the whole list fail', async () => {
    const { cluster } = clusterOver(({ url }) =>
      url.searchParams.has('continue') ? json(refusal(410, 'Expired'), 410) : leases(['a'], 'two'),
    );
    expect(await cluster.listLeases()).toEqual({ kind: 'conflict', why: '410 Expired: a message' });
  });

  test('one unreadable item makes the whole list fail', async () => {
    const { cluster } = clusterOver(() =>
      json({ kind: 'LeaseList', metadata: {}, items: [{ metadata: { name: 'a' } }, { metadata: {} }] }),
    );
    expect(await cluster.listLeases()).toMatchObject({
      kind: 'unreachable',
      why: expect.stringContaining('items.1'),
    });
  });

  test('a list that does not move on is given up', async () => {
    const { cluster, sent } = clusterOver(() => leases(['a'], 'again'));
    expect(await cluster.listLeases()).toMatchObject({ kind: 'unreachable' });
    expect(sent).toHaveLength(2);
  });
});

describe('what a Node says', () => {
  interface OwnerCase {
    readonly name: string;
    readonly managedFields: readonly object[];
    readonly kubeletWroteAtMs: number | undefined;
  }

  const HEARTBEAT = {
    'f:status': { 'f:conditions': { 'k:{"type":"Ready"}': { 'f:lastHeartbeatTime': {} } } },
  };
  const STATUS_ONLY = { 'f:status': { 'f:conditions': { 'k:{"type":"Ready"}': { 'f:status': {} } } } };
  const OTHER_CONDITION = { 'f:status': { 'f:conditions': { 'k:{"type":"DiskFull"}': { 'f:status': {} } } } };
  const T1 = '2026-12-01T00:00:01Z';
  const T2 = '2026-12-01T00:00:02Z';
  const OWNERS: readonly OwnerCase[] = [
    {
      name: 'the owner of the heartbeat is the kubelet, whatever its name',
      managedFields: [{ manager: 'k3s', subresource: 'status', time: T1, fieldsV1: HEARTBEAT }],
      kubeletWroteAtMs: Date.parse(T1),
    },
    {
      name: 'of two owners the newer counts (a kubelet under a new name)',
      managedFields: [
        { manager: 'kubelet', subresource: 'status', time: T2, fieldsV1: HEARTBEAT },
        { manager: 'kubelite', subresource: 'status', time: T1, fieldsV1: HEARTBEAT },
      ],
      kubeletWroteAtMs: Date.parse(T2),
    },
    {
      name: 'before its first report after registering it owns only the rest of Ready',
      managedFields: [{ manager: 'kubelet', subresource: 'status', time: T1, fieldsV1: STATUS_ONLY }],
      kubeletWroteAtMs: Date.parse(T1),
    },
    {
      name: 'whoever wrote Ready beside the owner of the heartbeat is not the kubelet',
      managedFields: [
        { manager: 'kubelet', subresource: 'status', time: T1, fieldsV1: HEARTBEAT },
        { manager: 'kubectl-edit', subresource: 'status', time: T2, fieldsV1: STATUS_ONLY },
      ],
      kubeletWroteAtMs: Date.parse(T1),
    },
    {
      name: 'an owner of other conditions is not the kubelet',
      managedFields: [
        { manager: 'node-problem-detector', subresource: 'status', time: T1, fieldsV1: OTHER_CONDITION },
      ],
      kubeletWroteAtMs: undefined,
    },
    {
      name: 'neither is a writer of the node itself',
      managedFields: [{ manager: 'kubelet', time: T1, fieldsV1: HEARTBEAT }],
      kubeletWroteAtMs: undefined,
    },
    {
      name: 'nor the controller manager, which writes a heartbeat for nodes that never had one',
      managedFields: [
        { manager: 'kube-controller-manager', subresource: 'status', time: T1, fieldsV1: HEARTBEAT },
      ],
      kubeletWroteAtMs: undefined,
    },
    {
      name: 'nor we ourselves',
      managedFields: [{ manager: 'farpulse', subresource: 'status', time: T1, fieldsV1: HEARTBEAT }],
      kubeletWroteAtMs: undefined,
    },
  ];

  test.for(OWNERS)('$name', async ({ managedFields, kubeletWroteAtMs }) => {
    const { cluster } = clusterOver(() => json({ ...NODE, metadata: { ...NODE.metadata, managedFields } }));
    const node = await cluster.readNode('node-1');
    expect(node.kind === 'ok' && node.value.kubeletWroteAtMs).toBe(kubeletWroteAtMs);
  });

  test('times that were never set are empty, and other conditions may be anything', async () => {
    const conditions = [
      { type: 'Weird', status: 7, lastHeartbeatTime: 'yesterday' },
      { type: 'Ready', status: 'Unknown', lastHeartbeatTime: null },
    ];
    const { cluster } = clusterOver(() => json({ ...NODE, status: { conditions } }));
    expect(await cluster.readNode('node-1')).toMatchObject({
      value: {
        ready: { status: 'Unknown', reason: '', message: '', lastTransitionTime: '', lastHeartbeatTime: '' },
      },
    });
  });
});
