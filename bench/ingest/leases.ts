import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { buildControlPlane } from '../../test/cluster/build.ts';
import { startControlPlane, type ControlPlane } from '../../test/cluster/control-plane.ts';

/** What lease-load prints; see test/cluster/lease-load. */
export interface RenewalResult {
  readonly count: number;
  readonly errors: number;
  readonly skipped: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly behindMaxMs: number;
  readonly firstError?: string;
}

export interface Renewals {
  /** Resolves when the Leases exist and the warm-up is over. */
  readonly measuring: Promise<void>;
  readonly result: Promise<RenewalResult>;
}

/** The built-in heartbeat's server side: etcd and kube-apiserver, one of each, without controllers. */
export class LeaseServers {
  readonly pids: readonly number[];
  readonly #plane: ControlPlane;
  readonly #generator: string;

  private constructor(plane: ControlPlane, generator: string) {
    this.#plane = plane;
    this.#generator = generator;
    this.pids = [plane.pidOf('etcd'), plane.pidOf('kube-apiserver')];
  }

  static async start(): Promise<LeaseServers> {
    const { leaseLoad } = await buildControlPlane();
    return new LeaseServers(await startControlPlane({ kcm: false, nodeNames: [] }), leaseLoad);
  }

  /** Renews `leases` Leases in turn, `perSecond` of them each second, as kubelets do: client-go over protobuf. */
  renew(leases: number, perSecond: number, seconds: number, warmUpSeconds: number): Renewals {
    const child = spawn(
      this.#generator,
      [
        `--kubeconfig=${this.#plane.adminKubeconfig}`,
        `--leases=${leases}`,
        `--per-second=${perSecond}`,
        `--seconds=${seconds}`,
        `--warmup-seconds=${warmUpSeconds}`,
      ],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    const exited = once(child, 'exit');
    const complaints: string[] = [];
    const measuring = Promise.withResolvers<void>();
    createInterface({ input: child.stderr }).on('line', (line) => {
      if (line.includes('"measuring"')) measuring.resolve();
      else complaints.push(line);
    });
    const finish = async (): Promise<RenewalResult> => {
      const [output, [code]] = await Promise.all([text(child.stdout), exited]);
      if (code !== 0)
        throw new Error(`lease-load: exit code ${String(code)}\n${complaints.slice(-10).join('\n')}`);
      // SAFETY: the line that lease-load ends with.
      return JSON.parse(output) as RenewalResult;
    };
    const result = finish();
    result.catch(measuring.reject);
    return { measuring: measuring.promise, result };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#plane.stop();
  }
}
