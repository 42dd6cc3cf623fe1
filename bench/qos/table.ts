import type { Row } from './score.ts';
import type { Finding, Target } from './targets.ts';

const HEAD = [
  'detector',
  'node-days',
  'deaths',
  'p50 s',
  'p99 s',
  'max s',
  'mistakes',
  'partitions',
  'mean mistake s',
  'right',
  'writes',
  'API reads',
];

/** The rows as markdown, one table per scenario. */
export function rowsAsMarkdown(rows: readonly Row[]): string {
  const byScenario = Map.groupBy(rows, (row) => row.scenario);
  const tables = Array.from(
    byScenario,
    ([scenario, its]) => `### ${scenario}\n\n${tableOf(HEAD, its.map(cellsOf))}`,
  );
  return tables.join('\n\n');
}

const VARIANT_HEAD = ['what was turned', ...HEAD.slice(1, 8)];

/** What one knob does, each beside the row without it. */
export function variantsAsMarkdown(variants: readonly Row[], rows: readonly Row[]): string {
  const byScenario = Map.groupBy(variants, (row) => row.scenario);
  const tables = Array.from(byScenario, ([scenario, its]) => {
    const names = new Set(its.map(({ detector }) => plainNameOf(detector)));
    const plain = rows.filter((row) => row.scenario === scenario && names.has(row.detector));
    const lines = [...plain, ...its]
      .toSorted((a, b) => (a.detector < b.detector ? -1 : 1))
      .map((row) => cellsOf(row).slice(0, 8));
    return `### Knobs in ${scenario}\n\n${tableOf(VARIANT_HEAD, lines)}`;
  });
  return tables.join('\n\n');
}

/** The margin that follows a node's own lateness is compared with the fixed timeout. */
function plainNameOf(detector: string): string {
  const [name = detector] = detector.split(' ');
  return name === 'fixed-own-lateness' ? 'fixed' : name;
}

/** One line per target and verdict: those that meet it, and those that do not. */
export function targetsAsMarkdown(targets: readonly Target[]): string {
  const lines = targets.flatMap(({ name, findings }) =>
    [true, false, undefined].flatMap((met) => {
      const its = findings.filter((finding) => finding.met === met);
      return its.length === 0 ? [] : [[name, wordFor(met), its.map(phraseOf).join('; ')]];
    }),
  );
  return tableOf(['target', '', 'figures (p50 / p99)'], lines);
}

function wordFor(met: boolean | undefined): string {
  if (met === undefined) return 'not measured';
  return met ? 'met' : '**not met**';
}

function phraseOf({ of, figure }: Finding): string {
  return `${of.replace('farpulse-', '')}: ${figure}`;
}

function cellsOf(row: Row): readonly string[] {
  return [
    row.detector,
    row.nodeDays.toFixed(0),
    `${row.deaths}`,
    fixed(row.p50Seconds),
    fixed(row.p99Seconds),
    fixed(row.maxSeconds),
    `${row.mistakes}`,
    `${row.partitions}`,
    fixed(row.meanMistakeSeconds),
    row.rightProbability.toFixed(6),
    `${row.writes}`,
    row.detector.startsWith('farpulse') ? `${row.apiReads}` : '',
  ];
}

function fixed(value: number | undefined): string {
  return value === undefined ? '' : value.toFixed(1);
}

function tableOf(head: readonly string[], lines: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
