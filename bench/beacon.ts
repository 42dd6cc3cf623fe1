// What a beacon costs its node: memory, CPU, bytes on the wire, and whether any of it grows.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { waitFor } from '../cli/local/wait.ts';
import { buildExecutable } from '../node-beacon/packaging/executable.ts';
import { hostTarget } from '../node-beacon/packaging/targets.ts';
import { BeaconUnderTest } from './beacon/beacon-under-test.ts';
import { World } from './beacon/world.ts';
import { type ResultRow, writeResults } from './support/results.ts';
import { table } from './support/table.ts';

const ROOT = join(import.meta.dirname, '..');
const MAIN = join(ROOT, 'node-beacon/main.ts');
const INTERVAL_SECONDS = 10;
const STARTS = 10;
const DAY_HOURS = 24;
/** So fast that a try's first second is still 10 ms: a loopback answers within that. */
const TIMES = 100;

const HELP = `Usage: npm run bench:beacon -- [--minutes N] [--hours N] [--quick]

The compiled beacon with its unit's environment, against an edge that acknowledges over TLS,
an API server and a kubelet, all on loopback:
  memory and CPU after N minutes of beats every ${INTERVAL_SECONDS} s, and the same under Node
  bytes a beat, both ways, TLS included, without the headers of TCP and IP, on a kept connection
  ${STARTS} starts to the first acknowledged beat, less the wait that each start draws
  N hours of beats with a clock that runs ${TIMES} times as fast

  --minutes N  how long to measure memory and CPU (5)
  --hours N    simulated hours (${DAY_HOURS}); a day takes ${(DAY_HOURS * 60) / TIMES} minutes
  --quick      half a minute, 3 starts and half an hour: to try things out; writes no results
  --help       print this

Needs Linux. Results: a table, and bench/results/beacon.json. Exit code 0: measured, whatever came out.
`;

interface Plan {
  readonly minutes: number;
  readonly hours: number;
  readonly starts: number;
  readonly quick: boolean;
}

/** A way to run the beacon. */
interface Subject {
  readonly system: string;
  readonly command: string;
  readonly args: readonly string[];
}

/** As in the unit. */
const env = { PATH: process.env['PATH'], BUN_JSC_useJIT: '0', BUN_GC_TIMER_DISABLE: '1' };

async function main(): Promise<void> {
  const plan = planOf();
  if (plan === 'help') return void process.stdout.write(HELP);
  const target = hostTarget();
  if (target === undefined)
    throw new Error('no executable is made for this machine: Linux on x64 or arm64 only');
  const folder = await mkdtemp(join(tmpdir(), 'farpulse-bench-beacon-'));
  try {
    const executable = join(folder, 'farpulse-beacon');
    const fast = join(folder, 'fast');
    await buildExecutable(ROOT, target, executable);
    await buildExecutable(ROOT, target, fast, 'bench/beacon/fast-main.ts');
    const compiled: Subject = { system: 'compiled', command: executable, args: ['run'] };
    const underNode: Subject = { system: 'under Node', command: process.execPath, args: [MAIN, 'run'] };
    const rows = [
      ...(await measureSteady(compiled, plan)),
      ...(await measureSteady(underNode, { ...plan, minutes: Math.min(1, plan.minutes) })),
      await measureStarts(compiled, plan),
      ...(await measureGrowth(fast, plan)),
    ];
    const cells = rows.map(({ system, measure, value, unit }) => [
      `${measure}, ${system}`,
      String(value),
      unit,
    ]);
    console.log(table(['measure', 'value', 'unit'], cells));
    if (!plan.quick) console.log(`\nwritten: ${await writeResults('beacon', rows)}`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function planOf(): Plan | 'help' {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string' },
      hours: { type: 'string' },
      quick: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return 'help';
  const minutes = Number(values.minutes ?? (values.quick ? 0.5 : 5));
  const hours = Number(values.hours ?? (values.quick ? 0.5 : DAY_HOURS));
  for (const [name, value] of Object.entries({ minutes, hours })) {
    if (!(value > 0 && value <= 240)) throw new Error(`--${name}: expected a number above 0, at most 240`);
  }
  return { minutes, hours, starts: values.quick ? 3 : STARTS, quick: values.quick };
}

/** Memory, CPU and bytes a beat, from after the first beats on. */
async function measureSteady({ system, command, args }: Subject, { minutes }: Plan): Promise<ResultRow[]> {
  const world = await World.start();
  const beacon = new BeaconUnderTest(command, [...args, ...world.flags(INTERVAL_SECONDS)], env);
  try {
    await acksOf(world, 1);
    await delay(INTERVAL_SECONDS * 1_000); // the start is over: enrolment, first looks, the first connection
    const before = { cpuMs: beacon.cpuMs, acks: world.acks, ...world.traffic, atMs: performance.now() };
    await delay(minutes * 60_000);
    const seconds = (performance.now() - before.atMs) / 1_000;
    const { residentBytes, anonymousBytes } = beacon.memory;
    const { sentBytes, receivedBytes } = world.traffic;
    const beats = world.acks - before.acks;
    const row = (measure: string, value: number, unit: string, digits = 1): ResultRow => ({
      system,
      measure,
      value: Number(value.toFixed(digits)),
      unit,
    });
    return [
      row('resident memory', residentBytes / 2 ** 20, 'MiB'),
      row('anonymous memory', anonymousBytes / 2 ** 20, 'MiB'),
      row(
        `CPU at ${INTERVAL_SECONDS} s`,
        (100 * (beacon.cpuMs - before.cpuMs)) / 1_000 / seconds,
        '% of a core',
        3,
      ),
      row('sent a beat over https', (sentBytes - before.sentBytes) / beats, 'bytes', 0),
      row('received a beat over https', (receivedBytes - before.receivedBytes) / beats, 'bytes', 0),
    ];
  } finally {
    await beacon.stop();
    await world.stop();
  }
}

/** The slowest of several starts: a process, a known key, an enrolment, a connection, a beat. */
async function measureStarts({ system, command, args }: Subject, { starts }: Plan): Promise<ResultRow> {
  const world = await World.start();
  let slowestMs = 0;
  try {
    for (let start = 0; start < starts; start++) {
      world.forget();
      const beacon = new BeaconUnderTest(command, [...args, ...world.flags(1)], env);
      await acksOf(world, 1);
      slowestMs = Math.max(slowestMs, (world.firstAckAtMs ?? 0) - beacon.startedAtMs - beacon.drawnWaitMs);
      await beacon.stop();
    }
  } finally {
    await world.stop();
  }
  const measure = 'start to first ack, less the drawn wait, slowest';
  return { system, measure, value: Math.round(slowestMs), unit: 'ms' };
}

/** Memory after a while and at the end. The first tenth is for the heap to find its size. */
async function measureGrowth(command: string, { hours }: Plan): Promise<ResultRow[]> {
  const world = await World.start();
  const beacon = new BeaconUnderTest(command, ['run', ...world.flags(INTERVAL_SECONDS)], {
    ...env,
    TIMES: String(TIMES),
  });
  const realMs = (hours * 3_600_000) / TIMES;
  try {
    await delay(realMs / 10);
    const before = beacon.memory;
    await delay(realMs * 0.9);
    const after = beacon.memory;
    const of = `of ${hours} simulated hours`;
    const grown = (from: number, to: number): number => Number(((to - from) / 2 ** 20).toFixed(1));
    return [
      { system: 'compiled', measure: `beats ${of} that were acknowledged`, value: world.acks, unit: 'beats' },
      {
        system: 'compiled',
        measure: `growth of anonymous memory in the last nine tenths ${of}`,
        value: grown(before.anonymousBytes, after.anonymousBytes),
        unit: 'MiB',
      },
      {
        system: 'compiled',
        measure: `growth of resident memory in the last nine tenths ${of}`,
        value: grown(before.residentBytes, after.residentBytes),
        unit: 'MiB',
      },
    ];
  } finally {
    await beacon.stop();
    await world.stop();
  }
}

async function acksOf(world: World, count: number): Promise<void> {
  await waitFor(`${count} acknowledged beats`, () => Promise.resolve(world.acks >= count), {
    timeoutMs: 60_000,
    intervalMs: 5,
  });
}

await main();
