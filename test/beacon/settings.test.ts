import { describe, expect, test } from 'vitest';
import { parseSettings, type Settings } from '../../node-beacon/settings.ts';
import { helpText } from '../../node-beacon/setting-table.ts';

const REQUIRED = [
  '--endpoint',
  'https://a.example',
  '--deployment',
  'prod',
  '--cluster',
  'berlin',
  '--node',
  'node-1',
];

function settingsOf(args: readonly string[], env: Record<string, string> = {}): Settings {
  const parsed = parseSettings(args, env);
  if (parsed.kind !== 'command') throw new Error(JSON.stringify(parsed));
  return parsed.settings;
}

describe('settings', () => {
  test('the required ones are enough', () => {
    expect(settingsOf(REQUIRED)).toEqual({
      endpoints: ['https://a.example'],
      deployment: 'prod',
      cluster: 'berlin',
      node: 'node-1',
      kubeconfig: undefined,
      nodeUid: undefined,
      keyFile: '/var/lib/farpulse/beacon.key',
      enrolmentFile: undefined,
      memoryFile: '/var/lib/farpulse/memory.json',
      enrolWantedFile: '/var/lib/farpulse/enrol-wanted',
      statusFile: undefined,
      transport: 'auto',
      metricsFile: undefined,
      checks: [],
      intervalMs: 10_000,
      caFile: undefined,
      proxy: undefined,
      kubeletHealthz: new URL('http://127.0.0.1:10248/healthz'),
      apiUrl: undefined,
      checkApi: true,
      logLevel: 'info',
    });
  });

  test('all of them can come from the environment', () => {
    const env = {
      FARPULSE_ENDPOINT: 'https://a.example/, http://127.0.0.1:8787 ,',
      FARPULSE_DEPLOYMENT: 'prod',
      FARPULSE_CLUSTER: 'berlin',
      FARPULSE_NODE: 'node-1.example.com',
      FARPULSE_KUBECONFIG: '/etc/kubelet.conf',
      FARPULSE_NODE_UID: '3a2d9d2e-5a3a-4f0e-9d7e-0f6b2f1c9a11',
      FARPULSE_KEY_FILE: '/keys/own.key',
      FARPULSE_ENROLMENT_FILE: '/keys/enrolment.json',
      FARPULSE_STATE_FOLDER: '/state',
      FARPULSE_STATUS_FILE: '/run/status.json',
      FARPULSE_TRANSPORT: 'https',
      FARPULSE_METRICS_FILE: '/run/beacon.prom',
      FARPULSE_CHECK: 'gpu=/usr/bin/nvidia-smi -L, cni=http://127.0.0.1:9099/liveness',
      FARPULSE_INTERVAL_SECONDS: '2.5',
      FARPULSE_CA_FILE: '/etc/ssl/ours.pem',
      FARPULSE_KUBELET_HEALTHZ: 'http://[::1]:1234/healthz',
      FARPULSE_API_URL: 'https://api.example:6443',
      FARPULSE_NO_API_CHECK: 'true',
      FARPULSE_LOG_LEVEL: 'debug',
    };
    expect(settingsOf([], env)).toEqual({
      endpoints: ['https://a.example', 'http://127.0.0.1:8787'],
      deployment: 'prod',
      cluster: 'berlin',
      node: 'node-1.example.com',
      kubeconfig: '/etc/kubelet.conf',
      nodeUid: '3a2d9d2e-5a3a-4f0e-9d7e-0f6b2f1c9a11',
      keyFile: '/keys/own.key',
      enrolmentFile: '/keys/enrolment.json',
      memoryFile: '/state/memory.json',
      enrolWantedFile: '/state/enrol-wanted',
      statusFile: '/run/status.json',
      transport: 'https',
      metricsFile: '/run/beacon.prom',
      checks: [
        { name: 'gpu', program: '/usr/bin/nvidia-smi', args: ['-L'] },
        { name: 'cni', url: new URL('http://127.0.0.1:9099/liveness') },
      ],
      intervalMs: 2_500,
      caFile: '/etc/ssl/ours.pem',
      proxy: undefined,
      kubeletHealthz: new URL('http://[::1]:1234/healthz'),
      apiUrl: 'https://api.example:6443',
      checkApi: false,
      logLevel: 'debug',
    });
  });

  test.for(['status', 'enrol', 'key'] as const)('%s needs no endpoint', (command) => {
    expect(parseSettings([command, '--node', 'node-1'], {})).toMatchObject({
      kind: 'local-command',
      command,
    });
  });

  test.for(['check', 'rotate-key'] as const)('%s needs all that a beat needs', (command) => {
    expect(parseSettings([command, '--node', 'node-1'], {})).toMatchObject({ kind: 'wrong' });
    expect(parseSettings([command, ...REQUIRED], {})).toMatchObject({ kind: 'command', command });
  });

  test('the proxy comes from the usual variables', () => {
    const env = { HTTPS_PROXY: 'http://me:geheim@proxy.example:3128', NO_PROXY: '.cluster.local' };
    expect(settingsOf(REQUIRED, env).proxy?.name).toBe('proxy.example:3128');
  });

  test('a wrong proxy is told without its password', () => {
    const parsed = parseSettings(REQUIRED, { HTTPS_PROXY: 'socks5://me:geheim@proxy.example' });
    expect(parsed).toMatchObject({
      kind: 'wrong',
      problems: [expect.stringMatching(/^HTTPS_PROXY: expected/)],
    });
    expect(JSON.stringify(parsed)).not.toContain('geheim');
  });

  test('a flag wins over the environment, an empty variable counts as absent', () => {
    const env = {
      FARPULSE_CLUSTER: 'other',
      FARPULSE_INTERVAL_SECONDS: ' ',
      FARPULSE_ENDPOINT: 'https://b.example',
    };
    expect(settingsOf(REQUIRED, env)).toMatchObject({
      cluster: 'berlin',
      intervalMs: 10_000,
      endpoints: ['https://a.example'],
    });
  });

  test('endpoints keep their order and lose repetitions and trailing slashes', () => {
    const more = ['--endpoint', 'https://b.example/path/', '--endpoint', 'https://a.example/'];
    expect(settingsOf([...REQUIRED, ...more]).endpoints).toEqual([
      'https://a.example',
      'https://b.example/path',
    ]);
  });

  test('a variable that is no setting is told, and those of others are not', () => {
    const env = {
      FARPULSE_KUBELET_HEALTZ: 'http://127.0.0.1:1/healthz',
      FARPULSE: 'x',
      NODE: 'y',
      FARPULSE_NODE: 'node-1',
    };
    expect(parseSettings(REQUIRED, env)).toMatchObject({ unknownVariables: ['FARPULSE_KUBELET_HEALTZ'] });
  });

  test('`run` is the default command and may be said', () => {
    expect(parseSettings(['run', ...REQUIRED], {})).toMatchObject({ kind: 'command', command: 'run' });
  });
});

const URL_EXPECTED = 'expected an https:// URL without query or password (http:// on loopback only)';

describe('a wrong setting is named with what was expected', () => {
  test.for<{ name: string; args?: string[]; env?: Record<string, string>; problem: string }>([
    {
      name: 'not a URL',
      args: ['--endpoint', 'a.example'],
      problem: `--endpoint "https://a.example,a.example": ${URL_EXPECTED}`,
    },
    {
      name: 'no TLS to another machine',
      env: { FARPULSE_API_URL: 'http://10.0.0.1' },
      problem: `FARPULSE_API_URL "http://10.0.0.1": ${URL_EXPECTED}`,
    },
    {
      name: 'a name that only looks like loopback',
      env: { FARPULSE_API_URL: 'http://127.0.0.1.example' },
      problem: `FARPULSE_API_URL "http://127.0.0.1.example": ${URL_EXPECTED}`,
    },
    {
      name: 'a password in a URL',
      args: ['--api-url', 'https://me:secret@a.example'],
      problem: `--api-url "https://me:secret@a.example": ${URL_EXPECTED}`,
    },
    {
      name: 'a query',
      args: ['--api-url', 'https://a.example?x=1'],
      problem: `--api-url "https://a.example?x=1": ${URL_EXPECTED}`,
    },
    {
      name: 'an upper-case cluster',
      args: ['--cluster', 'Berlin'],
      problem:
        '--cluster "Berlin": expected the name of a cluster (lower-case letters, digits and -, at most 63)',
    },
    {
      name: 'a deployment with a slash',
      args: ['--deployment', 'a/b'],
      problem:
        '--deployment "a/b": expected the name of a deployment (lower-case letters, digits and -, at most 63)',
    },
    {
      name: 'a node name with an underscore',
      args: ['--node', 'my_node'],
      problem: '--node "my_node": expected the name of a Node (an RFC 1123 subdomain)',
    },
    {
      name: 'an interval of no number',
      args: ['--interval-seconds', '10s'],
      problem: '--interval-seconds "10s": expected a number from 1 to 300',
    },
    {
      name: 'an interval below a second',
      env: { FARPULSE_INTERVAL_SECONDS: '0.9' },
      problem: 'FARPULSE_INTERVAL_SECONDS "0.9": expected a number from 1 to 300',
    },
    {
      name: 'an interval above five minutes',
      args: ['--interval-seconds', '301'],
      problem: '--interval-seconds "301": expected a number from 1 to 300',
    },
    {
      name: 'a relative key file',
      args: ['--key-file', 'beacon.key'],
      problem: '--key-file "beacon.key": expected an absolute path',
    },
    {
      name: 'a relative kubeconfig',
      args: ['--kubeconfig', 'k'],
      problem: '--kubeconfig "k": expected an absolute path',
    },
    {
      name: 'an empty flag',
      args: ['--node-uid='],
      problem: '--node-uid "": expected the metadata.uid of a Node',
    },
    {
      name: 'a kubelet by https',
      args: ['--kubelet-healthz', 'https://127.0.0.1:10250/healthz'],
      problem: '--kubelet-healthz "https://127.0.0.1:10250/healthz": expected an http:// URL',
    },
    {
      name: 'neither true nor false',
      env: { FARPULSE_NO_API_CHECK: 'yes' },
      problem: 'FARPULSE_NO_API_CHECK "yes": expected true or false',
    },
    {
      name: 'an unknown log level',
      args: ['--log-level', 'trace'],
      problem: '--log-level "trace": expected one of debug, info, warn, error',
    },
    {
      name: 'an unknown command',
      args: ['walk'],
      problem: 'command "walk": expected one of run, check, status, enrol, key, rotate-key',
    },
    ...[
      ['a check without a name', '/usr/bin/true'],
      ['a check that is looked up in PATH', 'gpu=nvidia-smi -L'],
      ['a check with a name that no beat may carry', 'The_GPU=/usr/bin/true'],
    ].map(([name = '', check = '']) => ({
      name,
      args: ['--check', check],
      problem: `--check "${check}": expected NAME=http(s)://… or NAME=/program arguments, at most 8 of them`,
    })),
    {
      name: 'two checks of one name',
      args: ['--check', 'a=/bin/true', '--check', 'a=/bin/false'],
      problem:
        '--check "a=/bin/true,a=/bin/false": expected NAME=http(s)://… or NAME=/program arguments, at most 8 of them',
    },
    { name: 'too many words', args: ['run', 'fast'], problem: '"fast": expected nothing after the command' },
    {
      name: 'an unknown flag',
      args: ['--clutser', 'x'],
      problem: "Unknown option '--clutser'; --help lists all of them",
    },
    {
      name: 'a flag without its value',
      args: ['--log-level'],
      problem: "Option '--log-level <value>' argument missing; --help lists all of them",
    },
    {
      name: 'a value for a switch',
      args: ['--no-api-check=false'],
      problem: "Option '--no-api-check' does not take an argument; --help lists all of them",
    },
  ])('$name', ({ args = [], env = {}, problem }) => {
    expect(parseSettings([...REQUIRED, ...args], env)).toEqual({ kind: 'wrong', problems: [problem] });
  });

  test('all of them at once, missing ones with both their names', () => {
    const parsed = parseSettings(['--node', 'node-1', '--log-level', 'loud'], {});
    expect(parsed).toMatchObject({ kind: 'wrong' });
    const problems = parsed.kind === 'wrong' ? parsed.problems : [];
    expect(problems.map((problem) => problem.split(': ')[0])).toEqual([
      '--endpoint (or FARPULSE_ENDPOINT)',
      '--deployment (or FARPULSE_DEPLOYMENT)',
      '--cluster (or FARPULSE_CLUSTER)',
      '--log-level "loud"',
    ]);
  });
});

test('--help and --version win over whatever else is wrong', () => {
  expect(parseSettings(['--help', '--log-level', 'loud'], {})).toEqual({ kind: 'help' });
  expect(parseSettings(['-h'], {})).toEqual({ kind: 'help' });
  expect(parseSettings(['--version'], {})).toEqual({ kind: 'version' });
});

test('the help names every setting, by flag and variable, and every default', () => {
  const help = helpText();
  const flags = [
    'endpoint',
    'deployment',
    'cluster',
    'node',
    'kubeconfig',
    'node-uid',
    'key-file',
    'interval-seconds',
    'kubelet-healthz',
    'api-url',
    'no-api-check',
    'log-level',
  ];
  for (const flag of flags) {
    expect(help).toMatch(
      new RegExp(`^  --${flag}( [A-Z]+)?  \\(FARPULSE_${flag.replaceAll('-', '_').toUpperCase()}\\)$`, 'm'),
    );
  }
  for (const words of [
    '--help',
    '--version',
    '/etc/kubernetes/kubelet.conf',
    '/var/lib/farpulse/beacon.key',
    ':10248/healthz',
  ]) {
    expect(help).toContain(words);
  }
});
