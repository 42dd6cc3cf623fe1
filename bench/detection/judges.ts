// farpulse for the bench: one Worker with a cluster for each preset, each of which judges the nodes with its label.
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { BeaconProcess } from '../../cli/local/beacon-process.ts';
import { startLocalWorker } from '../../cli/local/local-worker.ts';
import { removeAtEnd, removeNow } from '../../cli/local/processes.ts';
import { StatusClient } from '../../cli/local/status-client.ts';
import type { ControlPlane, Kubelet } from '../../test/cluster/control-plane.ts';
import { startDetectorForwarder } from '../../test/cluster/farpulse.ts';
import { applyOverlay } from '../../test/cluster/least-privilege.ts';

const DEPLOYMENT = 'bench';

/** The label that says by whom a node is judged. */
export const GROUP_LABEL = 'bench/group';

const INTERVAL_SECONDS = { steady: 10, fast: 3 } as const;
export type Preset = keyof typeof INTERVAL_SECONDS;
export const PRESETS = ['steady', 'fast'] as const satisfies readonly Preset[];

/** Beats come back within an interval, and the arbiter is told at once. */
const BACK_MS = 120_000;

/** By preset, which is also the cluster's name. */
export async function startJudges(
  stack: AsyncDisposableStack,
  plane: ControlPlane,
  mode: 'compat' | 'external',
): Promise<ReadonlyMap<string, Judge>> {
  const folder = await mkdtemp(join(tmpdir(), 'farpulse-bench-'));
  removeAtEnd(folder);
  stack.defer(() => removeNow(folder));
  await applyOverlay(plane, mode);
  const forwarder = await startDetectorForwarder(plane);
  stack.defer(() => forwarder.stop());
  const clusters = PRESETS.map((preset) => {
    const nodeSelector = `${GROUP_LABEL}=${preset}`;
    // Two judges of one control plane, on purpose: neither keeps the Lease that says who judges it.
    const shared = { mode, nodeSelector, readers: 'open', lease: '' } as const;
    return [preset, { apiUrl: forwarder.url, preset, ...shared }] as const;
  });
  const secrets = PRESETS.map((preset) => [`KUBE_TOKEN_${preset.toUpperCase()}`, forwarder.token] as const);
  const worker = await startLocalWorker({
    storageFolder: join(folder, 'storage'),
    vars: {
      DEPLOYMENT_ID: DEPLOYMENT,
      CLUSTERS: Object.fromEntries(clusters),
      ...Object.fromEntries(secrets),
    },
    direct: true,
  });
  stack.defer(() => worker.stop());
  return new Map(
    PRESETS.map((preset) => {
      const judge = new Judge({ plane, preset, folder, endpoint: worker.url });
      stack.defer(() => judge.stop());
      return [preset, judge];
    }),
  );
}

interface JudgeParts {
  readonly plane: ControlPlane;
  readonly preset: Preset;
  readonly folder: string;
  readonly endpoint: string;
}

/** One cluster of the Worker, with a real beacon process on each of its nodes. */
export class Judge {
  readonly #parts: JudgeParts;
  readonly #status: StatusClient;
  readonly #beacons = new Map<string, BeaconProcess>();

  constructor(parts: JudgeParts) {
    this.#parts = parts;
    this.#status = new StatusClient(parts.endpoint, parts.preset);
  }

  async startBeacon(kubelet: Kubelet): Promise<void> {
    const { preset, folder, endpoint } = this.#parts;
    let beacon = this.#beacons.get(kubelet.name);
    if (beacon === undefined) {
      beacon = new BeaconProcess({
        endpoint,
        deployment: DEPLOYMENT,
        cluster: preset,
        node: kubelet.name,
        kubeconfig: kubelet.kubeconfig,
        kubeletHealthz: kubelet.healthzUrl,
        intervalSeconds: INTERVAL_SECONDS[preset],
        folder,
      });
      this.#beacons.set(kubelet.name, beacon);
    }
    await beacon.start();
  }

  async killBeacon(node: string): Promise<void> {
    await this.#beacons.get(node)?.kill();
  }

  /** Until every node of the group is heard and verdicts can be reached. */
  async untilAllAlive(): Promise<void> {
    await this.#parts.plane.waitFor(
      `every node of ${this.#parts.preset} to be alive to farpulse`,
      async (note) => {
        const { state, why, nodesByPhase, alerts } = await this.#status.cluster();
        note({ state, why, nodesByPhase, alerts });
        return state === 'judging' && nodesByPhase.alive === this.#beacons.size;
      },
      { timeoutMs: BACK_MS, intervalMs: 250 },
    );
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#beacons.values()].map((beacon) => beacon.kill()));
  }
}
