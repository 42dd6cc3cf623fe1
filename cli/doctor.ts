import { parseArgs } from 'node:util';
import { z } from 'zod';
import { DoctorJson } from '../worker/http/doctor.ts';

export const DOCTOR_HELP = `Usage: farpulse doctor CLUSTER --url URL [--json]

Examines the way from the Worker to a cluster's API server, from where verdicts are written: name, TLS, credential,
permissions, admission policies (by a dry run), the controller's settings, beacons, clocks. Changes nothing.

  --url URL   of the Worker; or FARPULSE_URL
  --json      print the rows as JSON
  --help      print this

The admin token is read from FARPULSE_ADMIN_TOKEN. Exit code: 0, or 1 when a row says fail, or 2 when nothing
could be examined.
`;

type Examination = z.infer<typeof DoctorJson>;
type Row = Examination['rows'][number];

/** Longer than the Worker allows itself. */
const TIMEOUT_MS = 45_000;
const Problem = z.object({
  title: z.string(),
  detail: z.string().optional(),
  field: z.string().optional(),
  expected: z.string().optional(),
});

export interface CommandIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

/** `farpulse doctor`. @returns the exit code */
export async function doctor(args: readonly string[], { env, out, err }: CommandIo): Promise<number> {
  const settings = settingsOf(args, env);
  if (typeof settings === 'string') {
    err(`${settings}\nSee: farpulse doctor --help\n`);
    return 2;
  }
  if (settings.help) {
    out(DOCTOR_HELP);
    return 0;
  }
  const answer = await examine(settings.url, settings.cluster, settings.token);
  if (typeof answer === 'string') {
    err(`${answer}\n`);
    return 2;
  }
  out(settings.json ? `${JSON.stringify(answer, null, 2)}\n` : tableOf(answer));
  return answer.rows.some(({ state }) => state === 'fail') ? 1 : 0;
}

interface Settings {
  readonly help: false;
  readonly cluster: string;
  readonly url: string;
  readonly token: string;
  readonly json: boolean;
}

function settingsOf(
  args: readonly string[],
  env: CommandIo['env'],
): Settings | { readonly help: true } | string {
  const parsed = parse(args);
  if (typeof parsed === 'string') return parsed;
  const { values, positionals } = parsed;
  if (values.help) return { help: true };
  const [cluster, ...more] = positionals;
  if (cluster === undefined || more.length > 0) return 'one cluster is wanted: its name in [vars.CLUSTERS]';
  const url = values.url ?? env['FARPULSE_URL'];
  if (url === undefined) return '--url: the address of the Worker is wanted';
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    return `--url: "${url}" is no http(s) address`;
  const token = env['FARPULSE_ADMIN_TOKEN'];
  if (token === undefined || token === '')
    return 'FARPULSE_ADMIN_TOKEN is not set: the secret ADMIN_TOKEN of the Worker';
  return { help: false, cluster, url, token, json: values.json };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        url: { type: 'string' },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** The examination, or a sentence why there is none. */
async function examine(url: string, cluster: string, token: string): Promise<Examination | string> {
  const endpoint = new URL(`/v1/clusters/${encodeURIComponent(cluster)}/doctor`, url);
  try {
    const response = await fetch(endpoint, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      // A redirect would carry the admin token to wherever it points.
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const text = await response.text();
    return response.ok
      ? DoctorJson.parse(JSON.parse(text))
      : `${endpoint.href}: ${response.status} ${problemIn(text)}`;
  } catch (error) {
    return `${endpoint.href}: ${messageOf(error)}`;
  }
}

function problemIn(text: string): string {
  try {
    const { title, detail, field, expected } = Problem.parse(JSON.parse(text));
    const wrong = field === undefined ? undefined : `${field}: expected ${expected ?? 'something else'}`;
    return [title, detail, wrong].filter((part) => part !== undefined).join(': ');
  } catch {
    return 'not an answer of farpulse; is --url the address of the Worker?';
  }
}

/** Node's fetch says `fetch failed` and hides the reason below. */
function messageOf(error: unknown): string {
  if (error instanceof z.ZodError || error instanceof SyntaxError) return 'the answer is not one of farpulse';
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}

const MARKS: Readonly<Record<Row['state'], string>> = {
  ok: 'ok',
  warn: 'WARN',
  fail: 'FAIL',
  unknown: '?',
};

/** For people: one line a row, and below it what to do. */
export function tableOf({ cluster, at, rows }: Examination): string {
  const width = Math.max(...rows.map(({ check }) => check.length));
  const lines = rows.flatMap(({ check, state, found, todo }) => [
    `${MARKS[state].padEnd(4)}  ${check.padEnd(width)}  ${printable(found)}`,
    ...(todo === undefined ? [] : [`      ${' '.repeat(width)}  -> ${printable(todo)}`]),
  ]);
  const count = (wanted: Row['state']): number => rows.filter(({ state }) => state === wanted).length;
  const sum = `${count('fail')} failing, ${count('warn')} to look at, ${count('unknown')} not known from here`;
  return [`${cluster} at ${at}`, '', ...lines, '', sum, ''].join('\n');
}

/** Texts come from an API server or what passes for one: nothing of them may steer a terminal. */
function printable(text: string): string {
  return text.replaceAll(/\p{C}+/gu, ' ');
}
