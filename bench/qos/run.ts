import { timeoutMs, type Policy } from '../../worker/core/policy.ts';
import type { Scenario } from '../../test/support/simulator/scenario.ts';
import { FAST_START_MS, PRESETS, Simulation } from '../../test/support/simulator/simulation.ts';
import { watchBeats, watchLeases } from './monitors.ts';
import { rowOf, Score, type Row, type Tally } from './score.ts';

const DAY_MS = 86_400_000;
/** The same for all variants: the same deaths and cuts at the same times. */
const FIRST_SEED = 20_261_201;

/** One way to set farpulse up. */
export interface Variant {
  readonly name: string;
  readonly policy: Policy;
  readonly leases: boolean;
}

/** The published ones, or the same with some knobs turned. */
export function variants(turned: Partial<Policy> = {}): readonly Variant[] {
  return Object.entries(PRESETS).flatMap(([preset, policy]) => [
    { name: `farpulse-${preset}`, policy: { ...policy, ...turned }, leases: true },
    {
      name: `farpulse-${preset}-no-lease`,
      policy: { ...policy, ...turned, leaseEvidence: 'off' as const },
      leases: false,
    },
  ]);
}

/** Runs beside the known detectors, and is none. */
export const OWN_LATENESS = 'fixed-own-lateness';

/** The known detectors live through this variant's beats. */
const TRACED = 'farpulse-steady';

/**
 * Lives through one scenario: a row for the variant, and for the known detectors when it is the one they run beside.
 * They are given one run of several: ten thousand node-days are for farpulse's mistakes, which are rarer.
 *
 * @param runs how many runs of the scenario, each with another seed
 * @param keep is given the rows so far after every run: a broken-off bench keeps what it has
 */
export function liveThrough(
  scenario: Scenario,
  variant: Variant,
  forMs: number,
  runs: number,
  keep: (rows: readonly Row[]) => void,
): void {
  const tallies = new Map<string, Tally[]>();
  const startedAtMs = performance.now();
  let doneMs = 0;
  const progress = (nodeMs: number): void => {
    const perSecond = (doneMs + nodeMs) / DAY_MS / ((performance.now() - startedAtMs) / 1_000);
    const nodeDays = ((doneMs + nodeMs) / DAY_MS).toFixed(1);
    process.stderr.write(
      `\r${scenario.name} ${variant.name}: ${nodeDays} node-days, ${perSecond.toFixed(1)} a second  `,
    );
  };
  for (let run = 0; run < runs; run++) {
    const isTraced = run === 0 && variant.name === TRACED;
    const each = live(scenario, variant, forMs, FIRST_SEED + run, isTraced, progress);
    for (const [detector, tally] of each) {
      const before = tallies.get(detector);
      if (before === undefined) tallies.set(detector, [tally]);
      else before.push(tally);
    }
    doneMs += each.get(variant.name)?.nodeMs ?? 0;
    keep(Array.from(tallies, ([detector, its]) => rowOf(detector, scenario.name, its)));
  }
  process.stderr.write('\n');
}

function live(
  scenario: Scenario,
  { name, policy, leases }: Variant,
  forMs: number,
  seed: number,
  isTraced: boolean,
  progress: (nodeMs: number) => void,
): ReadonlyMap<string, Tally> {
  const simulation = new Simulation({
    seed,
    nodes: scenario.nodes,
    shards: Math.ceil(scenario.nodes / 1_000),
    policy,
    leases,
    startMs: FAST_START_MS,
    ...(scenario.uplink !== undefined && { uplink: scenario.uplink }),
  });
  const own = new Score(name, simulation);
  const scores: Score[] = [own];
  if (isTraced) {
    scores.push(...watchBeats(simulation, timeoutMs(policy, policy.intervalMs)));
    scores.push(watchLeases(simulation, 40_000), watchLeases(simulation, 50_000));
  }
  const { metrics } = simulation;
  metrics.observers.push(...scores);
  metrics.onUnknownOf = (machine) => own.accuse(machine);
  metrics.onReadyOf = (machine) => own.trust(machine);
  scenario.plan(simulation);

  let nodeMs = 0;
  const sliceMs = Math.min(forMs, DAY_MS / 8);
  for (let doneMs = 0; doneMs < forMs; doneMs += sliceMs) {
    const nextMs = Math.min(sliceMs, forMs - doneMs);
    simulation.run(nextMs);
    nodeMs += nextMs * simulation.api.nodes.size;
    progress(nodeMs);
  }
  const { reads, lists } = simulation.api;
  return new Map(
    scores.map((score) => [
      score.detector,
      score === own ? score.tally(nodeMs, reads + lists, metrics.detectionsMs) : score.tally(nodeMs, 0),
    ]),
  );
}
