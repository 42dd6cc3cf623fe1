import { hostname } from 'node:os';
import { nodeNameFromHostname } from '../protocol/names.ts';
import { KUBELET_KUBECONFIGS } from './kubeconfig.ts';
import { LOG_LEVELS } from './log.ts';

/** One thing that can be set. The help and the messages about wrong values are made of this table. */
export interface SettingRow {
  readonly name: string;
  readonly kind: 'text' | 'list' | 'switch';
  /** What a value is called in the help. */
  readonly value?: string;
  readonly fallback?: string;
  /** Completes "expected …". */
  readonly expected: string;
  readonly help: readonly string[];
}

export const SETTINGS = [
  {
    name: 'endpoint',
    kind: 'list',
    value: 'URL',
    expected: 'an https:// URL without query or password (http:// on loopback only)',
    help: [
      'Where farpulse is deployed, such as https://farpulse.example.com.',
      'Give it several times, or comma separated in the environment: tries alternate.',
    ],
  },
  {
    name: 'deployment',
    kind: 'text',
    value: 'NAME',
    expected: 'the name of a deployment (lower-case letters, digits and -, at most 63)',
    help: ['The name of the farpulse deployment.'],
  },
  {
    name: 'cluster',
    kind: 'text',
    value: 'NAME',
    expected: 'the name of a cluster (lower-case letters, digits and -, at most 63)',
    help: ['The name of this cluster, as configured in that deployment.'],
  },
  {
    name: 'node',
    kind: 'text',
    value: 'NAME',
    fallback: nodeNameFromHostname(hostname()),
    expected: 'the name of a Node (an RFC 1123 subdomain)',
    help: ['The name of this Node. Set it when the kubelet has --hostname-override.'],
  },
  {
    name: 'kubeconfig',
    kind: 'text',
    value: 'FILE',
    expected: 'an absolute path',
    help: [
      "The kubelet's kubeconfig, to read and annotate this Node.",
      'Default: the first that exists of',
      ...KUBELET_KUBECONFIGS.map((path) => `  ${path}`),
    ],
  },
  {
    name: 'node-uid',
    kind: 'text',
    value: 'UID',
    expected: 'the metadata.uid of a Node',
    help: [
      'The uid of this Node. Needed where there is no kubeconfig; with one, the API server has the last word.',
    ],
  },
  {
    name: 'key-file',
    kind: 'text',
    value: 'FILE',
    fallback: '/var/lib/farpulse/beacon.key',
    expected: 'an absolute path',
    help: ['The private key, made at the first start. What the beacon remembers is kept beside it.'],
  },
  {
    name: 'interval-seconds',
    kind: 'text',
    value: 'SECONDS',
    fallback: '10',
    expected: 'a number from 1 to 300',
    help: ["Time between two beats. Must be the cluster's configured one."],
  },
  {
    name: 'kubelet-healthz',
    kind: 'text',
    value: 'URL',
    fallback: 'http://127.0.0.1:10248/healthz',
    expected: 'an http:// URL',
    help: ["The kubelet's health endpoint (healthzBindAddress and healthzPort in its configuration)."],
  },
  {
    name: 'api-url',
    kind: 'text',
    value: 'URL',
    expected: 'an https:// URL without query or password (http:// on loopback only)',
    help: ["The API server's address, instead of the kubeconfig's."],
  },
  {
    name: 'no-api-check',
    kind: 'switch',
    expected: 'true or false',
    help: ['Do not check whether this node reaches the API server.'],
  },
  {
    name: 'log-level',
    kind: 'text',
    value: 'LEVEL',
    fallback: 'info',
    expected: `one of ${LOG_LEVELS.join(', ')}`,
    help: ['debug writes a line for each beat, info for what changes.'],
  },
] as const satisfies readonly SettingRow[];

export type SettingName = (typeof SETTINGS)[number]['name'];

/** What can be asked of the executable. */
export const COMMANDS = ['run'] as const;
export type Command = (typeof COMMANDS)[number];

/** `key-file` is FARPULSE_KEY_FILE in the environment. */
export function envNameOf(name: string): string {
  return `FARPULSE_${name.replaceAll('-', '_').toUpperCase()}`;
}

/** The text of --help. */
export function helpText(): string {
  const rows: readonly SettingRow[] = SETTINGS;
  const settings = rows.map(({ name, kind, value, fallback, help }) => {
    const usage = kind === 'switch' ? `--${name}` : `--${name} ${value ?? 'VALUE'}`;
    const lines = [...help, ...(fallback === undefined ? [] : [`Default: ${fallback}`])];
    return [`  ${usage}  (${envNameOf(name)})`, ...lines.map((line) => `      ${line}`)].join('\n');
  });
  return `Usage: farpulse-beacon [run] --endpoint URL --deployment NAME --cluster NAME [settings]

Sends a signed heartbeat of this Kubernetes node to farpulse, for as long as it runs.

Settings: as a flag, or in the environment under the name in brackets; the flag wins.

${settings.join('\n\n')}

  -h, --help
      Print this text.

  --version
      Print the version.

Exit status: 0 after SIGTERM or SIGINT, 1 when something needed is broken, 2 when a setting is wrong.
`;
}
