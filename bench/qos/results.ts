import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { SCENARIOS } from '../../test/support/simulator/scenario.ts';
import type { Row } from './score.ts';

/** Rows by farpulse as it is, and the known detectors. */
export const RESULTS = new URL('../results/qos.json', import.meta.url);
/** Rows with a knob turned, which explain the defaults. */
export const VARIANT_RESULTS = new URL('../results/qos-variants.json', import.meta.url);

export function load(file: URL): readonly Row[] {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as readonly Row[];
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** Merged at once: several runs may share the work, and a broken-off one keeps what it has. */
export function merge(file: URL, rows: readonly Row[]): void {
  if (rows.length === 0) return;
  const kept = load(file).filter(
    (row) => !rows.some((now) => now.detector === row.detector && now.scenario === row.scenario),
  );
  const order = SCENARIOS.map(({ name }) => name);
  const all = [...kept, ...rows].toSorted(
    (a, b) => order.indexOf(a.scenario) - order.indexOf(b.scenario) || (a.detector < b.detector ? -1 : 1),
  );
  mkdirSync(new URL('.', file), { recursive: true });
  writeFileSync(file, `[\n${all.map((row) => `  ${JSON.stringify(row)}`).join(',\n')}\n]\n`);
}
