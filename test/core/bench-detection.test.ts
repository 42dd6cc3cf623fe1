import { describe, expect, test } from 'vitest';

import { rowsOf, wonByOther, wrongVerdicts, type Kill, type Row } from '../../bench/detection/figures.ts';
import { markdownOf, withFigures } from '../../bench/detection/table.ts';

function kill(over: Partial<Kill>): Kill {
  return { detector: 'builtin', node: 'node-1', seconds: {}, reason: 'NodeStatusUnknown', ...over };
}

describe('rows', () => {
  test('have the nearest rank: a value that was measured, and the maximum as the 95th of few', () => {
    const kills = [41, 53, 44, 47].map((unknown) => kill({ seconds: { unknown } }));
    expect(rowsOf(kills)).toEqual([
      {
        detector: 'builtin',
        measure: 'unknown',
        kills: 4,
        medianSeconds: 44,
        p95Seconds: 53,
        maxSeconds: 53,
      },
    ]);
  });

  test('leave the highest of twenty out of the 95th', () => {
    const kills = Array.from({ length: 20 }, (_, index) => kill({ seconds: { unknown: index + 1 } }));
    expect(rowsOf(kills)).toMatchObject([{ medianSeconds: 10, p95Seconds: 19, maxSeconds: 20 }]);
  });

  test('are apart by detector and measure, in the order of the page', () => {
    const rows = rowsOf([
      kill({
        detector: 'farpulse-fast',
        reason: 'FarpulseHostSilent',
        seconds: { noExecute: 9, unknown: 6 },
      }),
      kill({ seconds: { unknown: 46.04, endpointGone: 46.128 } }),
    ]);
    expect(rows.map(({ detector, measure, maxSeconds }) => [detector, measure, maxSeconds])).toEqual([
      ['builtin', 'unknown', 46.04],
      ['builtin', 'endpointGone', 46.13],
      ['farpulse-fast', 'unknown', 6],
      ['farpulse-fast', 'noExecute', 9],
    ]);
  });

  test('count a kill that another detector won with the seconds it took', () => {
    const lost = kill({ detector: 'farpulse-steady', seconds: { unknown: 48 } });
    expect(wonByOther(lost)).toBe(true);
    expect(rowsOf([lost])).toMatchObject([{ kills: 1, maxSeconds: 48 }]);
  });
});

test.for([
  { name: 'the controller for its own', detector: 'builtin', reason: 'NodeStatusUnknown', other: false },
  { name: 'farpulse for a node of nobody', detector: 'builtin', reason: 'FarpulseHostSilent', other: true },
  { name: 'farpulse for its own', detector: 'farpulse-fast', reason: 'FarpulseHostSilent', other: false },
  {
    name: 'the controller for one of farpulse',
    detector: 'farpulse-steady-external',
    reason: 'NodeStatusUnknown',
    other: true,
  },
  {
    name: 'the controller after its restart',
    detector: 'builtin-controller-restart',
    reason: 'NodeStatusUnknown',
    other: false,
  },
] as const)('who won: $name', ({ detector, reason, other }) => {
  expect(wonByOther(kill({ detector, reason }))).toBe(other);
});

describe('wrong verdicts', () => {
  const absences = [
    { node: 'node-1', fromMs: 1_000, untilMs: 2_000 },
    { node: 'node-2', fromMs: 5_000 },
  ];
  test.for([
    { name: 'a dead node is called dead', node: 'node-1', atMs: 1_500, status: 'Unknown', wrong: false },
    {
      name: 'a node on its way back is not Ready yet',
      node: 'node-1',
      atMs: 2_000,
      status: 'False',
      wrong: false,
    },
    { name: 'one that nobody has killed yet', node: 'node-1', atMs: 999, status: 'Unknown', wrong: true },
    { name: 'one that is back', node: 'node-1', atMs: 2_001, status: 'Unknown', wrong: true },
    { name: 'a neighbour of a dead node', node: 'node-3', atMs: 1_500, status: 'Unknown', wrong: true },
    { name: 'one that is not back yet', node: 'node-2', atMs: 99_000, status: 'Unknown', wrong: false },
    { name: 'one that is Ready', node: 'node-3', atMs: 1_500, status: 'True', wrong: false },
  ])('$name', ({ node, atMs, status, wrong }) => {
    const seen = { node, atMs, status, reason: '' };
    expect(wrongVerdicts([seen], absences)).toEqual(wrong ? [seen] : []);
  });
});

describe('the page', () => {
  const facts = { kubernetes: 'v1.37.2', cores: 2, seed: 1, wrongVerdicts: 0, wonByOthers: 0 };
  const row = (detector: Row['detector'], medianSeconds: number, maxSeconds: number): Row => ({
    detector,
    measure: 'endpointGone',
    kills: 15,
    medianSeconds,
    p95Seconds: maxSeconds,
    maxSeconds,
  });

  test('compares with the built-in detector as measured, not as rounded', () => {
    const page = markdownOf(
      [row('builtin', 47.5, 52), row('farpulse-steady', 19, 27), row('farpulse-fast', 7.92, 9)],
      facts,
    );
    expect(page).toContain('| `farpulse-steady` | median | at least 2.5 times | 2.50 | met |');
    expect(page).toContain('| `farpulse-steady` | maximum | at least 2 times | 1.93 | not met |');
    // 5.997 looks like 6.00 and is less.
    expect(page).toContain('| `farpulse-fast` | median | at least 6 times | 6.00 | not met |');
    expect(page).toContain('| `farpulse-fast-external` | median | at least 5 times |  | not measured |');
    expect(page).toContain('Wrong verdicts in the run: 0.');
  });

  const begin = '<!-- begin: npm run bench:detection -->';
  const end = '<!-- end: npm run bench:detection -->';

  test('keeps all but what is between its markers, however often', () => {
    const page = withFigures(`# Title\n${begin}\nold\n${end}\nafter\n`, 'new');
    expect(page).toBe(`# Title\n${begin}\n\nnew\n\n${end}\nafter\n`);
    expect(withFigures(page, 'new')).toBe(page);
  });

  test.for([
    { name: 'no marker', page: 'text' },
    { name: 'no end', page: `${begin} text` },
    { name: 'the wrong order', page: `${end} ${begin}` },
    { name: 'two of them', page: `${begin}${end}${begin}${end}` },
  ])('is left alone with $name', ({ page }) => {
    expect(() => withFigures(page, 'new')).toThrow('each once');
  });
});
