import { hostname } from 'node:os';
import { MAX_CHECK_NAME_LENGTH, MAX_CHECKS } from '../protocol/beat.ts';
import { nodeNameFromHostname } from '../protocol/names.ts';
import { KUBELET_KUBECONFIGS } from './kubeconfig.ts';
import { LOG_LEVELS } from './log.ts';

/** The settings as the unit reads them. */
export const ENVIRONMENT_FILE = '/etc/farpulse/beacon.env';

/** Ways to the observers. */
export const TRANSPORTS = ['auto', 'https', 'websocket'] as const;

/** Where the unit has the beacon write its status. */
export const STATUS_FILE = '/run/farpulse-beacon/status.json';

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
    name: 'enrolment-file',
    kind: 'text',
    value: 'FILE',
    expected: 'an absolute path',
    help: [
      'Written by `farpulse-beacon enrol`, which runs as root and reads the kubeconfig. With it the beacon itself',
      'needs no kubeconfig, and asks for an enrolment by writing enrol-wanted in its state folder.',
    ],
  },
  {
    name: 'state-folder',
    kind: 'text',
    value: 'FOLDER',
    expected: 'an absolute path',
    help: ['Where the beacon keeps what it remembers. Default: where the key is.'],
  },
  {
    name: 'status-file',
    kind: 'text',
    value: 'FILE',
    expected: 'an absolute path',
    help: [
      'Where the beacon writes how it fares, for `farpulse-beacon status`. Default: nowhere.',
      `\`status\` reads ${STATUS_FILE} when nothing else is said.`,
    ],
  },
  {
    name: 'metrics-file',
    kind: 'text',
    value: 'FILE',
    expected: 'an absolute path',
    help: ["The same for the textfile collector of Prometheus' node_exporter. Default: nowhere."],
  },
  {
    name: 'check',
    kind: 'list',
    value: 'NAME=WHAT',
    expected: `NAME=http(s)://… or NAME=/program arguments, at most ${MAX_CHECKS} of them`,
    help: [
      'Something else of this node to look at every 30 s, such as gpu=/usr/bin/nvidia-smi or cni=http://127.0.0.1:9099/liveness.',
      'Well is a 2xx answer, or exit status 0, within 10 s. A program gets no shell; the name is lower-case letters,',
      `digits and -, at most ${MAX_CHECK_NAME_LENGTH}. Several: as --endpoint.`,
    ],
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
    name: 'transport',
    kind: 'text',
    value: 'WAY',
    fallback: 'auto',
    expected: `one of ${TRANSPORTS.join(', ')}`,
    help: [
      'auto: beats go over WebSockets that stay open, one to each observer, which makes short intervals cheap; by HTTPS',
      'where they cannot be had, and for every retry. https: by HTTPS only. websocket: as auto, but sockets are tried',
      'with every beat, however often they have failed.',
    ],
  },
  {
    name: 'ca-file',
    kind: 'text',
    value: 'FILE',
    expected: 'an absolute path',
    help: [
      "Certificates (PEM) of authorities to believe for endpoints and proxies, besides the system's.",
      'For networks that end TLS with a CA of their own.',
    ],
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

/** What can be asked of the executable, and what it is for. */
export const COMMANDS = {
  run: 'Send beats for as long as it runs. The default.',
  check: 'Send one beat and explain every step: the first thing to run when something does not work.',
  status: 'Show how the running beacon fares.',
  enrol:
    'Annotate this Node with the key, once, by the kubeconfig. With --enrolment-file, leave there what came of it.',
  key: 'Make the key if there is none, and show it.',
  'rotate-key': 'Replace the key without a missed beat. Running it again goes on where it was interrupted.',
} as const;
export type Command = keyof typeof COMMANDS;

/** These do without an endpoint: they look at this machine, or at its cluster, only. */
export const LOCAL_COMMANDS = ['status', 'enrol', 'key'] as const satisfies readonly Command[];
export type LocalCommand = (typeof LOCAL_COMMANDS)[number];

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
  const commands = Object.entries(COMMANDS).map(([name, what]) => `  ${name}\n      ${what}`);
  return `Usage: farpulse-beacon [command] --endpoint URL --deployment NAME --cluster NAME [settings]

Sends a signed heartbeat of this Kubernetes node to farpulse.

Commands:

${commands.join('\n\n')}

Settings: as a flag, or in the environment under the name in brackets; the flag wins. All commands but run also look
into ${ENVIRONMENT_FILE}, where the unit has them from.

${settings.join('\n\n')}

The usual variables are honoured too:
  HTTPS_PROXY  http://[user:password@]host:port of a proxy, by CONNECT; https:// when it is spoken to in TLS
  NO_PROXY     hosts reached without it: names (and all below them), addresses, CIDR ranges, or *

  -h, --help
      Print this text.

  --version
      Print the version.

  -j, --json
      With status: as JSON.

Exit status: 0 when all is well (run: after SIGTERM or SIGINT), 1 when something is not or cannot be, 2 when a setting
is wrong.
`;
}
