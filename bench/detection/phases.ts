// The parts of a run. One control plane at a time: two cores.
import { setTimeout as delay } from 'node:timers/promises';

import { startControlPlane, type ControlPlane } from '../../test/cluster/control-plane.ts';
import { Random } from '../../test/support/simulator/random.ts';
import { wonByOther, wrongVerdicts, type Detector, type Kill, type ReadySeen } from './figures.ts';
import { Group, nodeNames } from './group.ts';
import { PRESETS, startJudges } from './judges.ts';

/** Kubernetes' defaults. Nothing else is given to the controller. */
const BUILTIN = { nodeMonitorGracePeriodSeconds: 50, nodeMonitorPeriodSeconds: 5 };

/** A Lease's period, and the longest interval of beats: a kill anywhere in it is a kill at a random phase. */
const PERIOD_MS = 10_000;

/** After the kill, before the earliest verdict of `steady`. */
const RESTART_AFTER_MS = 10_000;

export type Say = (line: string) => void;

export interface Plan {
  /** At least, of each detector. */
  readonly kills: number;
  readonly restarts: number;
  readonly seed: number;
  readonly say: Say;
  /** Each kill as soon as it is measured, so that a part that fails keeps what it has. */
  readonly record: (kill: Kill) => void;
}

/** Everything that runs on one control plane, in the order in which it was started. */
export interface Rig {
  readonly plane: ControlPlane;
  /** Its version. */
  readonly kubernetes: string;
  readonly groups: ReadonlyMap<string, Group>;
}

/** Released Kubernetes: `compat`, beside nodes that only the controller judges. */
export function startCompat(stack: AsyncDisposableStack, say: Say): Promise<Rig> {
  return startRig(stack, ['builtin', ...PRESETS], 'compat', say);
}

/** A controller with an external source of liveness: nobody but farpulse judges anybody. */
export function startExternal(stack: AsyncDisposableStack, say: Say): Promise<Rig> {
  return startRig(stack, PRESETS, 'external', say);
}

async function startRig(
  stack: AsyncDisposableStack,
  names: readonly string[],
  mode: 'compat' | 'external',
  say: Say,
): Promise<Rig> {
  say(`${mode}: starting a control plane, the Worker, and the nodes of ${names.join(', ')}`);
  const plane = await startControlPlane({
    ...BUILTIN,
    nodeLivenessSource: mode === 'external' ? 'external' : 'kubelet',
    nodeNames: names.flatMap(nodeNames),
  });
  stack.defer(() => plane.stop());
  const judges = await startJudges(stack, plane, mode);
  const groups = new Map<string, Group>();
  for (const name of names) {
    groups.set(name, await Group.start(stack, { plane, name, judge: judges.get(name) }));
    say(`${mode}: the nodes of ${name} are up`);
  }
  const { gitVersion } = await plane.request<{ readonly gitVersion: string }>('GET', '/version');
  return { plane, kubernetes: gitVersion, groups };
}

/**
 * All groups at once, in each of them one node at a time. Those that are done sooner go on until the last one has its
 * kills: more figures in the same time.
 */
export async function killSideBySide(
  { groups }: Rig,
  detectors: Readonly<Record<string, Detector>>,
  { kills, seed, say, record }: Plan,
): Promise<void> {
  const random = new Random(seed);
  const each = Object.entries(detectors).map(([name, detector]) => ({
    group: groupOf(groups, name),
    detector,
    random: random.fork(),
    done: 0,
  }));
  const isOver = (): boolean => each.every(({ done }) => done >= kills);
  await Promise.all(
    each.map(async (own) => {
      while (!isOver()) {
        await delay(own.random.between(0, PERIOD_MS));
        const death = own.group.kill();
        const kill = await death.measure(own.detector);
        record(kill);
        own.done += 1;
        say(`${own.detector} ${own.done}/${kills}: ${lineOf(kill)}`);
        await own.group.bringBack(death);
      }
    }),
  );
}

/** The controller dies with a node and is back at once: how long does the node go unnoticed then? */
export async function killWithController(
  { plane, groups }: Rig,
  { restarts, seed, say, record }: Plan,
): Promise<void> {
  const random = new Random(seed + 1);
  const pairs = [
    [groupOf(groups, 'builtin'), 'builtin-controller-restart'],
    [groupOf(groups, 'steady'), 'farpulse-steady-controller-restart'],
  ] as const;
  for (let run = 1; run <= restarts; run++) {
    await delay(random.between(0, PERIOD_MS));
    const dying = pairs.map(([group, detector]) => ({ group, detector, death: group.kill() }));
    const restarted = delay(RESTART_AFTER_MS).then(() => plane.restartControllerManager());
    const measured = dying.map(async ({ group, detector, death }) => {
      const kill = await death.measureUnknown(detector);
      record(kill);
      say(`${detector} ${run}/${restarts}: ${lineOf(kill)}`);
      await group.bringBack(death);
    });
    await Promise.all([restarted, ...measured]);
  }
}

/** Nodes that were called something else than Ready although nobody had touched them. */
export function wrongVerdictsOf({ groups }: Rig): ReadySeen[] {
  const all = [...groups.values()];
  return wrongVerdicts(
    all.flatMap((group) => group.readySeen()),
    all.flatMap((group) => group.absences),
  );
}

function groupOf(groups: ReadonlyMap<string, Group>, name: string): Group {
  const group = groups.get(name);
  if (group === undefined) throw new Error(`no group ${name}`);
  return group;
}

function lineOf(kill: Kill): string {
  const seconds = Object.entries(kill.seconds).map(([measure, value]) => `${measure} ${value.toFixed(1)}`);
  const winner = wonByOther(kill) ? `  WON BY ANOTHER DETECTOR: ${kill.reason}` : '';
  return `${kill.node}  ${seconds.join('  ')}${winner}`;
}
