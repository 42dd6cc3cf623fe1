import { describe, expect, test } from 'vitest';
import { KEY_ANNOTATION, type PublicKey } from '../../protocol/keys.ts';
import { annotateCommand, enrol } from '../../node-beacon/enrolment.ts';
import type { KubeAccess } from '../../node-beacon/kubeconfig.ts';
import { KubeNodeApi } from '../../node-beacon/own-node.ts';
import { selfSigned } from './support/certificate.ts';
import { closedPort, type LocalServer, sendJson, serve } from './support/local-server.ts';

const keyNamed = (letter: string): PublicKey => ({ kty: 'OKP', crv: 'Ed25519', x: letter.repeat(43) });
const OWN = keyNamed('A');
const signal = (): AbortSignal => AbortSignal.timeout(10_000);

interface ServedNode {
  uid: string;
  resourceVersion: number;
  annotations?: Record<string, string>;
}

/** One Node behind the API server's rules for GET and merge patch, as far as a beacon meets them. */
async function serveNode(node: ServedNode | undefined, refusePatch?: number): Promise<LocalServer> {
  return serve((request, response) => {
    const status = (code: number, message: string): void =>
      sendJson(response, code, { kind: 'Status', message });
    if (node === undefined || request.path !== '/api/v1/nodes/node-1') return status(404, 'not found');
    if (request.headers.authorization !== 'Bearer secret') return status(401, 'Unauthorized');
    if (request.method === 'PATCH') {
      if (refusePatch !== undefined) return status(refusePatch, 'not allowed to change it');
      if (request.headers['content-type'] !== 'application/merge-patch+json')
        return status(415, 'what is that');
      const { metadata } = JSON.parse(request.body) as { metadata: ServedNode };
      if (metadata.uid !== node.uid || String(metadata.resourceVersion) !== String(node.resourceVersion)) {
        return status(409, 'the object has been modified');
      }
      node.annotations = { ...node.annotations, ...metadata.annotations };
      node.resourceVersion += 1;
    }
    return sendJson(response, 200, { metadata: { ...node, resourceVersion: String(node.resourceVersion) } });
  });
}

function apiOf(server: LocalServer, more: Partial<KubeAccess> = {}): KubeNodeApi {
  return new KubeNodeApi(() =>
    Promise.resolve({ server: new URL(server.url), trust: {}, identity: {}, token: 'secret', ...more }),
  );
}

describe('enrolment', () => {
  test.for<{ name: string; before: string | undefined; after: string; patches: number }>([
    { name: 'an annotation that is missing is set', before: undefined, after: OWN.x, patches: 1 },
    { name: 'the own key is left alone', before: OWN.x, after: OWN.x, patches: 0 },
    {
      name: 'the own key in second place is left alone',
      before: `${'B'.repeat(43)},${OWN.x}`,
      after: `${'B'.repeat(43)},${OWN.x}`,
      patches: 0,
    },
    {
      name: 'another key is kept in second place',
      before: 'B'.repeat(43),
      after: `${OWN.x},${'B'.repeat(43)}`,
      patches: 1,
    },
    {
      name: 'of two others the first is kept',
      before: `${'B'.repeat(43)},${'C'.repeat(43)}`,
      after: `${OWN.x},${'B'.repeat(43)}`,
      patches: 1,
    },
    { name: 'what is no key is replaced', before: 'rubbish', after: OWN.x, patches: 1 },
    {
      name: 'the own key beyond the two that count is moved up',
      before: ['B', 'C', 'A'].map((each) => each.repeat(43)).join(','),
      after: `${OWN.x},${'B'.repeat(43)}`,
      patches: 1,
    },
  ])('$name', async ({ before, after, patches }) => {
    const node: ServedNode = {
      uid: 'uid-1',
      resourceVersion: 7,
      annotations: { other: 'stays', ...(before === undefined ? {} : { [KEY_ANNOTATION]: before }) },
    };
    const server = await serveNode(node);
    const outcome = await enrol(apiOf(server), 'node-1', OWN, signal());
    expect(outcome).toEqual({ kind: 'enrolled', uid: 'uid-1', annotated: patches > 0 });
    expect(node.annotations).toEqual({ other: 'stays', [KEY_ANNOTATION]: after });
    expect(server.requests.filter(({ method }) => method === 'PATCH')).toHaveLength(patches);
  });

  test('a write in between is met by reading again', async () => {
    const node: ServedNode = { uid: 'uid-1', resourceVersion: 7 };
    const server = await serveNode(node);
    const api = apiOf(server);
    let reads = 0;
    const outcome = await enrol(
      {
        async read(name, within) {
          const answer = await api.read(name, within);
          if (reads++ === 0) node.resourceVersion += 1; // the kubelet's status update
          return answer;
        },
        annotate: (name, read, value, within) => api.annotate(name, read, value, within),
      },
      'node-1',
      OWN,
      signal(),
    );
    expect(outcome).toMatchObject({ kind: 'enrolled', annotated: true });
    expect(node.annotations?.[KEY_ANNOTATION]).toBe(OWN.x);
    expect(server.requests.map(({ method }) => method)).toEqual(['GET', 'PATCH', 'GET', 'PATCH']);
  });

  test('two machines under one name settle with both keys instead of overwriting each other', async () => {
    const node: ServedNode = { uid: 'uid-1', resourceVersion: 1 };
    const server = await serveNode(node);
    const other = keyNamed('B');
    for (const key of [OWN, other, OWN, other]) await enrol(apiOf(server), 'node-1', key, signal());
    expect(node.annotations?.[KEY_ANNOTATION]).toBe(`${other.x},${OWN.x}`);
    expect(server.requests.filter(({ method }) => method === 'PATCH')).toHaveLength(2);
  });

  test('no such Node yet', async () => {
    const server = await serveNode(undefined);
    expect(await enrol(apiOf(server), 'node-1', OWN, signal())).toEqual({ kind: 'absent' });
  });

  test('a credential that may read and not write still brings the uid', async () => {
    const server = await serveNode({ uid: 'uid-1', resourceVersion: 1 }, 403);
    const outcome = await enrol(apiOf(server), 'node-1', OWN, signal());
    expect(outcome).toEqual({
      kind: 'not-annotated',
      uid: 'uid-1',
      why: 'answered 403: not allowed to change it',
    });
  });

  test('a credential that is not accepted', async () => {
    const server = await serveNode({ uid: 'uid-1', resourceVersion: 1 });
    const outcome = await enrol(apiOf(server, { token: 'wrong' }), 'node-1', OWN, signal());
    expect(outcome).toEqual({ kind: 'denied', why: 'answered 401: Unauthorized' });
  });

  test('an API server that is not there', async () => {
    const server = new URL(`http://127.0.0.1:${await closedPort()}`);
    const api = new KubeNodeApi(() => Promise.resolve({ server, trust: {}, identity: {} }));
    const outcome = await enrol(api, 'node-1', OWN, signal());
    expect(outcome).toMatchObject({ kind: 'unreachable', why: expect.stringContaining('ECONNREFUSED') });
  });

  test('an answer that is no Node', async () => {
    const server = await serve((_request, response) => response.end('<h1>Welcome</h1>'));
    const outcome = await enrol(apiOf(server), 'node-1', OWN, signal());
    expect(outcome).toEqual({ kind: 'unreachable', why: 'answered 200 without a Node' });
  });

  test('a kubeconfig that cannot be read', async () => {
    const api = new KubeNodeApi(() => Promise.reject(new Error('kubelet.conf: no such file')));
    const outcome = await enrol(api, 'node-1', OWN, signal());
    expect(outcome).toEqual({ kind: 'unusable', why: 'kubelet.conf: no such file' });
  });
});

describe('the way to the API server', () => {
  test('its own authority is trusted and the client certificate is shown', async () => {
    const authority = selfSigned('api server');
    const kubelet = selfSigned('system:node:node-1');
    const server = await serve(
      (request, response) => {
        const peer =
          'getPeerCertificate' in request.socket
            ? (request.socket as { getPeerCertificate(): { subject?: { CN?: string } } }).getPeerCertificate()
            : {};
        sendJson(response, 200, {
          metadata: {
            uid: peer.subject?.CN ?? 'nobody',
            resourceVersion: '1',
            annotations: { [KEY_ANNOTATION]: OWN.x },
          },
        });
      },
      { tls: { ...authority, clientCa: kubelet.cert } },
    );
    const identity = { cert: kubelet.cert, key: kubelet.key };
    const outcome = await enrol(
      apiOf(server, { trust: { ca: authority.cert }, identity }),
      'node-1',
      OWN,
      signal(),
    );
    expect(outcome).toMatchObject({ kind: 'enrolled', uid: 'system:node:node-1' });
  });

  test('another authority is not trusted, and the credential is not sent', async () => {
    const server = await serve((_request, response) => sendJson(response, 200, {}), {
      tls: selfSigned('impostor'),
    });
    const outcome = await enrol(
      apiOf(server, { trust: { ca: selfSigned('api server').cert } }),
      'node-1',
      OWN,
      signal(),
    );
    expect(outcome).toMatchObject({ kind: 'unreachable', why: expect.stringMatching(/^tls: /) });
    expect(server.requests).toHaveLength(0);
  });
});

test('a kubeconfig of another Node is refused with the name to set, and nothing is asked', async () => {
  const server = await serveNode({ uid: 'uid-1', resourceVersion: 7 });
  const outcome = await enrol(apiOf(server, { nodeName: 'node-7' }), 'node-1', OWN, signal());
  expect(outcome).toEqual({
    kind: 'denied',
    why: 'the kubeconfig is the one of the Node node-7, not of node-1: set --node=node-7',
  });
  expect(server.requests).toHaveLength(0);
});

test('an admin’s command is complete', () => {
  expect(annotateCommand('node-1', OWN)).toBe(
    `kubectl annotate node node-1 --overwrite farpulse/beacon-key=${'A'.repeat(43)}`,
  );
});
