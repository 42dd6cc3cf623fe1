import { dirname, isAbsolute, join } from 'node:path';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { MAX_INTERVAL_MS, MIN_INTERVAL_MS } from '../protocol/beat.ts';
import { ClusterName, DeploymentId, NodeName } from '../protocol/names.ts';
import { LOG_LEVELS, type LogLevel } from './log.ts';
import { isLoopback } from './loopback.ts';
import {
  type Command,
  COMMANDS,
  envNameOf,
  type SettingName,
  type SettingRow,
  SETTINGS,
} from './setting-table.ts';

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
  /** What the beacon remembers between two runs; beside the key. */
  readonly memoryFile: string;
  readonly intervalMs: number;
  readonly kubeletHealthz: URL;
  readonly apiUrl: string | undefined;
  readonly checkApi: boolean;
  readonly logLevel: LogLevel;
}

export type ParsedSettings =
  | {
      readonly kind: 'command';
      readonly command: Command;
      readonly settings: Settings;
      /** Variables that look like settings and are none: a misspelt one would otherwise be missed. */
      readonly unknownVariables: readonly string[];
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
  'interval-seconds': z
    .string()
    .regex(/^\d+(\.\d+)?$/)
    .transform((text) => Math.round(Number(text) * 1000))
    .pipe(z.number().min(MIN_INTERVAL_MS).max(MAX_INTERVAL_MS)),
  'kubelet-healthz': z
    .string()
    .refine((text) => URL.canParse(text) && new URL(text).protocol === 'http:')
    .transform((text) => new URL(text)),
  'api-url': BaseUrl.optional(),
  'no-api-check': z.enum(['true', 'false']).optional(),
  'log-level': z.enum(LOG_LEVELS),
} satisfies Record<SettingName, z.ZodType>);

/** Reads the command line and, where a flag is absent, the environment. */
export function parseSettings(args: readonly string[], env: Environment): ParsedSettings {
  const parsed = readCommandLine(args);
  if ('problem' in parsed) return { kind: 'wrong', problems: [parsed.problem] };
  const { flags, words } = parsed;
  if (flags['help'] === true) return { kind: 'help' };
  if (flags['version'] === true) return { kind: 'version' };

  const [word = 'run', ...more] = words;
  const command = COMMANDS.find((each) => each === word);
  const given = new Map(SETTINGS.map((row) => [row.name, lookUp(row, flags, env)]));
  const checked = SCHEMA.safeParse(Object.fromEntries([...given].map(([name, { value }]) => [name, value])));
  const wrongNames = new Set(checked.error?.issues.map(({ path }) => path[0]));
  const problems = [
    ...(command === undefined ? [`command "${word}": expected ${COMMANDS.join(' or ')}`] : []),
    ...(more.length > 0 ? [`"${more.join(' ')}": expected nothing after the command`] : []),
    ...SETTINGS.filter(({ name }) => wrongNames.has(name)).map((row) => describe(row, given.get(row.name))),
  ];
  if (problems.length > 0 || command === undefined || !checked.success) return { kind: 'wrong', problems };
  const known = new Set(SETTINGS.map(({ name }) => envNameOf(name)));
  const unknownVariables = Object.keys(env).filter(
    (name) => name.startsWith(envNameOf('')) && !known.has(name),
  );
  return { kind: 'command', command, settings: toSettings(checked.data), unknownVariables };
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
      options: { ...options, help: { type: 'boolean', short: 'h' }, version: { type: 'boolean' } },
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

function toSettings(checked: z.infer<typeof SCHEMA>): Settings {
  return {
    endpoints: checked.endpoint,
    deployment: checked.deployment,
    cluster: checked.cluster,
    node: checked.node,
    kubeconfig: checked.kubeconfig,
    nodeUid: checked['node-uid'],
    keyFile: checked['key-file'],
    memoryFile: join(dirname(checked['key-file']), 'memory.json'),
    intervalMs: checked['interval-seconds'],
    kubeletHealthz: checked['kubelet-healthz'],
    apiUrl: checked['api-url'],
    checkApi: checked['no-api-check'] !== 'true',
    logLevel: checked['log-level'],
  };
}
