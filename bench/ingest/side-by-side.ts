import { setTimeout as delay } from 'node:timers/promises';
import { spent, usageOf, type Usage } from '../support/usage.ts';
import type { Farpulse } from './farpulse.ts';
import { INTERVAL_MS, type Transport } from './fleet.ts';
import type { LeaseServers, RenewalResult } from './leases.ts';
import type { Load } from './load.ts';

/** After their start both sides are busy with themselves for a while. */
const SETTLE_MS = 20_000;

/** Every node is heard at least three times: joined, compiled, and warm. */
const WARM_UP_ROUNDS = 3;
const MAX_WARM_UP_ROUNDS = 8;

const LEASE_WARM_UP_SECONDS = 5;
/** Creating the Leases and warming up; and ending the control plane afterwards. */
const MAX_LEASE_START_SECONDS = 150;
const MAX_STOP_SECONDS = 30;

export interface Plan {
  readonly transport: Transport;
  readonly nodes: number;
  readonly perSecond: number;
  readonly seconds: number;
}

/** Beats that the whole measurement may need. */
export function beatsForSideBySide({ perSecond, seconds }: Plan): number {
  const warmUpSeconds = (MAX_WARM_UP_ROUNDS * INTERVAL_MS) / 1000 + MAX_LEASE_START_SECONDS;
  return perSecond * (warmUpSeconds + seconds + MAX_STOP_SECONDS);
}

/** One side's cost, idle load subtracted. */
export interface Cost {
  readonly heartbeats: number;
  readonly errors: number;
  readonly firstError?: string;
  readonly cpuMsPerHeartbeat: number;
  readonly writtenBytesPerHeartbeat: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly behindMaxMs: number;
  /** After the load. */
  readonly residentBytes: number;
}

export interface SideBySide {
  readonly farpulse: Cost;
  readonly lease: Cost;
}

interface Servers {
  readonly farpulse: Farpulse;
  readonly leases: LeaseServers;
  readonly load: Load;
}

interface Reading {
  readonly atMs: number;
  readonly farpulse: Usage;
  readonly lease: Usage;
}

/**
 * Measures both at the same time: whatever else this machine does disturbs both alike.
 *
 * The idle window comes before the first beat: a farpulse that has known nodes and hears them no more is not idle.
 */
export async function measureSideBySide(
  servers: Servers,
  { transport, nodes, perSecond, seconds }: Plan,
  say: (line: string) => void,
): Promise<SideBySide> {
  const { farpulse, leases, load } = servers;
  const read = (): Reading => ({
    atMs: performance.now(),
    farpulse: usageOf(farpulse.pids),
    lease: usageOf(leases.pids),
  });

  await delay(SETTLE_MS);
  say(`idle for ${seconds} s`);
  const idleFrom = read();
  await delay(seconds * 1000);
  const idleTo = read();
  const idleOf = (side: 'farpulse' | 'lease'): string =>
    (spent(idleFrom[side], idleTo[side]).cpuMs / seconds).toFixed(1);
  say(`idle CPU, ms a second: farpulse ${idleOf('farpulse')}, lease ${idleOf('lease')}`);

  say(`warming up at ${perSecond} a second`);
  await warmUp(servers, transport, perSecond);
  const renewals = leases.renew(nodes, perSecond, seconds, LEASE_WARM_UP_SECONDS);
  await renewals.measuring;
  await load.next(perSecond);
  say(`measuring for ${seconds} s`);
  const loadFrom = read();
  const renewed = await renewals.result;
  const beats = await load.next(perSecond);
  const loadTo = read();
  await assertAllAlive(farpulse, nodes);

  const idle = [idleFrom, idleTo] as const;
  const loaded = [loadFrom, loadTo] as const;
  return {
    farpulse: cost('farpulse', idle, loaded, { ...beats, count: beats.delivered }),
    lease: cost('lease', idle, loaded, renewed),
  };
}

/** The first beats meet observers that have no keys yet: the load goes on until nobody is refused any more. */
async function warmUp({ farpulse, load }: Servers, transport: Transport, perSecond: number): Promise<void> {
  await load.start(farpulse.url, transport, perSecond);
  for (let round = 1; ; round += 1) {
    await delay(INTERVAL_MS);
    const { errors, firstError } = await load.next(perSecond);
    if (round >= WARM_UP_ROUNDS && errors === 0) return;
    if (round === MAX_WARM_UP_ROUNDS)
      throw new Error(`beats are still refused after the warm-up: ${firstError ?? ''}`);
  }
}

/** The whole way was gone: the arbiter knows every node, by the reports of its observers, as alive. */
async function assertAllAlive(farpulse: Farpulse, nodes: number): Promise<void> {
  const { nodesByPhase, state } = await farpulse.status();
  if (nodesByPhase.alive === nodes && state === 'judging') return;
  throw new Error(`of ${nodes} nodes: ${JSON.stringify(nodesByPhase)}, cluster ${state}`);
}

type Counted = Pick<RenewalResult, 'count' | 'errors' | 'p50Ms' | 'p99Ms' | 'behindMaxMs' | 'firstError'>;

function cost(
  side: 'farpulse' | 'lease',
  [idleFrom, idleTo]: readonly [Reading, Reading],
  [loadFrom, loadTo]: readonly [Reading, Reading],
  { count, errors, p50Ms, p99Ms, behindMaxMs, firstError }: Counted,
): Cost {
  const idle = spent(idleFrom[side], idleTo[side]);
  const loaded = spent(loadFrom[side], loadTo[side]);
  const idleMs = idleTo.atMs - idleFrom.atMs;
  const share = (loadTo.atMs - loadFrom.atMs) / idleMs;
  return {
    heartbeats: count,
    errors,
    ...(firstError !== undefined && { firstError }),
    cpuMsPerHeartbeat: (loaded.cpuMs - idle.cpuMs * share) / count,
    writtenBytesPerHeartbeat: (loaded.writtenBytes - idle.writtenBytes * share) / count,
    p50Ms,
    p99Ms,
    behindMaxMs,
    residentBytes: loadTo[side].residentBytes,
  };
}
