import type { Transport } from './fleet.ts';
import type { ResultRow } from '../support/results.ts';
import { table } from '../support/table.ts';
import { highestHeld, TARGET_PER_SECOND, type Step } from './saturation.ts';
import type { Cost, SideBySide } from './side-by-side.ts';

/** A beat may cost at most this share of a renewal. */
const MAX_CPU_RATIO = 1 / 3;
const MAX_WRITTEN_RATIO = 1 / 50;

/** All of one transport. */
export interface Measured {
  readonly sideBySide: SideBySide;
  readonly steps: readonly Step[];
}

interface Line {
  readonly measure: string;
  readonly unit: string;
  readonly digits: number;
  readonly farpulse: number;
  readonly lease?: number;
  readonly target?: { readonly text: string; readonly met: boolean };
}

function linesOf({ sideBySide: { farpulse, lease }, steps }: Measured): readonly Line[] {
  const held = highestHeld(steps);
  const compare = (
    measure: string,
    unit: string,
    digits: number,
    pick: (cost: Cost) => number,
    maxRatio?: number,
  ): Line => ({
    measure,
    unit,
    digits,
    farpulse: pick(farpulse),
    lease: pick(lease),
    ...(maxRatio !== undefined && {
      target: {
        text: `at most 1/${Math.round(1 / maxRatio)}`,
        met: pick(farpulse) <= pick(lease) * maxRatio,
      },
    }),
  });
  return [
    compare('CPU per heartbeat', 'ms', 2, (cost) => cost.cpuMsPerHeartbeat, MAX_CPU_RATIO),
    compare(
      'written to disk per heartbeat',
      'bytes',
      0,
      (cost) => cost.writtenBytesPerHeartbeat,
      MAX_WRITTEN_RATIO,
    ),
    compare('latency p50', 'ms', 1, (cost) => cost.p50Ms),
    compare('latency p99', 'ms', 1, (cost) => cost.p99Ms),
    compare('resident memory', 'MB', 0, (cost) => cost.residentBytes / 1e6),
    compare('heartbeats', '', 0, (cost) => cost.heartbeats),
    compare('errors', '', 0, (cost) => cost.errors),
    {
      measure: 'heartbeats a second held on one core',
      unit: '',
      digits: 0,
      farpulse: held,
      target: { text: `at least ${TARGET_PER_SECOND}`, met: held >= TARGET_PER_SECOND },
    },
  ];
}

/** For people. */
export function tableOf(measured: Measured): string {
  const rows = linesOf(measured).map(({ measure, unit, digits, farpulse, lease, target }) => [
    unit === '' ? measure : `${measure}, ${unit}`,
    farpulse.toFixed(digits),
    lease?.toFixed(digits) ?? '',
    lease === undefined || lease === 0 || measure === 'heartbeats' ? '' : ratio(farpulse / lease),
    target?.text ?? '',
    target === undefined ? '' : target.met ? 'met' : 'not met',
  ]);
  return table(['', 'farpulse', 'lease', 'ratio', 'target', ''], rows);
}

function ratio(value: number): string {
  return value < 0.1 ? `1/${(1 / value).toFixed(0)}` : value.toFixed(2);
}

/**
 * For machines: `bench/results/ingest.json`. `farpulse` and `lease` ran at the same time, with beats by socket;
 * `farpulse-https` and `lease-beside-https` after them.
 */
export function rowsOf(measured: ReadonlyMap<Transport, Measured>): readonly ResultRow[] {
  return [...measured].flatMap(([transport, one]) => {
    const isDefault = transport === 'websocket';
    return linesOf(one).flatMap(({ measure, unit, digits, farpulse, lease }) => {
      const row = (system: string, value: number): ResultRow => ({
        system,
        measure,
        value: Number(value.toFixed(digits + 1)),
        unit: unit === '' ? 'count' : unit,
      });
      return [
        row(isDefault ? 'farpulse' : 'farpulse-https', farpulse),
        ...(lease === undefined ? [] : [row(isDefault ? 'lease' : 'lease-beside-https', lease)]),
      ];
    });
  });
}
