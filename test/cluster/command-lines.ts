// The command lines of etcd, kube-apiserver and kube-controller-manager: loopback only, no cloud,
// no leader election, the controllers that tests of node liveness need.
import { join } from 'node:path';

import type { Binaries } from './build.ts';

/** Who decides that a node is dead: the controller itself, or somebody who writes Ready=Unknown (KEP-6371). */
export type NodeLivenessSource = 'kubelet' | 'external';

export interface ControlPlaneSettings {
  readonly binaries: Binaries;
  readonly folder: string;
  readonly etcdPort: number;
  readonly apiPort: number;
  readonly controllerManagerPort: number;
  readonly externalControllerPort: number;
  readonly tokenFile: string;
  readonly adminKubeconfig: string;
  readonly serviceAccountKeys: { readonly publicKeyFile: string; readonly privateKeyFile: string };
  readonly nodeMonitorGracePeriodSeconds: number;
  readonly nodeMonitorPeriodSeconds: number;
  readonly nodeStartupGracePeriodSeconds: number;
  readonly auditPolicyFile?: string;
  readonly extraArgs: ExtraArgs;
}

/** Appended to the command lines; a flag given twice takes its last value. */
export interface ExtraArgs {
  readonly etcd?: readonly string[];
  readonly kubeApiserver?: readonly string[];
  readonly kubeControllerManager?: readonly string[];
}

export interface CommandLine {
  readonly command: string;
  readonly args: readonly string[];
}

/** These two run in the stand-in instead when liveness has an external source. */
const NODE_CONTROLLERS = ['node-lifecycle-controller', 'taint-eviction-controller'];

const OTHER_CONTROLLERS = [
  'endpointslice-controller',
  'namespace-controller',
  'serviceaccount-controller',
  'serviceaccount-token-controller',
  'root-ca-certificate-publisher-controller',
];

export function etcdCommand(settings: ControlPlaneSettings): CommandLine {
  const client = `http://127.0.0.1:${settings.etcdPort}`;
  return {
    command: settings.binaries.etcd,
    args: [
      `--data-dir=${etcdDataFolder(settings.folder)}`,
      `--listen-client-urls=${client}`,
      `--advertise-client-urls=${client}`,
      '--listen-peer-urls=http://127.0.0.1:0',
      ...(settings.extraArgs.etcd ?? []),
    ],
  };
}

export function kubeApiserverCommand(settings: ControlPlaneSettings): CommandLine {
  const { publicKeyFile, privateKeyFile } = settings.serviceAccountKeys;
  return {
    command: settings.binaries.kubeApiserver,
    args: [
      `--etcd-servers=http://127.0.0.1:${settings.etcdPort}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${settings.apiPort}`,
      '--advertise-address=127.0.0.1',
      '--endpoint-reconciler-type=none',
      // Makes a serving certificate there at the first start and uses it again afterwards.
      `--cert-dir=${join(settings.folder, 'apiserver')}`,
      '--service-cluster-ip-range=10.0.0.0/24',
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${publicKeyFile}`,
      `--service-account-signing-key-file=${privateKeyFile}`,
      `--token-auth-file=${settings.tokenFile}`,
      '--authorization-mode=Node,RBAC',
      '--enable-admission-plugins=NodeRestriction',
      '--allow-privileged',
      ...(settings.auditPolicyFile === undefined
        ? []
        : [
            `--audit-policy-file=${settings.auditPolicyFile}`,
            `--audit-log-path=${auditLogFile(settings.folder)}`,
          ]),
      ...(settings.extraArgs.kubeApiserver ?? []),
    ],
  };
}

export function kubeControllerManagerCommand(
  settings: ControlPlaneSettings,
  source: NodeLivenessSource,
): CommandLine {
  const controllers = source === 'kubelet' ? [...NODE_CONTROLLERS, ...OTHER_CONTROLLERS] : OTHER_CONTROLLERS;
  return {
    command: settings.binaries.kubeControllerManager,
    args: [
      `--kubeconfig=${settings.adminKubeconfig}`,
      `--service-account-private-key-file=${settings.serviceAccountKeys.privateKeyFile}`,
      `--root-ca-file=${servingCertificateFile(settings.folder)}`,
      '--leader-elect=false',
      `--controllers=${controllers.join(',')}`,
      `--node-monitor-grace-period=${settings.nodeMonitorGracePeriodSeconds}s`,
      `--node-startup-grace-period=${settings.nodeStartupGracePeriodSeconds}s`,
      `--node-monitor-period=${settings.nodeMonitorPeriodSeconds}s`,
      '--bind-address=127.0.0.1',
      `--secure-port=${settings.controllerManagerPort}`,
      `--cert-dir=${join(settings.folder, 'controller-manager')}`,
      '--authentication-skip-lookup',
      '--authorization-always-allow-paths=/healthz,/metrics',
      ...(settings.extraArgs.kubeControllerManager ?? []),
    ],
  };
}

/** The node controllers with an external source of liveness. */
export function externalControllerCommand(settings: ControlPlaneSettings): CommandLine {
  return {
    command: settings.binaries.externalController,
    args: [
      `--kubeconfig=${settings.adminKubeconfig}`,
      `--node-monitor-period=${settings.nodeMonitorPeriodSeconds}s`,
      `--node-startup-grace-period=${settings.nodeStartupGracePeriodSeconds}s`,
      `--address=127.0.0.1:${settings.externalControllerPort}`,
    ],
  };
}

export function etcdDataFolder(folder: string): string {
  return join(folder, 'etcd');
}

/** The API server's self-signed certificate, with the CA that signed it. */
export function servingCertificateFile(folder: string): string {
  return join(folder, 'apiserver', 'apiserver.crt');
}

export function controllerManagerCertificateFile(folder: string): string {
  return join(folder, 'controller-manager', 'kube-controller-manager.crt');
}

export function auditLogFile(folder: string): string {
  return join(folder, 'audit.log');
}
