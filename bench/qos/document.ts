import { readFileSync, writeFileSync } from 'node:fs';
import type { Row } from './score.ts';
import { rowsAsMarkdown, targetsAsMarkdown, variantsAsMarkdown } from './table.ts';
import { targetsOf } from './targets.ts';

const DOCUMENT = new URL('../../docs/detection-quality.md', import.meta.url);

/** Puts the figures into the document. */
export function writeDocument(rows: readonly Row[], variants: readonly Row[]): void {
  writeFileSync(DOCUMENT, withFigures(readDocument(), rows, variants));
}

export function readDocument(): string {
  return readFileSync(DOCUMENT, 'utf8');
}

/** The document with its three marked parts made anew. */
export function withFigures(text: string, rows: readonly Row[], variants: readonly Row[]): string {
  const parts = {
    targets: targetsAsMarkdown(targetsOf(rows)),
    rows: rowsAsMarkdown(rows),
    knobs: variantsAsMarkdown(variants, rows),
  };
  return Object.entries(parts).reduce((whole, [name, part]) => withPart(whole, name, part), text);
}

function withPart(text: string, name: string, part: string): string {
  const begin = `<!-- begin: npm run bench:qos, ${name} -->`;
  const end = `<!-- end: npm run bench:qos, ${name} -->`;
  const [before, rest] = text.split(begin);
  const after = rest?.split(end)[1];
  if (before === undefined || after === undefined)
    throw new Error(`docs/detection-quality.md has no part ${name}`);
  return `${before}${begin}\n\n${part}\n\n${end}${after}`;
}
