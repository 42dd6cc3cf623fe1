// The figures for people: markdown, so that the page and the terminal show the same.
import { DETECTORS, MEASURES, rowOf, type Detector, type Measure, type Row } from './figures.ts';

/** How many times faster than the built-in detector, until the endpoint is gone. */
interface Target {
  readonly detector: Detector;
  readonly at: 'median' | 'maximum';
  readonly times: number;
}

const TARGETS: readonly Target[] = [
  { detector: 'farpulse-steady', at: 'median', times: 2.5 },
  { detector: 'farpulse-steady', at: 'maximum', times: 2 },
  { detector: 'farpulse-fast', at: 'median', times: 6 },
  { detector: 'farpulse-steady-external', at: 'median', times: 2.2 },
  { detector: 'farpulse-fast-external', at: 'median', times: 5 },
];

const TITLES: Readonly<Record<Measure, string>> = {
  unknown: 'Ready=Unknown',
  podsNotReady: 'pods NotReady',
  endpointGone: 'endpoint gone',
  noSchedule: 'NoSchedule taint',
  noExecute: 'NoExecute taint',
};

/** About the run that made the rows. */
export interface RunFacts {
  readonly kubernetes: string;
  readonly cores: number;
  readonly seed: number;
  readonly wrongVerdicts: number;
  readonly wonByOthers: number;
}

/** Everything the run has to say. */
export function markdownOf(rows: readonly Row[], facts: RunFacts): string {
  const plain = DETECTORS.filter((detector) => !detector.endsWith('-controller-restart'));
  const restarted = DETECTORS.filter((detector) => detector.endsWith('-controller-restart'));
  return [
    'Seconds from kill -9, median / p95 / maximum:',
    times(rows, plain, MEASURES),
    'Times faster than the built-in detector, at the median / at the maximum:',
    ratios(
      rows,
      plain.filter((detector) => detector !== 'builtin'),
    ),
    'Against the targets, until the endpoint is gone:',
    targets(rows),
    'The controller is killed and started again 10 s after the node; seconds from kill -9 of the node, median / p95 / maximum:',
    times(rows, restarted, ['unknown']),
    `Kubernetes ${facts.kubernetes}, ${facts.cores} cores, seed ${facts.seed}. Wrong verdicts in the run: ${facts.wrongVerdicts}. ` +
      `Kills that another detector won: ${facts.wonByOthers}.`,
  ].join('\n\n');
}

function times(rows: readonly Row[], detectors: readonly Detector[], measures: readonly Measure[]): string {
  return markdownTable(
    ['detector', 'kills', ...measures.map((measure) => TITLES[measure])],
    detectors.map((detector) => {
      const own = measures.map((measure) => rowOf(rows, detector, measure));
      const cells = own.map((row) =>
        row === undefined ? '' : [row.medianSeconds, row.p95Seconds, row.maxSeconds].map(tenths).join(' / '),
      );
      return [`\`${detector}\``, own[0] === undefined ? 'not measured' : String(own[0].kills), ...cells];
    }),
  );
}

function ratios(rows: readonly Row[], detectors: readonly Detector[]): string {
  return markdownTable(
    ['detector', ...MEASURES.map((measure) => TITLES[measure])],
    detectors.map((detector) => [
      `\`${detector}\``,
      ...MEASURES.map((measure) =>
        (['median', 'maximum'] as const)
          .map((at) => ratio(rows, detector, measure, at))
          .flatMap((value) => (value === undefined ? [] : tenths(value)))
          .join(' / '),
      ),
    ]),
  );
}

function targets(rows: readonly Row[]): string {
  return markdownTable(
    ['detector', 'at the', 'target', 'measured', ''],
    TARGETS.map(({ detector, at, times: least }) => {
      const value = ratio(rows, detector, 'endpointGone', at);
      const target = `at least ${least} times`;
      // Compared as measured, not as rounded for show.
      if (value === undefined) return [`\`${detector}\``, at, target, '', 'not measured'];
      return [`\`${detector}\``, at, target, value.toFixed(2), value >= least ? 'met' : 'not met'];
    }),
  );
}

function ratio(
  rows: readonly Row[],
  detector: Detector,
  measure: Measure,
  at: Target['at'],
): number | undefined {
  const builtin = rowOf(rows, 'builtin', measure);
  const own = rowOf(rows, detector, measure);
  if (builtin === undefined || own === undefined) return undefined;
  return at === 'median' ? builtin.medianSeconds / own.medianSeconds : builtin.maxSeconds / own.maxSeconds;
}

const tenths = (value: number): string => value.toFixed(1);

function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

const BEGIN = '<!-- begin: npm run bench:detection -->';
const END = '<!-- end: npm run bench:detection -->';

/**
 * A page with what is between its markers replaced.
 *
 * @throws when the page does not have each marker once, in order
 */
export function withFigures(page: string, markdown: string): string {
  const [before, rest, ...more] = page.split(BEGIN);
  const [old, after, ...further] = (rest ?? '').split(END);
  if (before === undefined || old === undefined || after === undefined || more.length + further.length > 0)
    throw new Error(`the page must have "${BEGIN}" and then "${END}", each once`);
  return `${before}${BEGIN}\n\n${markdown}\n\n${END}${after}`;
}
