// Starts a real Kubernetes control plane for tests: etcd, kube-apiserver and kube-controller-manager as
// plain child processes on loopback, hollow kubelets as nodes. No container engine, no root.
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { writeAuditPolicy } from './audit.ts';
import { buildControlPlane } from './build.ts';
import type { ExtraArgs, NodeLivenessSource } from './command-lines.ts';
import {
  ADMIN,
  drawTokens,
  kubeletAccount,
  writeServiceAccountKeys,
  writeTokenFile,
  type Account,
} from './credentials.ts';
import { ControlPlane, KEEP_LOGS } from './plane.ts';
import { freePort } from './ports.ts';
import { removeAtEnd } from '../../cli/local/processes.ts';

export type { Kubelet } from './kubelet.ts';
export type { ControlPlane, StartKubeletOptions } from './plane.ts';

export interface ControlPlaneOptions {
  /** KCM's own patience with a silent node: long, and only others can have acted. Default 600. */
  readonly nodeMonitorGracePeriodSeconds?: number;
  /** How often KCM looks. Default 5, as in a real cluster. */
  readonly nodeMonitorPeriodSeconds?: number;
  /** Until a node that never reported Ready is marked Unknown. Default 60, as in a real cluster. */
  readonly nodeStartupGracePeriodSeconds?: number;
  /** Default kubelet: no release of kube-controller-manager has the other one, so a stand-in runs beside it. */
  readonly nodeLivenessSource?: NodeLivenessSource;
  /** Whether kube-controller-manager runs. Default true. */
  readonly kcm?: boolean;
  /** Nodes whose kubelets may be started. Default node-1 to node-8. */
  readonly nodeNames?: readonly string[];
  /** Further accounts; `tokenOf(user)` gives their tokens. */
  readonly extraTokens?: readonly Account[];
  /** Users whose requests `auditLog()` returns. Default none: the log costs the API server something. */
  readonly auditUsers?: readonly string[];
  readonly extraArgs?: ExtraArgs;
}

const DEFAULT_NODE_NAMES = Array.from({ length: 8 }, (_, index) => `node-${index + 1}`);

/** Builds what is missing, starts all and returns when pods can be created. */
export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const binaries = await buildControlPlane();
  const folder = await mkdtemp(join(tmpdir(), 'farpulse-cluster-'));
  if (!KEEP_LOGS) removeAtEnd(folder);

  const nodeNames = options.nodeNames ?? DEFAULT_NODE_NAMES;
  const accounts = [ADMIN, ...nodeNames.map(kubeletAccount), ...(options.extraTokens ?? [])];
  const tokens = drawTokens(accounts);
  const tokenFile = join(folder, 'tokens.csv');
  await writeTokenFile(tokenFile, accounts, tokens);
  const auditPolicyFile = join(folder, 'audit-policy.json');
  if (options.auditUsers !== undefined) await writeAuditPolicy(auditPolicyFile, options.auditUsers);

  const plane = new ControlPlane(
    {
      binaries,
      folder,
      etcdPort: await freePort(),
      apiPort: await freePort(),
      controllerManagerPort: await freePort(),
      externalControllerPort: await freePort(),
      tokenFile,
      adminKubeconfig: join(folder, 'admin.kubeconfig'),
      serviceAccountKeys: await writeServiceAccountKeys(folder),
      nodeMonitorGracePeriodSeconds: options.nodeMonitorGracePeriodSeconds ?? 600,
      nodeMonitorPeriodSeconds: options.nodeMonitorPeriodSeconds ?? 5,
      nodeStartupGracePeriodSeconds: options.nodeStartupGracePeriodSeconds ?? 60,
      extraArgs: options.extraArgs ?? {},
      ...(options.auditUsers === undefined ? {} : { auditPolicyFile }),
    },
    tokens,
  );
  try {
    await plane.startAll((options.kcm ?? true) ? (options.nodeLivenessSource ?? 'kubelet') : undefined);
    return plane;
  } catch (error) {
    await plane.stop();
    throw error;
  }
}
