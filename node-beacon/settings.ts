import { dirname, isAbsolute, join } from 'node:path';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { CheckName, MAX_CHECKS, MAX_INTERVAL_MS, MIN_INTERVAL_MS } from '../protocol/beat.ts';
import { ClusterName, DeploymentId, NodeName } from '../protocol/names.ts';
import { LOG_LEVELS, type LogLevel } from './log.ts';
import { isLoopback } from './loopback.ts';
import {
  type Command,
  COMMANDS,
  envNameOf,
  LOCAL_COMMANDS,
  type LocalCommand,
  type SettingName,
  type SettingRow,
  SETTINGS,
  TRANSPORTS,
} from './setting-table.ts';
import type { CheckSetting } from './checks/named-checks.ts';
import { type Proxy, readProxy } from './transport/proxy.ts';

/** Everything the beacon was told, checked. */
export interface Settings {
  readonly endpoints: readonly string[];
  readonly deployment: string;
  readonly cluster: string;
  readonly node: string;
  /** Undefined: the first of the known ones that exists. */
  readonly kubeconfig: string | undefined;
  readonly nodeUid: string | undefined;
  readonly keyFile: string;
  /** What `enrol` has left for a beacon that holds no credential. */
  readonly enrolmentFile: string | undefined;
  /** What the beacon remembers between two runs. */
  readonly memoryFile: string;
  /** Written to ask for an enrolment. */
  readonly enrolWantedFile: string;
  readonly statusFile: string | undefined;
  readonly metricsFile: string | undefined;
  readonly checks: readonly CheckSetting[];
  readonly intervalMs: number;
  readonly transport: (typeof TRANSPORTS)[number];
  /** Trusted besides the system's authorities. */
  readonly caFile: string | undefined;
  readonly proxy: Proxy | undefined;
  readonly kubeletHealthz: URL;
  readonly apiUrl: string | undefined;
  readonly checkApi: boolean;
  readonly logLevel: LogLevel;
}

/** What a command has to know that only looks at this machine and its cluster. */
export type LocalSettings = Omit<Settings, 'endpoints' | 'deployment' | 'cluster'>;

export type ParsedSettings =
  | {
      readonly kind: 'command';
      readonly command: Exclude<Command, LocalCommand>;
      readonly settings: Settings;
      /** Variables that look like settings and are none: a misspelt one would otherwise be missed. */
      readonly unknownVariables: readonly string[];
    }
  | {
      readonly kind: 'local-command';
      readonly command: LocalCommand;
      readonly settings: LocalSettings;
      readonly json: boolean;
    }
  | { readonly kind: 'help' | 'version' }
  /** One line for each setting that is wrong, with what was expected. */
  | { readonly kind: 'wrong'; readonly problems: readonly string[] };

type Environment = Readonly<Record<string, string | undefined>>;
type Flags = Readonly<Record<string, unknown>>;

/** One value as it was given, and under which name. */
interface Given {
  readonly value: string | readonly string[] | undefined;
  readonly from: string;
}

function safeUrl(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.username !== '' || url.password !== '' || /[?#]/.test(text)) return false;
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url));
}

const BaseUrl = z
  .string()
  .refine(safeUrl)
  .transform((text) => new URL(text).href.replace(/\/+$/, ''));
const AbsolutePath = z.string().refine(isAbsolute);

const Check = z
  .string()
  .transform((text) => {
    const at = text.indexOf('=');
    return { name: text.slice(0, at), what: text.slice(at + 1).trim() };
  })
  .pipe(z.object({ name: CheckName, what: z.string() }))
  .transform(({ name, what }, context): CheckSetting => {
    if (/^https?:\/\//.test(what) && URL.canParse(what)) return { name, url: new URL(what) };
    const [program = '', ...args] = what.split(/\s+/);
    if (isAbsolute(program)) return { name, program, args };
    context.addIssue('neither a URL nor a program');
    return z.NEVER;
  });

const SCHEMA = z.object({
  endpoint: z
    .array(BaseUrl)
    .min(1)
    .transform((urls) => [...new Set(urls)]),
  deployment: DeploymentId,
  cluster: ClusterName,
  node: NodeName,
  kubeconfig: AbsolutePath.optional(),
  'node-uid': z
    .string()
    .regex(/^[\w.-]{1,64}$/)
    .optional(),
  'key-file': AbsolutePath,
  'enrolment-file': AbsolutePath.optional(),
  'state-folder': AbsolutePath.optional(),
  'status-file': AbsolutePath.optional(),
  'metrics-file': AbsolutePath.optional(),
  check: z
    .array(Check)
    .max(MAX_CHECKS)
    .refine((checks) => new Set(checks.map(({ name }) => name)).size === checks.length)
    .optional(),
  'interval-seconds': z
    .string()
    .regex(/^\d+(\.\d+)?$/)
    .transform((text) => Math.round(Number(text) * 1000))
    .pipe(z.number().min(MIN_INTERVAL_MS).max(MAX_INTERVAL_MS)),
  transport: z.enum(TRANSPORTS),
  'ca-file': AbsolutePath.optional(),
  'kubelet-healthz': z
    .string()
    .refine((text) => URL.canParse(text) && new URL(text).protocol === 'http:')
    .transform((text) => new URL(text)),
  'api-url': BaseUrl.optional(),
  'no-api-check': z.enum(['true', 'false']).optional(),
  'log-level': z.enum(LOG_LEVELS),
} satisfies Record<SettingName, z.ZodType>);

const LOCAL_SCHEMA = SCHEMA.partial({ endpoint: true, deployment: true, cluster: true });

/** Reads the command line and, where a flag is absent, the environment. */
export function parseSettings(args: readonly string[], env: Environment): ParsedSettings {
  const parsed = readCommandLine(args);
  if ('problem' in parsed) return { kind: 'wrong', problems: [parsed.problem] };
  const { flags, words } = parsed;
  if (flags['help'] === true) return { kind: 'help' };
  if (flags['version'] === true) return { kind: 'version' };

  const [word = 'run', ...more] = words;
  const command = isCommand(word) ? word : undefined;
  const local = LOCAL_COMMANDS.find((each) => each === word);
  const given = new Map(SETTINGS.map((row) => [row.name, lookUp(row, flags, env)]));
  const values = Object.fromEntries([...given].map(([name, { value }]) => [name, value]));
  const checked = SCHEMA.safeParse(values);
  const checkedLocally = LOCAL_SCHEMA.safeParse(values);
  const proxied = readProxy(env);
  const { error } = local === undefined ? checked : checkedLocally;
  const wrongNames = new Set(error?.issues.map(({ path }) => path[0]));
  const problems = [
    ...(command === undefined
      ? [`command "${word}": expected one of ${Object.keys(COMMANDS).join(', ')}`]
      : []),
    ...(more.length > 0 ? [`"${more.join(' ')}": expected nothing after the command`] : []),
    ...SETTINGS.filter(({ name }) => wrongNames.has(name)).map((row) => describe(row, given.get(row.name))),
    ...(proxied.kind === 'wrong' ? [proxied.problem] : []),
  ];
  if (problems.length > 0 || command === undefined || proxied.kind === 'wrong') {
    return { kind: 'wrong', problems };
  }
  const { proxy } = proxied;
  if (isLocal(command)) {
    if (!checkedLocally.success) return { kind: 'wrong', problems };
    const settings = toLocalSettings(checkedLocally.data, proxy);
    return { kind: 'local-command', command, settings, json: flags['json'] === true };
  }
  if (!checked.success) return { kind: 'wrong', problems };
  const known = new Set(SETTINGS.map(({ name }) => envNameOf(name)));
  const unknownVariables = Object.keys(env).filter(
    (name) => name.startsWith(envNameOf('')) && !known.has(name),
  );
  return { kind: 'command', command, settings: toSettings(checked.data, proxy), unknownVariables };
}

function isCommand(word: string): word is Command {
  return Object.hasOwn(COMMANDS, word);
}

function isLocal(command: Command): command is LocalCommand {
  return (LOCAL_COMMANDS as readonly Command[]).includes(command);
}

function readCommandLine(args: readonly string[]): { flags: Flags; words: string[] } | { problem: string } {
  const rows: readonly SettingRow[] = SETTINGS;
  const options = Object.fromEntries(
    rows.map(({ name, kind }) => [
      name,
      { type: kind === 'switch' ? ('boolean' as const) : ('string' as const), multiple: kind === 'list' },
    ]),
  );
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: {
        ...options,
        help: { type: 'boolean', short: 'h' },
        version: { type: 'boolean' },
        json: { type: 'boolean', short: 'j' },
      },
      allowPositionals: true,
    });
    return { flags: values, words: positionals };
  } catch (error) {
    // It names the flag in its first sentence ("Unknown option '--clutser'"); the rest is advice for programmers.
    const said = error instanceof Error ? error.message : String(error);
    return { problem: `${said.split(/\. |\n/)[0] ?? said}; --help lists all of them` };
  }
}

/** An empty variable counts as absent: that is what `NAME=` in an environment file means. */
function lookUp({ name, kind, fallback }: SettingRow, flags: Flags, env: Environment): Given {
  const flag = flags[name];
  if (flag === true) return { value: 'true', from: `--${name}` };
  if (typeof flag === 'string') return { value: flag, from: `--${name}` };
  if (Array.isArray(flag)) return { value: flag.map(String), from: `--${name}` };
  const variable = env[envNameOf(name)]?.trim();
  if (variable === undefined || variable === '')
    return { value: fallback, from: `--${name} (or ${envNameOf(name)})` };
  const value =
    kind === 'list'
      ? variable
          .split(',')
          .map((item) => item.trim())
          .filter((item) => item !== '')
      : variable;
  return { value, from: envNameOf(name) };
}

function describe({ name, expected }: SettingRow, given: Given | undefined): string {
  const { value, from } = given ?? { value: undefined, from: `--${name}` };
  if (value === undefined) return `${from}: missing, expected ${expected}`;
  return `${from} "${typeof value === 'string' ? value : value.join(',')}": expected ${expected}`;
}

function toSettings(checked: z.infer<typeof SCHEMA>, proxy: Proxy | undefined): Settings {
  const { endpoint: endpoints, deployment, cluster } = checked;
  return { ...toLocalSettings(checked, proxy), endpoints, deployment, cluster };
}

function toLocalSettings(checked: z.infer<typeof LOCAL_SCHEMA>, proxy: Proxy | undefined): LocalSettings {
  const stateFolder = checked['state-folder'] ?? dirname(checked['key-file']);
  return {
    node: checked.node,
    kubeconfig: checked.kubeconfig,
    nodeUid: checked['node-uid'],
    keyFile: checked['key-file'],
    enrolmentFile: checked['enrolment-file'],
    memoryFile: join(stateFolder, 'memory.json'),
    enrolWantedFile: join(stateFolder, 'enrol-wanted'),
    statusFile: checked['status-file'],
    metricsFile: checked['metrics-file'],
    checks: checked.check ?? [],
    intervalMs: checked['interval-seconds'],
    transport: checked.transport,
    caFile: checked['ca-file'],
    proxy,
    kubeletHealthz: checked['kubelet-healthz'],
    apiUrl: checked['api-url'],
    checkApi: checked['no-api-check'] !== 'true',
    logLevel: checked['log-level'],
  };
}
