import { LATE_GRACE_MS } from '../policy.ts';
import { deadByLease } from './leases.ts';
import type { Heard } from './share.ts';

import { FRESH_MS, type ArbiterState, type CoolDown } from './state.ts';
import { observerIdOf } from '../shard.ts';

/*
 * Rule 7: the hold, its end, and the time after it. Staggered returns after a total outage would otherwise get live
 * nodes written one by one.
 */

/** A hold ends by itself when less than this share has been missing for `HOLD_LOW_MS`. */
const HOLD_ENDS_BELOW = 0.4;
const HOLD_LOW_MS = 60_000;

/** After a hold, and after an own outage, nobody is written for this long. */
export const COOL_DOWN_MS = 120_000;

/** A node of a wave is not written until so long after the last return of another one. */
export const WAVE_QUIET_MS = 120_000;

/**
 * A hold looks at the observers this often: it ends by what they say. Less than the 10 s after which an idle object
 * leaves memory, because how long the Leases have stood still is known to memory only.
 */
export const HOLD_POLL_MS = 8_000;

/** An operator's release lets the named nodes be judged without the breaker for this long. */
const RELEASE_MS = 3_600_000;

function isMissing(heard: Heard, atMs: number): boolean {
  return atMs >= heard.heardAtMs + heard.intervalMs + LATE_GRACE_MS;
}

/** Opens a hold, or adds to the one that is open. */
export function openHold(state: ArbiterState, nodes: readonly string[], share: number, nowMs: number): void {
  if (state.hold === undefined) {
    state.hold = { id: `hold-${state.nextId}`, sinceMs: nowMs, nodes, share };
    state.nextId += 1;
    return;
  }
  const held = new Set(state.hold.nodes);
  if (nodes.every((name) => held.has(name))) return;
  for (const name of nodes) held.add(name);
  state.hold = { ...state.hold, nodes: [...held], share };
}

/** Ends a hold: from now on everybody gets the time to return before anybody is written. */
function coolDown(state: ArbiterState, wave: readonly string[], nowMs: number): void {
  state.coolDown = { untilMs: nowMs + COOL_DOWN_MS, wave, quietSinceMs: nowMs };
}

/** After an own outage, whoever is not heard belongs to one wave: we do not know what we missed. */
export function afterOwnOutage(state: ArbiterState, all: readonly Heard[], nowMs: number): void {
  coolDown(
    state,
    all.filter((heard) => isMissing(heard, nowMs)).map((heard) => heard.node.name),
    nowMs,
  );
}

/** An operator says that the held nodes may be judged. The hold must be named: it may have become another one. */
export function release(
  state: ArbiterState,
  holdId: string,
  nowMs: number,
): { released: boolean; why: string } {
  if (state.hold?.id !== holdId) {
    return {
      released: false,
      why: state.hold === undefined ? 'there is no hold' : `the current hold is ${state.hold.id}`,
    };
  }
  const { nodes } = state.hold;
  delete state.hold;
  free(state, nodes, nowMs);
  return { released: true, why: `${nodes.length} nodes may be judged after the cool-down` };
}

/** Lets some of the held nodes be judged without the breaker; the others stay held. */
function free(state: ArbiterState, names: readonly string[], nowMs: number): void {
  const before = state.released !== undefined && nowMs < state.released.untilMs ? state.released.nodes : [];
  state.released = { nodes: [...new Set([...before, ...names])], untilMs: nowMs + RELEASE_MS };
  coolDown(state, names, nowMs);
}

/** Nodes that are dead by their Leases may be judged; once they are, the others no longer make a hold. */
function freeDead(state: ArbiterState, names: readonly string[], nowMs: number): void {
  const freed = state.released?.nodes ?? [];
  if (names.some((name) => !freed.includes(name))) free(state, names, nowMs);
}

/** Whether every region that could make a quorum hears nobody at all. */
function hearsNobody(state: ArbiterState): boolean {
  const { regions, shards, quorum } = state.settings;
  const deaf = regions.filter((region) => {
    const reports = Array.from({ length: shards }, (_, shard) =>
      state.reports.get(observerIdOf(region, shard, shards)),
    );
    const known = reports.filter((stored) => stored !== undefined && stored.report.nodes.length > 0);
    return known.length > 0 && known.every((stored) => stored?.report.blind === 'hears-nobody');
  });
  return deaf.length >= quorum;
}

/** When a cool-down is over, unless another node of its wave returns first. */
export function coolDownEndsMs({ untilMs, quietSinceMs }: CoolDown): number {
  return Math.max(untilMs, quietSinceMs + WAVE_QUIET_MS);
}

/** Opens, feeds and ends holds and cool-downs, by what the observers have just said. */
export function tendHold(state: ArbiterState, all: readonly Heard[], nowMs: number): void {
  // Observers that hear nobody name no suspect, so nobody would poll them: that they say so is enough.
  if (hearsNobody(state) && all.length > 1) {
    openHold(
      state,
      all.map((heard) => heard.node.name),
      1,
      nowMs,
    );
  }
  const { polledAtMs } = state.memory;
  if (nowMs - polledAtMs > FRESH_MS) return;
  // As of that moment: whose beat fell due since is not missing, only not asked for.
  // A node with a verdict is settled: counted on, it would keep a small cluster in its hold for ever.
  const unsettled = all.filter((heard) => heard.node.phase !== 'down');
  const missing = unsettled.filter((heard) => isMissing(heard, polledAtMs)).map((heard) => heard.node.name);
  const isMissingNow = new Set(missing);

  freeDead(state, deadByLease(state, unsettled, missing, nowMs), nowMs);
  if (state.hold !== undefined) {
    const share = missing.length / Math.max(1, unsettled.length);
    openHold(state, missing, share, nowMs);
    if (share >= HOLD_ENDS_BELOW) {
      const { lowSinceMs: _, ...held } = state.hold;
      state.hold = held;
    } else if (state.hold.lowSinceMs === undefined) {
      state.hold = { ...state.hold, lowSinceMs: nowMs };
    } else if (nowMs - state.hold.lowSinceMs >= HOLD_LOW_MS) {
      const wave = state.hold.nodes.filter((name) => isMissingNow.has(name));
      delete state.hold;
      coolDown(state, wave, nowMs);
    }
  }
  if (state.coolDown !== undefined) {
    const wave = state.coolDown.wave.filter((name) => isMissingNow.has(name));
    if (wave.length < state.coolDown.wave.length)
      state.coolDown = { ...state.coolDown, wave, quietSinceMs: nowMs };
    if (nowMs >= coolDownEndsMs(state.coolDown)) delete state.coolDown;
  }
  if (state.released !== undefined) {
    // For this absence only: whoever has returned since is held again when the next outage comes.
    const nodes = state.released.nodes.filter((name) => isMissingNow.has(name));
    if (nodes.length === 0 || nowMs >= state.released.untilMs) delete state.released;
    else if (nodes.length < state.released.nodes.length) state.released = { ...state.released, nodes };
  }
}
