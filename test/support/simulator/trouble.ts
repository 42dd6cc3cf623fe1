import type { Machine } from './machine.ts';
import type { ObserverHost } from './observer-host.ts';
import type { Simulation } from './simulation.ts';

/** What may befall a node. */
export const NODE_TROUBLES = [
  'crash',
  'network-cut',
  'beacon-path-cut',
  'api-path-cut',
  'kubelet-stop',
  'beacon-stop',
  'beacon-leaves',
  'host-leaves',
  'reboot',
  'loss',
  'clock-jump',
  'stall',
] as const;

/** What may befall farpulse, without keeping a quorum of regions from hearing. */
export const OWN_TROUBLES = [
  'one-region-cut',
  'one-region-lossy',
  'observer-restart',
  'all-observers-restart',
  'observer-evicted',
  'observer-stall',
  'arbiter-restart',
  'arbiter-evicted',
  'arbiter-stall',
  'observer-alarms-lost',
  'arbiter-alarms-late',
  'arbiter-clock-jump',
  'observer-clock-jump',
] as const;

/** What may befall the cluster's API server. */
export const API_TROUBLES = ['api-unreachable', 'api-busy', 'leases-forbidden'] as const;

export type TroubleKind =
  | (typeof NODE_TROUBLES)[number]
  | (typeof OWN_TROUBLES)[number]
  | (typeof API_TROUBLES)[number];

/** One disturbance, as data: fast-check makes, shrinks and prints it. */
export interface Trouble {
  readonly kind: TroubleKind;
  readonly afterMs: number;
  readonly forMs: number;
  /** Which node or region; taken modulo how many there are to choose from. */
  readonly which: number;
}

/** Plans a disturbance and its end. Nodes are chosen from `among`. */
export function plan(simulation: Simulation, trouble: Trouble, among: readonly Machine[]): void {
  simulation.in(trouble.afterMs, () => {
    const end = begin(simulation, trouble, among);
    simulation.in(trouble.forMs, end);
  });
}

const HOUR_MS = 3_600_000;

type NodeTroubleKind = (typeof NODE_TROUBLES)[number];

function isNodeTrouble(kind: TroubleKind): kind is NodeTroubleKind {
  return (NODE_TROUBLES as readonly string[]).includes(kind);
}

function nothing(): void {
  // Over by itself.
}

function begin(simulation: Simulation, trouble: Trouble, among: readonly Machine[]): () => void {
  const { kind, which, forMs } = trouble;
  if (isNodeTrouble(kind)) {
    const machine = among[which % Math.max(1, among.length)];
    return machine === undefined ? nothing : beginOnNode(simulation, kind, machine);
  }
  const { arbiter } = simulation;
  const observer = simulation.observers[which % simulation.observers.length] as ObserverHost;
  switch (kind) {
    case 'one-region-cut':
      // Always the same region: two at once would leave no quorum.
      simulation.legs[0]?.cut();
      return () => simulation.legs[0]?.mend();
    case 'one-region-lossy':
      simulation.legs[0]?.setLoss(0.78);
      return () => simulation.legs[0]?.setLoss(0);
    case 'observer-restart':
      observer.restart(300);
      return nothing;
    case 'all-observers-restart':
      for (const each of simulation.observers) each.restart(300);
      return nothing;
    case 'observer-evicted':
      observer.evict();
      return nothing;
    case 'observer-stall':
      observer.stall(Math.min(forMs, 30_000));
      return nothing;
    case 'arbiter-restart':
      arbiter.restart(300);
      return nothing;
    case 'arbiter-evicted':
      arbiter.evict();
      return nothing;
    case 'arbiter-stall':
      arbiter.stall(Math.min(forMs, 30_000));
      return nothing;
    case 'observer-alarms-lost':
      observer.platform = { alarmJitterMs: 50, alarmLate: 0.3, alarmLost: 0.3 };
      return () => (observer.platform = { alarmJitterMs: 50, alarmLate: 0, alarmLost: 0 });
    case 'arbiter-alarms-late':
      arbiter.platform = { alarmJitterMs: 50, alarmLate: 0.5, alarmLost: 0 };
      return () => (arbiter.platform = { alarmJitterMs: 50, alarmLate: 0, alarmLost: 0 });
    case 'arbiter-clock-jump':
      arbiter.jumpClock(HOUR_MS);
      return () => arbiter.jumpClock(-HOUR_MS);
    case 'observer-clock-jump':
      observer.jumpClock(HOUR_MS);
      return () => observer.jumpClock(-HOUR_MS);
    case 'api-unreachable':
      simulation.setApiTrouble('unreachable');
      return () => simulation.setApiTrouble('none');
    case 'api-busy':
      simulation.setApiTrouble('busy');
      return () => simulation.setApiTrouble('none');
    case 'leases-forbidden':
      simulation.setApiTrouble('leases-forbidden');
      return () => simulation.setApiTrouble('none');
  }
}

function beginOnNode(simulation: Simulation, kind: NodeTroubleKind, machine: Machine): () => void {
  switch (kind) {
    case 'crash':
      machine.crash();
      return () => machine.boot();
    case 'network-cut':
      machine.cutAll();
      return () => machine.mendAll();
    case 'beacon-path-cut':
      machine.cutUplink();
      return () => machine.mendUplink();
    case 'api-path-cut':
      machine.cutApiPath();
      return () => machine.mendApiPath();
    case 'kubelet-stop':
      machine.stopKubelet();
      return () => machine.startKubelet();
    case 'beacon-stop':
      machine.stopBeacon();
      return () => machine.startBeacon();
    case 'beacon-leaves':
      if (machine.isOn && machine.beacon.isRunning)
        machine.beacon.farewell({ what: 'beacon', reason: 'upgrade', forMs: 60_000 });
      return () => machine.startBeacon();
    case 'host-leaves':
      if (machine.isOn) machine.shutDown({ what: 'host', reason: 'reboot', forMs: 300_000 });
      return () => machine.boot();
    case 'reboot':
      machine.crash();
      simulation.in(20_000, () => machine.boot());
      return nothing;
    case 'loss':
      machine.uplink.setLoss(0.3);
      return () => machine.uplink.setLoss(0);
    case 'clock-jump':
      machine.jumpClock(HOUR_MS);
      return () => machine.jumpClock(-HOUR_MS);
    case 'stall':
      machine.beacon.stalledUntilMs = simulation.nowMs + 1_300;
      return nothing;
  }
}
