/*
 * The far end: a real HTTPS server that acknowledges beats, with a proxy and a name server beside it. Runs as a
 * process of its own inside a namespace. Its folder comes as the argument, orders come as lines of JSON, and every
 * beat that it acknowledged is a line of its output.
 */
import { createSocket } from 'node:dgram';
import { readFileSync } from 'node:fs';
import { createServer as createProxy } from 'node:http';
import { createServer } from 'node:https';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { digestOf, peekBeat } from '../../../protocol/jws.ts';
import { EDGE_V4 } from './namespaces.ts';
import { CREDENTIALS, type Orders, PROXY_PORT } from './orders.ts';

let orders: Required<Orders> = { answers: 'acks', certificate: 'edge', proxy: 'open', closes: false };
const folder = process.argv[2] ?? '';
const connections = new Set<Socket>();

function certificate(name: string): { cert: string; key: string } {
  return {
    cert: readFileSync(join(folder, `${name}.crt`), 'utf8'),
    key: readFileSync(join(folder, `${name}.key`), 'utf8'),
  };
}

function remember(socket: Socket): void {
  connections.add(socket);
  socket.on('error', () => {});
  socket.on('close', () => connections.delete(socket));
}

const server = createServer(certificate('edge'), (request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    if (orders.answers === 'a portal page') {
      response
        .writeHead(200, { 'content-type': 'text/html', server: 'portal' })
        .end('<h1>Welcome, please log in</h1>');
      return;
    }
    const jws = Buffer.concat(chunks).toString('utf8');
    const peeked = peekBeat(jws);
    if (!peeked.ok) return void response.writeHead(400).end();
    const { seq } = peeked.beat;
    void digestOf(jws).then((digest) => {
      const ack = { v: 1, digest, recordedBy: ['weur', 'enam'], missing: [], quorum: 2 };
      const headers = {
        'content-type': 'application/json',
        ...(orders.closes ? { connection: 'close' } : {}),
      };
      response.writeHead(200, headers).end(JSON.stringify(ack));
      process.stdout.write(`${JSON.stringify({ seq })}\n`);
    });
  });
});
server.on('connection', remember);
server.on('tlsClientError', () => {});

const proxy = createProxy();
proxy.on('connection', remember);
proxy.on('connect', (request, client: Socket) => {
  if (orders.proxy === 'silent') return;
  const wanted = `Basic ${Buffer.from(decodeURIComponent(CREDENTIALS)).toString('base64')}`;
  if (orders.proxy === '407' || request.headers['proxy-authorization'] !== wanted) {
    client.end('HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic realm="net"\r\n\r\n');
    return;
  }
  const upstream = connect(443, EDGE_V4, () => {
    client.write('HTTP/1.1 200 Connection established\r\n\r\n');
    upstream.pipe(client).pipe(upstream);
  });
  remember(upstream);
});

/** Answers every question for an A record with this edge, and says that nothing else exists (RFC 1035, 4.1). */
const names = createSocket('udp4', (query, { port, address }) => {
  const end = query.indexOf(0, 12) + 5;
  const isA = query.readUInt16BE(end - 4) === 1;
  const head = Buffer.from(query.subarray(0, 12));
  head.writeUInt16BE(0x8180, 2);
  head.writeUInt16BE(isA ? 1 : 0, 6);
  head.writeUInt16BE(0, 10); // no additional records, whatever the question had
  const record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, ...EDGE_V4.split('.').map(Number)];
  names.send(Buffer.concat([head, query.subarray(12, end), Buffer.from(isA ? record : [])]), port, address);
});

server.listen(443, '::', () =>
  proxy.listen(PROXY_PORT, () => names.bind(53, EDGE_V4, () => process.stdout.write('"ready"\n'))),
);

createInterface(process.stdin)
  .on('line', (line) => {
    orders = { ...orders, ...(JSON.parse(line) as Orders) };
    server.setSecureContext(certificate(orders.certificate));
    for (const connection of connections) connection.destroy(); // all that is new begins with a new connection
    process.stdout.write('"done"\n');
  })
  .on('close', () => process.exit(0));
