import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** One measured value. */
export interface ResultRow {
  readonly system: string;
  readonly measure: string;
  readonly value: number;
  readonly unit: string;
}

/** Writes `bench/results/<name>.json`, a row a line; returns the path from the repository's root. */
export async function writeResults(name: string, rows: readonly ResultRow[]): Promise<string> {
  const folder = join(import.meta.dirname, '../results');
  await mkdir(folder, { recursive: true });
  const lines = rows.map((row) => `  ${JSON.stringify(row)}`);
  await writeFile(join(folder, `${name}.json`), `[\n${lines.join(',\n')}\n]\n`);
  return `bench/results/${name}.json`;
}
