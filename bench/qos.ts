/**
 * The figures of detection: `npm run bench:qos [-- --quick] [--hours=<n>] [--only=<scenario>,...]
 * [--detectors=<variant>,...] [--set=<policy knob>=<value>,...] [--const=<CONSTANT>=<value>,...]`, or `-- --document`.
 *
 * Every scenario is lived through once for each variant of farpulse, with the production core in the simulator; the
 * known detectors run beside `farpulse-steady` on the very same beats. Rows are merged into bench/results/qos.json, and
 * docs/detection-quality.md gets its tables from there. With a knob turned (`--set=marginMs=0`, `--const=CANARY_MS=0`)
 * they go to bench/results/qos-variants.json instead, under the detector's name and what was turned.
 */
import { parseArgs } from 'node:util';
import { turnConstants } from './qos/knobs.ts';
import type { Row } from './qos/score.ts';

const HOUR_MS = 3_600_000;
/** A quick run takes minutes and says little about rare mistakes. */
const QUICK_HOURS = 2;

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    detectors: { type: 'string' },
    /** No scenario is run longer than this, nor more than once, then. */
    hours: { type: 'string' },
    set: { type: 'string' },
    const: { type: 'string' },
    /** Runs nothing; writes the document from the rows that are there. */
    document: { type: 'boolean', default: false },
  },
});

const constants = pairsOf(values.const);
const unfound = turnConstants(constants);
// Only now: what these import is changed on the way in.
const { SCENARIOS } = await import('../test/support/simulator/scenario.ts');
const { liveThrough, OWN_LATENESS, variants } = await import('./qos/run.ts');
const { load, merge, RESULTS, VARIANT_RESULTS } = await import('./qos/results.ts');
const { writeDocument } = await import('./qos/document.ts');

if (unfound().length > 0) throw new Error(`no such constant: ${unfound().join(', ')}`);
if (!values.document) run();
writeDocument(load(RESULTS), load(VARIANT_RESULTS));

function run(): void {
  const settings = pairsOf(values.set);
  const turned = [...settings, ...constants].map(([name, value]) => `${name}=${value}`).join(' ');
  const policy = Object.fromEntries(
    Array.from(settings, ([name, value]) => [name, /^\d+$/.test(value) ? Number(value) : value]),
  );
  const hours = values.quick ? QUICK_HOURS : values.hours === undefined ? undefined : Number(values.hours);
  for (const variant of variants(policy)) {
    if (values.detectors?.split(',').includes(variant.name) === false) continue;
    for (const scenario of SCENARIOS) {
      if (values.only?.split(',').includes(scenario.name) === false) continue;
      const forMs = Math.min(scenario.forMs, (hours ?? Number.POSITIVE_INFINITY) * HOUR_MS);
      const runs = hours === undefined ? (scenario.runs ?? 1) : 1;
      liveThrough(scenario, variant, forMs, runs, (rows) => keep(rows, turned));
    }
  }
}

function keep(rows: readonly Row[], turned: string): void {
  const isPublished = ({ detector }: Row): boolean => turned === '' && detector !== OWN_LATENESS;
  // A known detector has no knob of ours.
  const isVariant = ({ detector }: Row): boolean =>
    turned === '' ? detector === OWN_LATENESS : detector.startsWith('farpulse');
  merge(RESULTS, rows.filter(isPublished));
  merge(
    VARIANT_RESULTS,
    rows
      .filter(isVariant)
      .map((row) => (turned === '' ? row : { ...row, detector: `${row.detector} ${turned}` })),
  );
}

function pairsOf(text: string | undefined): ReadonlyMap<string, string> {
  const pairs = text?.split(',').map((pair): [string, string] => {
    const [name = '', value = ''] = pair.split('=');
    if (name === '' || value === '') throw new Error(`not name=value: ${pair}`);
    return [name, value];
  });
  return new Map(pairs);
}
