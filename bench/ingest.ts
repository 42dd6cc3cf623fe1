// What a beat costs, beside what a Lease renewal costs; and how many beats one core takes.
import { availableParallelism, tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import { runCommand } from '../cli/local/processes.ts';
import { Farpulse } from './ingest/farpulse.ts';
import { REGIONS, SHARDS, type Transport } from './ingest/fleet.ts';
import { LeaseServers } from './ingest/leases.ts';
import { Load } from './ingest/load.ts';
import { rowsOf, tableOf, type Measured } from './ingest/report.ts';
import { beatsForSaturation, saturate } from './ingest/saturation.ts';
import { beatsForSideBySide, measureSideBySide, type SideBySide } from './ingest/side-by-side.ts';
import { writeResults } from './support/results.ts';
import { assertWritesAreCounted } from './support/usage.ts';

const NODES = 1_000;
const PER_SECOND = 100;

const HELP = `Usage: npm run bench:ingest -- [--seconds N] [--quick]

Beats of ${NODES} nodes, ${PER_SECOND} a second, to the production bundle in local workerd (${REGIONS.length} regions, ${SHARDS} observers in
each), and at the same time Lease renewals of ${NODES} nodes, ${PER_SECOND} a second, to a real kube-apiserver and etcd: CPU,
bytes written to disk, latency, memory. Then beats alone, at a rising pace, with workerd on one core. First with beats
over WebSockets, as beacons send them by default, then over HTTPS, to which they fall back (here without TLS: on the edge
that is the platform's).

  --seconds N  how long to measure, idle and under load (60). Observers store and report about once a minute,
               so only whole minutes show what is written per beat
  --quick      20 seconds and a short look at saturation: to try things out; writes no results
  --help       print this

Needs Linux with two cores, taskset (util-linux), and the control plane's binaries, which are built when they are
missing (see test/cluster/README.md). Takes about 10 minutes. Results: a table, and bench/results/ingest.json.
Exit code 0: measured, whatever came out.
`;

interface Settings {
  readonly seconds: number;
  readonly quick: boolean;
}

function settings(): Settings | 'help' {
  const { values } = parseArgs({
    options: {
      seconds: { type: 'string' },
      quick: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return 'help';
  const seconds = Number(values.seconds ?? (values.quick ? 20 : 60));
  if (!Number.isInteger(seconds) || seconds < 5 || seconds > 3600)
    throw new Error(`--seconds: "${values.seconds}" is not a whole number from 5 to 3600`);
  return { seconds, quick: values.quick };
}

async function assertMachine(): Promise<void> {
  if (process.platform !== 'linux') throw new Error('measures with /proc: Linux only');
  if (availableParallelism() < 2) throw new Error('two cores are needed: one for workerd, one for the load');
  await runCommand('taskset', ['--version']).catch((error: unknown) => {
    throw new Error('taskset is needed to keep workerd on one core; it is part of util-linux', {
      cause: error,
    });
  });
  await assertWritesAreCounted(tmpdir());
}

function say(line: string): void {
  process.stderr.write(`bench: ${line}\n`);
}

async function run({ seconds, quick }: Settings): Promise<void> {
  await assertMachine();
  const measured = new Map<Transport, Measured>();
  for (const transport of ['websocket', 'https'] as const) {
    const one = await measure(transport, seconds, quick ? 5 : 10);
    console.log(`\nbeats by ${transport}\n${tableOf(one)}\n`);
    measured.set(transport, one);
  }
  if (quick) return;
  console.log(`Results: ${await writeResults('ingest', rowsOf(measured))}`);
}

async function measure(transport: Transport, seconds: number, stepSeconds: number): Promise<Measured> {
  const plan = { transport, nodes: NODES, perSecond: PER_SECOND, seconds };
  say(`${transport}: starting workerd, etcd and kube-apiserver; making keys and beats`);
  await using load = await Load.create(NODES);
  await using farpulse = await Farpulse.start(load.keys);
  let sideBySide: SideBySide;
  {
    await using leases = await LeaseServers.start();
    await load.sign(beatsForSideBySide(plan) + beatsForSaturation(stepSeconds, PER_SECOND));
    sideBySide = await measureSideBySide({ farpulse, leases, load }, plan, say);
  }
  say(`saturation: workerd on one core, ${stepSeconds} s a step`);
  const steps = await saturate(farpulse, load, stepSeconds, PER_SECOND, say);
  await load.stop();
  return { sideBySide, steps };
}

try {
  const chosen = settings();
  if (chosen === 'help') console.log(HELP);
  else await run(chosen);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
