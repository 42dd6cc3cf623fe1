import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { agentOver, Connector } from '../../node-beacon/transport/connector.ts';
import { Proxy } from '../../node-beacon/transport/proxy.ts';
import { Trust } from '../../node-beacon/transport/trust.ts';
import { type Certificate, selfSigned } from './support/certificate.ts';
import { collectingLog } from './support/collecting-log.ts';
import { temporaryFolder } from './support/folder.ts';
import { type Answer, closedPort, serve } from './support/local-server.ts';

const hello: Answer = (_request, response) => response.end('hello');
const PATIENT_MS = 10_000;
const NAME = 'farpulse.test';
const CERTIFICATE = selfSigned('edge', { hosts: [NAME, '127.0.0.1'] });

/** A connector that trusts these, and for which every name is loopback. */
async function makeConnector(trusted: Certificate[] = [CERTIFICATE], proxy?: string): Promise<Connector> {
  const caFile = join(await temporaryFolder(), 'ca.pem');
  await writeFile(caFile, trusted.map(({ cert }) => cert).join(''));
  return new Connector({
    resolve: () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]),
    trust: new Trust({ caFile, log: collectingLog().log, systemBundles: [] }),
    proxy: proxy === undefined ? undefined : new Proxy(new URL(proxy), []),
    staggerMs: 50,
  });
}

async function open(connector: Connector, url: string, signal = AbortSignal.timeout(PATIENT_MS)) {
  const connected = await connector.connect(new URL(url), signal);
  if (connected.kind === 'connected') onTestFinished(() => void connected.socket.destroy());
  return connected;
}

/** What the server says over a connection that was opened here. */
async function talk(connected: Awaited<ReturnType<typeof open>>, url: string): Promise<string> {
  if (connected.kind === 'failed') return `${connected.failure}: ${connected.why}`;
  const request = https.request(url, { agent: agentOver(connected.socket, new URL(url)) }).end();
  const [response] = (await once(request, 'response')) as [http.IncomingMessage];
  let said = '';
  for await (const chunk of response) said += String(chunk);
  return said;
}

/** A peer that does with each connection whatever the test wants. */
async function listen(onConnection: (socket: Socket) => void): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    onTestFinished(() => void socket.destroy());
    onConnection(socket);
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

describe('a direct connection', () => {
  test('is in TLS, to the name that was meant, and carries requests', async () => {
    const server = await serve(hello, { tls: CERTIFICATE });
    const url = `https://${NAME}:${server.port}/`;
    expect(await talk(await open(await makeConnector(), url), url)).toBe('hello');
  });

  test('to an address is checked against the certificate’s addresses', async () => {
    const server = await serve(hello, { tls: CERTIFICATE });
    expect(await open(await makeConnector(), server.url)).toMatchObject({ kind: 'connected' });
    const named = selfSigned('edge', { hosts: [NAME] });
    const other = await serve(hello, { tls: named });
    expect(await open(await makeConnector([named]), other.url)).toMatchObject({
      failure: 'tls',
      code: 'ERR_TLS_CERT_ALTNAME_INVALID',
    });
  });

  test.for<{ name: string; certificate: Certificate; trusted: boolean; why: RegExp }>([
    {
      name: 'an authority unknown here',
      certificate: CERTIFICATE,
      trusted: false,
      why: /^the certificate is of an authority unknown here: something in between ends TLS, or its CA is not installed \(DEPTH_ZERO_SELF_SIGNED_CERT\)$/,
    },
    {
      name: 'another name',
      certificate: selfSigned('portal', { hosts: ['portal.hotel'] }),
      trusted: true,
      why: /^the certificate is for another name \(ERR_TLS_CERT_ALTNAME_INVALID: .*farpulse\.test.*portal\.hotel/,
    },
    {
      name: 'expired',
      certificate: selfSigned('edge', { hosts: [NAME], to: '210101000000Z' }),
      trusted: true,
      why: /^the certificate has expired, or this node's clock is wrong \(CERT_HAS_EXPIRED\)$/,
    },
    {
      name: 'not yet valid',
      certificate: selfSigned('edge', { hosts: [NAME], from: '490101000000Z' }),
      trusted: true,
      why: /^the certificate is not valid yet, or this node's clock is wrong \(CERT_NOT_YET_VALID\)$/,
    },
  ])('a certificate that does not do: $name', async ({ certificate, trusted, why }) => {
    const server = await serve(hello, { tls: certificate });
    const connected = await open(
      await makeConnector(trusted ? [certificate] : []),
      `https://${NAME}:${server.port}`,
    );
    expect(connected).toMatchObject({ kind: 'failed', failure: 'tls', why: expect.stringMatching(why) });
    expect(server.requests).toHaveLength(0);
  });

  test('an environment variable cannot switch the check off', async () => {
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
    onTestFinished(() => void delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']);
    const server = await serve(hello, { tls: CERTIFICATE });
    expect(await open(await makeConnector([]), `https://${NAME}:${server.port}`)).toMatchObject({
      failure: 'tls',
    });
  });

  test('a CA that is installed later is believed at the try after the next', async () => {
    const server = await serve(hello, { tls: CERTIFICATE });
    const caFile = join(await temporaryFolder(), 'ca.pem');
    const { log, events } = collectingLog();
    const connector = new Connector({
      resolve: () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]),
      trust: new Trust({ caFile, log, systemBundles: [] }),
      proxy: undefined,
      staggerMs: 50,
    });
    const url = `https://${NAME}:${server.port}`;
    expect(await open(connector, url)).toMatchObject({ failure: 'tls' });
    expect(events()).toContain('ca-file-unusable');
    await writeFile(caFile, CERTIFICATE.cert);
    await expect.poll(() => open(connector, url), { timeout: 10_000 }).toMatchObject({ kind: 'connected' });
  });

  test('the authorities of the first of the system’s bundles that is there are believed', async () => {
    const server = await serve(hello, { tls: CERTIFICATE });
    const folder = await temporaryFolder();
    const bundle = join(folder, 'bundle.pem');
    await writeFile(bundle, `# a comment\n${selfSigned('other').cert}${CERTIFICATE.cert}`);
    const { log, entries } = collectingLog();
    const connector = new Connector({
      resolve: () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]),
      trust: new Trust({ caFile: undefined, log, systemBundles: [join(folder, 'none.pem'), bundle] }),
      proxy: undefined,
      staggerMs: 50,
    });
    expect(await open(connector, `https://${NAME}:${server.port}`)).toMatchObject({ kind: 'connected' });
    expect(entries).toEqual([]);
  });

  test('a bundle of the system that is broken is told, and the runtime’s own authorities serve instead', async () => {
    const bundle = join(await temporaryFolder(), 'bundle.pem');
    await writeFile(bundle, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
    const { log, events } = collectingLog();
    const trust = new Trust({ caFile: undefined, log, systemBundles: [bundle] });
    await expect(trust.context()).resolves.toBeDefined();
    expect(events()).toEqual(['ca-file-unusable']);
  });

  test.for<{ name: string; peer: (socket: Socket) => void; why: RegExp }>([
    {
      name: 'speaks something else',
      peer: (socket) => socket.end('220 mail.example ESMTP\r\n'),
      why: /^the other side does not speak TLS: .*\(ERR_SSL/,
    },
    { name: 'hangs up', peer: (socket) => socket.end(), why: /^the connection was cut \(ECONNRESET/ },
  ])('a peer that $name', async ({ peer, why }) => {
    const connected = await open(await makeConnector(), `https://${NAME}:${await listen(peer)}`);
    expect(connected).toMatchObject({ failure: 'tls', why: expect.stringMatching(why) });
  });

  test('a name that is not resolved', async () => {
    const connector = new Connector({
      resolve: () =>
        Promise.reject(
          Object.assign(new Error('getaddrinfo ENOTFOUND farpulse.test'), { code: 'ENOTFOUND' }),
        ),
      trust: new Trust({ caFile: undefined, log: collectingLog().log }),
      proxy: undefined,
      staggerMs: 50,
    });
    const why = 'no such name (getaddrinfo ENOTFOUND farpulse.test)';
    expect(await open(connector, `https://${NAME}`)).toMatchObject({ failure: 'dns', why });
  });

  test('a resolver that hangs is given up at the deadline', async () => {
    const connector = new Connector({
      resolve: () => new Promise(() => {}),
      trust: new Trust({ caFile: undefined, log: collectingLog().log }),
      proxy: undefined,
      staggerMs: 50,
    });
    const connected = await open(connector, `https://${NAME}`, AbortSignal.timeout(50));
    expect(connected).toMatchObject({ failure: 'timeout', why: 'gave up resolving the name' });
  });

  test('after something useless came over it, the next one begins with another address', async () => {
    const { port } = await serve(hello);
    const connector = new Connector({
      resolve: () => Promise.resolve(['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 }))),
      trust: new Trust({ caFile: undefined, log: collectingLog().log }),
      proxy: undefined,
      staggerMs: PATIENT_MS,
    });
    const url = `http://${NAME}:${port}`;
    expect(await open(connector, url)).toMatchObject({ socket: { remoteAddress: '127.0.0.1' } });
    connector.failed(new URL(url));
    // Nobody listens at 127.0.0.2; it is asked first all the same, and then leaves the field.
    expect(await open(connector, url)).toMatchObject({ socket: { remoteAddress: '127.0.0.1' } });
  });
});

describe('through a proxy', () => {
  /** A proxy that leads every CONNECT to loopback, or answers it with a status. */
  async function proxyThat(answer: 'connects' | number, tls?: Certificate) {
    const asked: { target: string; authorization: string | undefined }[] = [];
    const proxy = tls === undefined ? http.createServer() : https.createServer(tls);
    proxy.on('connect', (request: http.IncomingMessage, client: Socket) => {
      const { url = '', headers } = request;
      asked.push({ target: url, authorization: headers['proxy-authorization'] });
      client.on('error', () => {});
      if (answer !== 'connects')
        return void client.end(`HTTP/1.1 ${answer} Said So\r\ncontent-length: 4\r\n\r\nbody`);
      const upstream = connect(Number(url.split(':')[1]), '127.0.0.1', () => {
        client.write('HTTP/1.1 200 Fine\r\n\r\n');
        upstream.pipe(client).pipe(upstream);
      }).on('error', () => client.destroy());
    });
    proxy.listen(0, '127.0.0.1');
    onTestFinished(() => void proxy.close());
    await once(proxy, 'listening');
    return { asked, port: (proxy.address() as AddressInfo).port };
  }

  test('the endpoint’s name and the credentials are handed over, and TLS goes to the endpoint', async () => {
    const server = await serve(hello, { tls: CERTIFICATE });
    const proxy = await proxyThat('connects');
    const url = `https://${NAME}:${server.port}/`;
    const connector = await makeConnector([CERTIFICATE], `http://me:gehe%40im@127.0.0.1:${proxy.port}`);
    expect(await talk(await open(connector, url), url)).toBe('hello');
    expect(proxy.asked).toEqual([
      { target: `${NAME}:${server.port}`, authorization: `Basic ${btoa('me:gehe@im')}` },
    ]);
  });

  test('that is spoken to in TLS, TLS goes through TLS', async () => {
    const server = await serve(hello, { tls: CERTIFICATE });
    const proxy = await proxyThat('connects', CERTIFICATE);
    const url = `https://${NAME}:${server.port}/`;
    const connector = await makeConnector([CERTIFICATE], `https://127.0.0.1:${proxy.port}`);
    expect(await talk(await open(connector, url), url)).toBe('hello');
    expect(proxy.asked).toHaveLength(1);
  });

  test('the usual port is named too', async () => {
    const proxy = await proxyThat(503);
    await open(await makeConnector([], `http://127.0.0.1:${proxy.port}`), `https://${NAME}`);
    expect(proxy.asked).toEqual([{ target: `${NAME}:443`, authorization: undefined }]);
  });

  test('what lies beyond it fails as it would directly', async () => {
    const server = await serve(hello, { tls: selfSigned('portal') });
    const proxy = await proxyThat('connects');
    const connector = await makeConnector([], `http://127.0.0.1:${proxy.port}`);
    expect(await open(connector, `https://${NAME}:${server.port}`)).toMatchObject({
      failure: 'tls',
      code: 'DEPTH_ZERO_SELF_SIGNED_CERT',
    });
  });

  test.for([
    {
      name: 'wants credentials',
      status: 407,
      credentials: '',
      why: /wants credentials: user and password belong into HTTPS_PROXY \(407 Said So\)$/,
    },
    {
      name: 'does not take the credentials',
      status: 407,
      credentials: 'me:geheim@',
      why: /does not accept the credentials of HTTPS_PROXY \(407 Said So\)$/,
    },
    {
      name: 'forbids the endpoint',
      status: 403,
      credentials: '',
      why: /refuses to connect to farpulse\.test:443 \(403 Said So\)$/,
    },
    {
      name: 'finds no way',
      status: 502,
      credentials: '',
      why: /refuses to connect to farpulse\.test:443 \(502 Said So\)$/,
    },
  ])('one that $name', async ({ status, credentials, why }) => {
    const proxy = await proxyThat(status);
    const connector = await makeConnector([], `http://${credentials}127.0.0.1:${proxy.port}`);
    const connected = await open(connector, `https://${NAME}`);
    expect(connected).toMatchObject({ kind: 'failed', failure: 'proxy', why: expect.stringMatching(why) });
    expect(JSON.stringify(connected)).toContain(`the proxy 127.0.0.1:${proxy.port}`);
    expect(JSON.stringify(connected)).not.toMatch(/geheim/);
  });

  test('one that is not there', async () => {
    const port = await closedPort();
    const connected = await open(await makeConnector([], `http://127.0.0.1:${port}`), `https://${NAME}`);
    const why = expect.stringMatching(
      `^the proxy 127.0.0.1:${port}: nobody listens there, or a firewall rejects`,
    );
    expect(connected).toMatchObject({ failure: 'proxy', why });
  });

  test('one that is a web server', async () => {
    const server = await serve(hello);
    const connected = await open(await makeConnector([], server.url), `https://${NAME}`);
    const why = expect.stringMatching(/^the proxy 127\.0\.0\.1:\d+ broke off, or is none/);
    expect(connected).toMatchObject({ failure: 'proxy', why });
  });

  test('one whose certificate does not do', async () => {
    const server = await serve(hello, { tls: CERTIFICATE });
    const url = `https://${NAME}:${server.port}`;
    const connected = await open(await makeConnector([], `https://127.0.0.1:${server.port}`), url);
    const why = expect.stringMatching(
      /^the proxy 127\.0\.0\.1:\d+: the certificate is of an authority unknown here/,
    );
    expect(connected).toMatchObject({ failure: 'proxy', why });
  });

  test('one that says nothing is given up at the deadline, with its connection', async () => {
    const deadline = new AbortController();
    let closed: Promise<unknown> | undefined;
    const port = await listen((socket) => {
      closed = once(socket, 'close');
      socket.on('data', () => deadline.abort()); // the CONNECT has come
    });
    const connector = await makeConnector([], `http://127.0.0.1:${port}`);
    const connected = await open(connector, `https://${NAME}`, deadline.signal);
    expect(connected).toMatchObject({ failure: 'timeout', why: 'gave up asking the proxy' });
    await closed;
  });
});
