// A TCP link on loopback that can be cut: what a firewall, a DNS fault or a dead uplink does to all
// beacons at once. It stays at one address while the Worker behind it comes and goes.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

export class BreakableLink {
  readonly url: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #targetPort: number | undefined;

  private constructor(server: Server) {
    this.#server = server;
    // SAFETY: it listens on a port, so this is no pipe's name.
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('connection', (socket) => this.#join(socket));
  }

  static async start(): Promise<BreakableLink> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new BreakableLink(server);
  }

  /** Connects the link to a port on loopback. */
  mend(targetPort: number): void {
    this.#targetPort = targetPort;
  }

  /** Drops every connection; new ones are dropped at once. */
  cut(): void {
    this.#targetPort = undefined;
    for (const socket of this.#sockets) socket.destroy();
  }

  async stop(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #join(near: Socket): void {
    if (this.#targetPort === undefined) {
      near.destroy();
      return;
    }
    const far = connect(this.#targetPort, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
  }
}
