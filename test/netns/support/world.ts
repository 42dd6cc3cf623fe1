import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { vi } from 'vitest';
import { selfSigned } from '../../beacon/support/certificate.ts';
import type { Orders } from './orders.ts';
import { EDGE_V4, EDGE_V6, makePair, OTHER_EDGE_V4, type Pair, removePair } from './namespaces.ts';

export const INTERVAL_MS = 3_000;
/** Longer than any situation needs even on a busy machine. */
const PATIENCE_MS = 90_000;
const MAIN = fileURLToPath(new URL('../../../node-beacon/main.ts', import.meta.url));
const EDGE = fileURLToPath(new URL('edge.ts', import.meta.url));

export interface Setting {
  /** Lines of /etc/hosts on the node. None: the node asks the edge's name server. */
  readonly hosts?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Further ones for the beacon; the folder is the world's own. */
  readonly flags?: (folder: string) => readonly string[];
  /** Done before the beacon starts. */
  readonly before?: (world: World) => Promise<void>;
}

/** One line of the beacon's log. */
interface Said {
  readonly event: string;
  readonly line: string;
}

/** A node with its beacon, an edge, and the network between them. Disposing of it leaves nothing. */
export class World implements AsyncDisposable {
  readonly pair: Pair;
  readonly folder: string;
  readonly said: Said[] = [];
  /** Sequences of the beats that the edge acknowledged; a sequence is the uptime at which its beat was made. */
  readonly acked: number[] = [];
  readonly #ended: Promise<unknown>[] = [];
  #edge: ChildProcess | undefined;
  #done = 0;

  private constructor(pair: Pair, folder: string) {
    this.pair = pair;
    this.folder = folder;
  }

  static async open({ hosts, env = {}, flags = () => [], before }: Setting): Promise<World> {
    const lines = hosts?.map((address) => `${address} farpulse.test\n`).join('') ?? '';
    const pair = await makePair(lines, `nameserver ${EDGE_V4}\n`);
    const world = new World(pair, await mkdtemp(join(tmpdir(), 'farpulse-netns-')));
    try {
      await world.#writeCertificates();
      await world.#startEdge();
      await before?.(world);
      world.#startBeacon(env, flags(world.folder));
      return world;
    } catch (error) {
      await world[Symbol.asyncDispose]();
      throw error;
    }
  }

  async order(orders: Orders): Promise<void> {
    const wanted = this.#done + 1;
    this.#edge?.stdin?.write(`${JSON.stringify(orders)}\n`);
    await until(() => this.#done >= wanted, 'the edge took its orders');
  }

  /** What the beacon made of each of its beats so far. */
  get outcomes(): string[] {
    return this.said.flatMap(({ event, line }) =>
      event === 'beat' ? [/outcome=(\S+)/.exec(line)?.[1] ?? ''] : [],
    );
  }

  async beatsMore(outcome: 'delivered' | 'lost', beats: number): Promise<void> {
    const count = (): number =>
      this.outcomes.filter((each) => (each === 'delivered') === (outcome === 'delivered')).length;
    const wanted = count() + beats;
    await until(
      () => count() >= wanted,
      `${beats} more beats ${outcome}`,
      () => this.#story(),
    );
  }

  async says(what: RegExp): Promise<void> {
    await until(
      () => this.said.some(({ line }) => what.test(line)),
      `the beacon said ${what}`,
      () => this.#story(),
    );
  }

  /** The next acknowledged beat: how long after `sinceUptimeMs` it was made. */
  async nextAckAfter(sinceUptimeMs: number): Promise<number> {
    const known = this.acked.length;
    await until(
      () => this.acked.length > known,
      'a beat was acknowledged',
      () => this.#story(),
    );
    return (this.acked[known] ?? Infinity) - sinceUptimeMs;
  }

  /** Starts a helper on the node; it ends with the world. */
  spawnOnNode(command: string, ...args: string[]): ChildProcess {
    return this.#spawn(this.pair.node, {}, command, ...args);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await removePair(this.pair); // with all processes inside
    await Promise.all(this.#ended);
    await rm(this.folder, { recursive: true, force: true });
  }

  async #writeCertificates(): Promise<void> {
    for (const [name, certificate] of [
      ['edge', selfSigned('edge', { hosts: ['farpulse.test', EDGE_V4, OTHER_EDGE_V4] })],
      ['portal', selfSigned('portal', { hosts: ['farpulse.test'] })],
    ] as const) {
      await writeFile(join(this.folder, `${name}.crt`), certificate.cert);
      await writeFile(join(this.folder, `${name}.key`), certificate.key);
    }
  }

  async #startEdge(): Promise<void> {
    this.#edge = this.#spawn(this.pair.edge, {}, process.execPath, EDGE, this.folder);
    let isReady = false;
    createInterface(this.#edge.stdout ?? process.stdin).on('line', (line) => {
      const message = JSON.parse(line) as 'ready' | 'done' | { seq: number };
      if (message === 'ready') isReady = true;
      else if (message === 'done') this.#done += 1;
      else this.acked.push(message.seq);
    });
    await until(() => isReady, 'the edge listens');
  }

  #startBeacon(env: Readonly<Record<string, string>>, flags: readonly string[]): void {
    const executable = process.env['FARPULSE_BEACON'];
    const command = executable === undefined ? [process.execPath, MAIN] : [executable];
    const settings = {
      endpoint: 'https://farpulse.test',
      deployment: 'test',
      cluster: 'berlin',
      node: 'node-1',
      'node-uid': 'uid-1',
      'key-file': join(this.folder, 'beacon.key'),
      'interval-seconds': String(INTERVAL_MS / 1_000),
      'ca-file': join(this.folder, 'edge.crt'),
      'log-level': 'debug',
    };
    const all = [...Object.entries(settings).map(([name, value]) => `--${name}=${value}`), ...flags];
    const beacon = this.#spawn(this.pair.node, env, ...command, 'run', ...all);
    createInterface(beacon.stderr ?? process.stdin).on('line', (line) => {
      this.said.push({ event: /event=(\S+)/.exec(line)?.[1] ?? '', line });
    });
  }

  #spawn(namespace: string, env: Readonly<Record<string, string>>, ...command: string[]): ChildProcess {
    // If this process is killed, so are they.
    const bound = ['setpriv', '--pdeathsig', 'KILL', ...command];
    const child = spawn('ip', ['netns', 'exec', namespace, ...bound], {
      env: { PATH: process.env['PATH'], ...env },
      stdio: 'pipe',
    });
    this.#ended.push(once(child, 'close'));
    return child;
  }

  #story(): string {
    return `the beacon's last words:\n${this.said
      .slice(-25)
      .map(({ line }) => line)
      .join('\n')}`;
  }
}

export { EDGE_V4, EDGE_V6, OTHER_EDGE_V4 };

/** The clock that sequences are taken from. */
export function uptimeMs(): number {
  return Number.parseFloat(readFileSync('/proc/uptime', 'utf8')) * 1_000;
}

async function until(holds: () => boolean, what: string, story = (): string => ''): Promise<void> {
  await vi.waitFor(
    () => {
      if (!holds()) throw new Error(`waited in vain until ${what}\n${story()}`);
    },
    { timeout: PATIENCE_MS, interval: 50 },
  );
}
