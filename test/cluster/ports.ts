// Free loopback ports that stay free.
//
// Port 0 would hand out a port of the ephemeral range, which any outgoing connection may take while
// a killed process is down. A test that starts it again needs the same port, so ports come from
// below that range (32768 on Linux, 49152 elsewhere).
import { createServer } from 'node:net';

const FIRST_PORT = 20_000;
const LAST_PORT = 32_000;

/** Ports handed out by this process: never twice, the first owner may be down just now. */
const handedOut = new Set<number>();

/** A port that nothing listens on, on any address: hollow kubelets bind them all. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 200; tries++) {
    const port = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT));
    if (handedOut.has(port)) continue;
    handedOut.add(port);
    if (await canListen(port)) return port;
  }
  throw new Error(`no free port found between ${FIRST_PORT} and ${LAST_PORT}`);
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '0.0.0.0', exclusive: true }, () => server.close(() => resolve(true)));
  });
}
