import { setTimeout as delay } from 'node:timers/promises';
import { pinToCpu } from '../support/cpu.ts';
import { usageOf } from '../support/usage.ts';
import type { Farpulse } from './farpulse.ts';
import type { Load } from './load.ts';
import type { LoadResult } from './tally.ts';

export const TARGET_PER_SECOND = 1_000;

/**
 * Only upwards, and the first that is not held is the last: observers that have been overloaded take their time to
 * recover, and would spoil whatever came next.
 */
const RATES = [250, 500, 750, 1_000, 1_250, 1_500, 1_750, 2_000, 2_500, 3_000] as const;

/** Held means: everybody recorded every beat, and the slowest hundredth was answered within this. */
const MAX_P99_MS = 1_000;
/** A generator that lags by more has not sent what it says. */
const MAX_BEHIND_MS = 250;

/** Between two steps, at the pace of every day. */
const PAUSE_MS = 3_000;
/** The last answers of an overload may take as long. */
const MAX_ANSWER_MS = 10_000;

export interface Step {
  readonly perSecond: number;
  readonly held: boolean;
  readonly load: LoadResult;
  readonly cpuMsPerBeat: number;
}

/** Beats that all steps together may need, with the pauses between them. */
export function beatsForSaturation(seconds: number, pausePerSecond: number): number {
  const pauseSeconds = (PAUSE_MS + MAX_ANSWER_MS) / 1000;
  return RATES.reduce<number>(
    (sum, perSecond) => sum + perSecond * seconds + pausePerSecond * pauseSeconds,
    0,
  );
}

/** Raises the pace until it is no longer held, with all of workerd on one core and the generator on another. */
export async function saturate(
  farpulse: Farpulse,
  load: Load,
  seconds: number,
  pausePerSecond: number,
  say: (line: string) => void,
): Promise<readonly Step[]> {
  for (const pid of farpulse.pids) await pinToCpu(pid, 0);
  await pinToCpu(load.pid, 1);
  const steps: Step[] = [];
  for (const perSecond of RATES) {
    const step = await tryOne(farpulse, load, perSecond, seconds, pausePerSecond);
    steps.push(step);
    say(describe(step));
    if (!step.held) break;
  }
  return steps;
}

export function highestHeld(steps: readonly Step[]): number {
  return Math.max(0, ...steps.filter(({ held }) => held).map(({ perSecond }) => perSecond));
}

async function tryOne(
  farpulse: Farpulse,
  load: Load,
  perSecond: number,
  seconds: number,
  pausePerSecond: number,
): Promise<Step> {
  await delay(PAUSE_MS);
  await load.next(perSecond);
  const before = usageOf(farpulse.pids).cpuMs;
  await delay(seconds * 1000);
  const result = await load.next(pausePerSecond);
  const cpuMs = usageOf(farpulse.pids).cpuMs - before;
  return {
    perSecond,
    held: result.errors === 0 && result.p99FromDueMs < MAX_P99_MS && result.behindMaxMs < MAX_BEHIND_MS,
    load: result,
    cpuMsPerBeat: cpuMs / Math.max(1, result.beats),
  };
}

function describe({ perSecond, held, load, cpuMsPerBeat }: Step): string {
  const parts = [
    `${perSecond} a second ${held ? 'held' : 'not held'}`,
    `p50 ${load.p50Ms.toFixed(1)} ms, p99 ${load.p99FromDueMs.toFixed(0)} ms`,
    `${load.errors} errors`,
    `${cpuMsPerBeat.toFixed(2)} ms CPU a beat`,
    `generator ${(load.generatorCpuMsPerSecond / 10).toFixed(0)} % of its core, at most ${load.behindMaxMs.toFixed(0)} ms behind`,
  ];
  return parts.join('; ') + (load.firstError === undefined ? '' : ` (first: ${load.firstError})`);
}
