// How soon a dead node is noticed, on a real control plane: the built-in detector beside farpulse.
import { parseArgs } from 'node:util';

import { Findings } from './detection/findings.ts';
import {
  killSideBySide,
  killWithController,
  startCompat,
  startExternal,
  type Plan,
} from './detection/phases.ts';

const SEED = 6371;
const QUICK_KILLS = 3;
/** A token of the account in the cluster is good for an hour, and a kill by the built-in detector takes 70 s with all. */
const MAX_KILLS = 40;

const HELP = `Usage: npm run bench:detection -- [--kills N] [--restarts N] [--seed N] [--quick]

Kills nodes (kill -9 of kubelet and beacon) on a real control plane and times what a watch shows, side by side: nodes
that only kube-controller-manager judges, at its defaults, and nodes that farpulse judges with the presets steady and
fast. Then kills kube-controller-manager with a node; then steady and fast again with a controller that leaves liveness
to farpulse (mode external).

  --kills N     at least, of each detector, one node at a time, at random phases (15; 3 to ${MAX_KILLS}); the faster ones
                go on until the slowest has its N
  --restarts N  of the controller (4; 1 to 10)
  --seed N      of the phases (${SEED})
  --quick       ${QUICK_KILLS} kills and 1 restart: to try things out; writes nothing
  --help        print this

Needs the control plane's binaries, which are built when they are missing (see test/cluster/README.md), and a machine
that does nothing else. Takes about 38 minutes, --quick about 10.
Results: a table, bench/results/detection.json (after each part, so that a run broken off keeps what it has), and the
same table in docs/detection-latency.md.
Exit code 0: measured. 1: a node that nobody had killed was called dead, or another detector than the one that was timed
won a kill, or something failed.
`;

interface Settings extends Pick<Plan, 'kills' | 'restarts' | 'seed'> {
  readonly quick: boolean;
}

function settings(): Settings | 'help' {
  const { values } = parseArgs({
    options: {
      kills: { type: 'string' },
      restarts: { type: 'string' },
      seed: { type: 'string' },
      quick: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return 'help';
  const { quick } = values;
  return {
    kills: wholeNumber('kills', values.kills, quick ? QUICK_KILLS : 15, 3, MAX_KILLS),
    restarts: wholeNumber('restarts', values.restarts, quick ? 1 : 4, 1, 10),
    seed: wholeNumber('seed', values.seed, SEED, 0, 2 ** 31 - 1),
    quick,
  };
}

function wholeNumber(
  name: string,
  text: string | undefined,
  otherwise: number,
  least: number,
  most: number,
): number {
  const value = text === undefined ? otherwise : Number(text);
  if (!Number.isInteger(value) || value < least || value > most)
    throw new Error(`--${name}: "${text}" is not a whole number from ${least} to ${most}`);
  return value;
}

const startedAtMs = performance.now();

function say(line: string): void {
  const seconds = Math.floor((performance.now() - startedAtMs) / 1_000);
  const clock = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
  process.stderr.write(`bench: ${clock.padStart(5)}  ${line}\n`);
}

async function run(chosen: Settings): Promise<Findings> {
  const { kills, restarts, seed, quick } = chosen;
  const findings = new Findings({ seed, store: !quick, say });
  const plan: Plan = { kills, restarts, seed, say, record: findings.record };
  const parts = [
    { what: `${kills} kills of each detector side by side`, minutes: 1.5 + kills * 1.05 },
    { what: `${restarts} kills with a restart of the controller`, minutes: restarts * 1.3 },
    { what: `${kills} kills of each preset in external mode`, minutes: 1.5 + kills * 0.9 },
  ];
  const begin = (index: number): void => {
    const left = parts.slice(index).reduce((sum, { minutes }) => sum + minutes, 0);
    say(`part ${index + 1} of ${parts.length}: ${parts[index]?.what}; about ${Math.round(left)} min left`);
  };
  {
    begin(0);
    await using stack = new AsyncDisposableStack();
    const rig = await startCompat(stack, say);
    const detectors = { builtin: 'builtin', steady: 'farpulse-steady', fast: 'farpulse-fast' } as const;
    await findings.keep(rig, killSideBySide(rig, detectors, plan));
    begin(1);
    await findings.keep(rig, killWithController(rig, plan));
  }
  {
    begin(2);
    await using stack = new AsyncDisposableStack();
    const rig = await startExternal(stack, say);
    const detectors = { steady: 'farpulse-steady-external', fast: 'farpulse-fast-external' } as const;
    await findings.keep(rig, killSideBySide(rig, detectors, plan));
  }
  return findings;
}

async function main(): Promise<number> {
  const chosen = settings();
  if (chosen === 'help') {
    console.log(HELP);
    return 0;
  }
  const findings = await run(chosen);
  console.log(`\n${findings.markdown()}\n`);
  return findings.clean ? 0 : 1;
}

let exitCode = 1;
try {
  exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
}
// Not only the code: when one group has failed, the others may still wait for something.
process.exit(exitCode);
