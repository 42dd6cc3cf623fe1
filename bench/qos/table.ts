import type { Row } from './score.ts';

const HEAD = [
  'detector',
  'node-days',
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
export function markdownOf(rows: readonly Row[]): string {
  const byScenario = Map.groupBy(rows, (row) => row.scenario);
  const tables = Array.from(byScenario, ([scenario, its]) => {
    const lines = its.map((row) => line(cellsOf(row)));
    return [`### ${scenario}`, '', line(HEAD), line(HEAD.map(() => '---')), ...lines, ''].join('\n');
  });
  return `${tables.join('\n')}\n`;
}

function cellsOf(row: Row): readonly string[] {
  return [
    row.detector,
    row.nodeDays.toFixed(0),
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

function line(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}
