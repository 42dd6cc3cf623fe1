import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  findKubeconfig,
  type KubeAccess,
  KUBELET_KUBECONFIGS,
  loadKubeconfig,
} from '../../node-beacon/kubeconfig.ts';
import { selfSigned } from './support/certificate.ts';
import { temporaryFolder } from './support/folder.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Writes a kubeconfig and files beside it, and loads it. */
async function load(
  content: string,
  files: Record<string, string> = {},
  server?: string,
): Promise<KubeAccess> {
  const folder = await temporaryFolder();
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const path = join(folder, 'kubelet.conf');
  await writeFile(path, content);
  return loadKubeconfig(path, server);
}

const KUBEADM = `
apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority-data: ${base64('CA')}
    server: https://10.0.0.1:6443
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: system:node:node-1
  name: system:node:node-1@kubernetes
current-context: system:node:node-1@kubernetes
preferences: {}
users:
- name: system:node:node-1
  user:
    client-certificate: kubelet-client-current.pem
    client-key: kubelet-client-current.pem
`;

const K3S = `
apiVersion: v1
clusters:
- cluster:
    server: https://127.0.0.1:6444
    certificate-authority: server-ca.crt
  name: local
contexts:
- context: {cluster: local, namespace: default, user: user}
  name: Default
current-context: Default
kind: Config
users:
- name: user
  user: {client-certificate: client-kubelet.crt, client-key: client-kubelet.key}
`;

/** As JSON, with what differs from one cluster, one user, one context. */
function config(cluster: object = {}, user: object | null = {}, more: object = {}): string {
  return JSON.stringify({
    clusters: [{ name: 'c', cluster: { server: 'https://api.example:6443', ...cluster } }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
    ...more,
  });
}

describe('kubeconfigs of kubelets', () => {
  test('kubeadm: authority as data, certificate and key in one rotating file', async () => {
    const access = await load(KUBEADM, { 'kubelet-client-current.pem': 'CERT AND KEY' });
    expect(access.server.href).toBe('https://10.0.0.1:6443/');
    expect(access.trust).toEqual({ ca: 'CA' });
    expect(access.identity).toEqual({ cert: 'CERT AND KEY', key: 'CERT AND KEY' });
  });

  test('k3s: everything in files beside it', async () => {
    const access = await load(K3S, {
      'server-ca.crt': 'CA',
      'client-kubelet.crt': 'CERT',
      'client-kubelet.key': 'KEY',
    });
    expect(access).toMatchObject({ trust: { ca: 'CA' }, identity: { cert: 'CERT', key: 'KEY' } });
    expect(access.server.host).toBe('127.0.0.1:6444');
  });

  test.for<{ name: string; content: string; files?: Record<string, string>; access: object }>([
    { name: 'a token, as JSON', content: config({}, { token: 'T' }), access: { token: 'T', identity: {} } },
    {
      name: 'a token file, which wins over a token and is trimmed',
      content: config({}, { token: 'old', tokenFile: 'token' }),
      files: { token: 'fresh\n' },
      access: { token: 'fresh' },
    },
    {
      name: 'certificate and key as data, which win over files',
      content: config(
        {},
        {
          'client-certificate': 'nowhere',
          'client-certificate-data': base64('CERT'),
          'client-key-data': base64('KEY'),
        },
      ),
      access: { identity: { cert: 'CERT', key: 'KEY' } },
    },
    { name: 'no user fields at all', content: config({}, null), access: { identity: {} } },
    {
      name: 'another server name in the certificate',
      content: config({ 'tls-server-name': 'api' }),
      access: { trust: { servername: 'api' } },
    },
    {
      name: 'verification switched off, as the kubelet has it',
      content: config({ 'insecure-skip-tls-verify': true }),
      access: { trust: { rejectUnauthorized: false } },
    },
    {
      name: 'one context and none current',
      content: config({}, { token: 'T' }, { 'current-context': '' }),
      access: { token: 'T' },
    },
    {
      name: 'a plug-in next to a token',
      content: config({}, { token: 'T', exec: { command: 'aws' } }),
      access: { token: 'T' },
    },
    {
      name: 'a test server on loopback without TLS',
      content: config({ server: 'http://127.0.0.1:8001' }),
      access: {},
    },
  ])('$name', async ({ content, files, access }) => {
    expect(await load(content, files)).toMatchObject(access);
  });

  test('another address of the API server can be given', async () => {
    const access = await load(config({}, { token: 'T' }), {}, 'https://10.9.9.9:6443');
    expect(access.server.host).toBe('10.9.9.9:6443');
    expect(access.token).toBe('T');
  });
});

describe('a kubeconfig that cannot be used is told with its field', () => {
  test.for([
    { name: 'no YAML', content: '{{{', why: /kubelet\.conf: / },
    { name: 'empty', content: '', why: /kubelet\.conf: content: / },
    { name: 'no server', content: config({ server: 5 }), why: /clusters\.0\.cluster\.server/ },
    {
      name: 'a server without TLS elsewhere',
      content: config({ server: 'http://10.0.0.1' }),
      why: /clusters\.server "http:\/\/10\.0\.0\.1"/,
    },
    {
      name: 'an unknown context',
      content: config({}, {}, { 'current-context': 'y' }),
      why: /no context named "y"/,
    },
    { name: 'an unknown user', content: config({}, {}, { users: [] }), why: /users: none named "u"/ },
    {
      name: 'an unknown cluster',
      content: config({}, {}, { clusters: [] }),
      why: /clusters: none named "c"/,
    },
    {
      name: 'only a plug-in',
      content: config({}, { exec: { command: 'aws' } }),
      why: /users\.exec: .*--node-uid/,
    },
    { name: 'a file that is not there', content: config({}, { tokenFile: 'gone' }), why: /ENOENT.*gone/ },
  ])('$name', async ({ content, why }) => {
    await expect(load(content)).rejects.toThrow(why);
  });
});

test('the first of the known places that exists is used, and none is an answer too', () => {
  const [, second = '', third = ''] = KUBELET_KUBECONFIGS;
  expect(findKubeconfig((path) => path === third || path === second)).toBe(second);
  expect(findKubeconfig(() => false)).toBeUndefined();
});

test.for([
  { commonName: 'system:node:node-1.example.com', nodeName: 'node-1.example.com' },
  { commonName: 'kubernetes-admin', nodeName: undefined },
])('a client certificate of $commonName is for the Node $nodeName', async ({ commonName, nodeName }) => {
  const { cert, key } = selfSigned(commonName);
  const user = { 'client-certificate-data': base64(cert), 'client-key-data': base64(key) };
  const access = await load(
    JSON.stringify({
      clusters: [{ name: 'c', cluster: { server: 'https://10.0.0.1:6443' } }],
      users: [{ name: 'u', user }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    }),
  );
  expect(access.nodeName).toBe(nodeName);
});
