import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** A gateway before a server on loopback, as networks have them: it passes requests, and upgrades only if told so. */
export class PickyGateway {
  passesUpgrades = true;
  readonly #open = new Set<Socket>();
  readonly #server = createServer((socket) => this.#serve(socket));
  readonly #target: number;

  private constructor(target: number) {
    this.#target = target;
  }

  static async start(target: number): Promise<PickyGateway> {
    const gateway = new PickyGateway(target);
    await new Promise<void>((resolve) => gateway.#server.listen(0, '127.0.0.1', resolve));
    onTestFinished(async () => {
      const closed = new Promise((resolve) => gateway.#server.close(resolve));
      gateway.cut();
      await closed;
    });
    return gateway;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Ends every connection. */
  cut(): void {
    for (const socket of this.#open) socket.destroy();
  }

  #serve(socket: Socket): void {
    this.#watch(socket);
    socket.once('data', (head: Buffer) => {
      const [line = ''] = head.toString('latin1').split('\r\n');
      if (line.startsWith('GET /v1/sockets/') && !this.passesUpgrades) {
        socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n');
        return;
      }
      const onward = connect(this.#target, '127.0.0.1');
      this.#watch(onward);
      socket.on('close', () => onward.destroy());
      onward.on('close', () => socket.destroy());
      onward.write(head);
      socket.pipe(onward);
      onward.pipe(socket);
    });
  }

  #watch(socket: Socket): void {
    this.#open.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => this.#open.delete(socket));
  }
}
