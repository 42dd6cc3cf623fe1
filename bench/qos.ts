/**
 * The figures of detection: `node bench/qos.ts [--quick] [--hours=<n>] [--only=<scenario>,...] [--detectors=<variant>,...]`.
 *
 * Every scenario is lived through once for each variant of farpulse, with the production core in the simulator; the
 * known detectors run beside `farpulse-steady` on the very same beats. Rows are merged into bench/results/qos.json, and
 * the whole table is printed as markdown.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { timeoutMs, type Policy } from '../worker/core/policy.ts';
import { SCENARIOS, type Scenario } from '../test/support/simulator/scenario.ts';
import { FAST_START_MS, PRESETS, Simulation } from '../test/support/simulator/simulation.ts';
import { watchBeats, watchLeases } from './qos/monitors.ts';
import { Score, type Row } from './qos/score.ts';
import { markdownOf } from './qos/table.ts';

const RESULTS = new URL('./results/qos.json', import.meta.url);

/** A quick run takes minutes and says little about rare mistakes. */
const HOUR_MS = 3_600_000;
const QUICK_MS = 2 * HOUR_MS;
const DAY_MS = 24 * HOUR_MS;

interface Variant {
  readonly name: string;
  readonly policy: Policy;
  readonly leases: boolean;
}

const VARIANTS: readonly Variant[] = Object.entries(PRESETS).flatMap(([preset, policy]) => [
  { name: `farpulse-${preset}`, policy, leases: true },
  {
    name: `farpulse-${preset}-no-lease`,
    policy: { ...policy, leaseEvidence: 'off' as const },
    leases: false,
  },
]);

function run(scenario: Scenario, variant: Variant, forMs: number): Row[] {
  const { policy, leases, name } = variant;
  const simulation = new Simulation({
    // The same for all variants: the same crashes and cuts at the same times.
    seed: 20_261_201,
    nodes: scenario.nodes,
    shards: Math.ceil(scenario.nodes / 1_000),
    policy,
    leases,
    startMs: FAST_START_MS,
    ...(scenario.uplink !== undefined && { uplink: scenario.uplink }),
  });
  const own = new Score(name, simulation);
  const scores: Score[] = [own];
  if (name === 'farpulse-steady') {
    scores.push(...watchBeats(simulation, timeoutMs(policy, policy.intervalMs)));
    scores.push(watchLeases(simulation, 40_000), watchLeases(simulation, 50_000));
  }
  const { metrics } = simulation;
  metrics.observers.push(...scores);
  metrics.onUnknownOf = (machine) => own.accuse(machine);
  metrics.onReadyOf = (machine) => own.trust(machine);
  scenario.plan(simulation);

  let nodeMs = 0;
  const startedAtMs = performance.now();
  const sliceMs = Math.min(forMs, DAY_MS / 8);
  for (let doneMs = 0; doneMs < forMs; doneMs += sliceMs) {
    simulation.run(sliceMs);
    nodeMs += sliceMs * simulation.api.nodes.size;
    const perSecond = nodeMs / DAY_MS / ((performance.now() - startedAtMs) / 1_000);
    process.stderr.write(
      `\r${scenario.name} ${name}: ${(nodeMs / DAY_MS).toFixed(1)} node-days, ${perSecond.toFixed(0)}/s  `,
    );
  }
  process.stderr.write('\n');
  const { reads, lists } = simulation.api;
  return scores.map((score) =>
    score === own
      ? score.row(scenario.name, nodeMs, reads + lists, metrics.detectionsMs)
      : score.row(scenario.name, nodeMs, 0),
  );
}

function main(): void {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string' },
      detectors: { type: 'string' },
      /** No scenario runs longer than this. */
      hours: { type: 'string', default: 'Infinity' },
    },
  });
  const scenarios = SCENARIOS.filter(({ name }) => values.only?.split(',').includes(name) ?? true);
  const variants = VARIANTS.filter(({ name }) => values.detectors?.split(',').includes(name) ?? true);
  const mostMs = values.quick ? QUICK_MS : Number(values.hours) * HOUR_MS;
  for (const variant of variants) {
    for (const scenario of scenarios) {
      // Merged at once: several runs may share the work, and a broken-off one keeps what it has.
      merge(run(scenario, variant, Math.min(scenario.forMs, mostMs)));
    }
  }
  process.stdout.write(markdownOf(load()));
}

function load(): Row[] {
  try {
    return JSON.parse(readFileSync(RESULTS, 'utf8')) as Row[];
  } catch {
    return [];
  }
}

function merge(rows: readonly Row[]): void {
  const kept = load().filter(
    (row) => !rows.some((now) => now.detector === row.detector && now.scenario === row.scenario),
  );
  const order = SCENARIOS.map(({ name }) => name);
  const all = [...kept, ...rows].toSorted(
    (a, b) => order.indexOf(a.scenario) - order.indexOf(b.scenario) || (a.detector < b.detector ? -1 : 1),
  );
  mkdirSync(new URL('.', RESULTS), { recursive: true });
  writeFileSync(RESULTS, `[\n${all.map((row) => `  ${JSON.stringify(row)}`).join(',\n')}\n]\n`);
}

main();
