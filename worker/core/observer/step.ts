import type { Beat } from '../../../protocol/beat.ts';
import type { BeatAnswer, Registry } from '../../../protocol/report.ts';
import { LATE_GRACE_MS } from '../policy.ts';
import type { Step } from '../step.ts';
import { hear, NO_CHANGE, refuse, type Change } from './hear.ts';
import { followClock } from './clock.ts';
import { listenAnew } from './listening.ts';
import { deadlinesOf, nextChangeMs, sightAt } from './sight.ts';
import { takeSnapshot, type Snapshot } from './snapshot.ts';
import {
  byName,
  MAX_STRANGERS,
  OUTAGE_MS,
  REPORT_EVERY_MS,
  REPORT_AGAIN_MS,
  SLEEP_AFTER_MS,
  SNAPSHOT_EVERY_MS,
  SOON_MS,
  type HeardNode,
  type ObserverState,
} from './state.ts';

/** What can happen to an observer. Signatures are checked outside, because that is asynchronous. */
export type ObserverEvent =
  /** A beat signed with a current key of the node it names. */
  | { readonly kind: 'beat'; readonly beat: Beat; readonly jws: string; readonly digest: string }
  /** A beat signed with a key that was valid until lately. */
  | { readonly kind: 'old-key'; readonly beat: Beat }
  /** A node that was heard has a socket that keeps its newest beat. */
  | { readonly kind: 'socket-opened'; readonly name: string }
  /** It has none any more. Says nothing about the node: only missing beats do. */
  | { readonly kind: 'socket-closed'; readonly name: string }
  /** A beat signed with a key, or naming a node, that the registry does not have. */
  | { readonly kind: 'stranger'; readonly name: string }
  | { readonly kind: 'registry'; readonly registry: Registry }
  /** Alarm, cron or a poll: look at the clock. */
  | { readonly kind: 'tick' }
  /** The arbiter has the report, or not. */
  | { readonly kind: 'reported'; readonly ok: boolean };

export type ObserverEffect =
  | { readonly kind: 'store'; readonly snapshot: Snapshot }
  /** One node that is back, in a row of its own beside the snapshot: a thousand returns must not store a thousand wholes. */
  | { readonly kind: 'store-return'; readonly name: string; readonly node: HeardNode }
  | { readonly kind: 'report' };

export interface ObserverStep extends Step<ObserverState, ObserverEffect> {
  /** The answer to a beat. */
  readonly answer?: BeatAnswer;
}

/** The observer's machine: hears beats, knows who is silent, and says what it can vouch for. */
export function stepObserver(state: ObserverState, event: ObserverEvent, nowMs: number): ObserverStep {
  // Every event, not only the alarm, shows an own outage: a stalled isolate finds beats in its queue first.
  if (nowMs > state.wakeAtMs + OUTAGE_MS) listenAnew(state, state.lastEventAtMs, nowMs);
  if (nowMs < state.lastEventAtMs - OUTAGE_MS) followClock(state, nowMs - state.lastEventAtMs);
  state.lastEventAtMs = nowMs;

  const change = apply(state, event, nowMs);
  const seen = look(state, nowMs);

  const effects: ObserverEffect[] = [];
  if (change.report === 'soon') state.reportDueAtMs = Math.min(state.reportDueAtMs, nowMs + SOON_MS);
  if (change.report === 'now' || seen.silenceChanged || nowMs >= state.reportDueAtMs) {
    state.reportDueAtMs = nowMs + REPORT_EVERY_MS;
    effects.push({ kind: 'report' });
  }

  // Nothing is due for so long that the object may sleep: what is in memory only would be lost.
  const quietUntilMs = Math.min(seen.wakeAtMs, state.reportDueAtMs, seen.nextBeatDueAtMs);
  const maySleep = !seen.someLate && quietUntilMs - nowMs > SLEEP_AFTER_MS;
  const heard = change.heard && !isKept(state, event);
  const completes = maySleep && (heard || !state.snapshot.complete || keptDiffers(state));
  // A snapshot that promised "nothing was heard after me" must be taken back before that stops being true.
  const breaksPromise = heard && state.snapshot.complete;
  state.unstored ||= seen.changed || change.store === 'soon';
  const overdue = nowMs >= snapshotDueMs(state, seen.someLate);
  if (change.store === 'now' || completes || breaksPromise || overdue) {
    state.snapshot = { atMs: nowMs, complete: maySleep, keptNodes: new Set(maySleep ? state.kept : []) };
    state.unstored = false;
    effects.push({ kind: 'store', snapshot: takeSnapshot(state, nowMs, maySleep) });
  } else if (change.returned !== undefined) {
    const [name, node] = change.returned;
    effects.push({ kind: 'store-return', name, node });
  }
  const snapshotWakeAtMs =
    seen.someLate || state.unstored ? snapshotDueMs(state, seen.someLate) : Number.POSITIVE_INFINITY;
  state.wakeAtMs = Math.min(seen.wakeAtMs, state.reportDueAtMs, snapshotWakeAtMs);
  return {
    state,
    effects,
    wakeAtMs: state.wakeAtMs,
    ...(change.answer !== undefined && { answer: change.answer }),
  };
}

/** Whether the promise of the stored snapshot counts this beat in: what a socket keeps needs no row. */
function isKept({ kept, snapshot }: ObserverState, event: ObserverEvent): boolean {
  return event.kind === 'beat' && kept.has(event.beat.node) && snapshot.keptNodes.has(event.beat.node);
}

function keptDiffers({ kept, snapshot }: ObserverState): boolean {
  return kept.size !== snapshot.keptNodes.size || [...kept].some((name) => !snapshot.keptNodes.has(name));
}

function snapshotDueMs({ snapshot, unstored }: ObserverState, someLate: boolean): number {
  return snapshot.atMs + (someLate || unstored ? SOON_MS : SNAPSHOT_EVERY_MS);
}

function apply(state: ObserverState, event: ObserverEvent, nowMs: number): Change {
  switch (event.kind) {
    case 'beat':
      return hear(state, event.beat, event.jws, event.digest, nowMs);
    case 'old-key':
      return refuse(state, event.beat, 'old-key', 'signed with a key that its Node no longer names', nowMs);
    case 'stranger': {
      if (state.strangers.has(event.name) || state.strangers.size >= MAX_STRANGERS) return NO_CHANGE;
      state.strangers.add(event.name);
      return { ...NO_CHANGE, report: 'now' };
    }
    case 'socket-opened':
      if (state.nodes.has(event.name)) state.kept.add(event.name);
      return NO_CHANGE;
    case 'socket-closed':
      state.kept.delete(event.name);
      return NO_CHANGE;
    case 'registry':
      return enrol(state, event.registry);
    case 'reported':
      // Strangers: by the next report the arbiter has looked at their Nodes, and its reply brings their keys.
      if (!event.ok || state.strangers.size > 0) {
        state.reportDueAtMs = Math.min(state.reportDueAtMs, nowMs + REPORT_AGAIN_MS);
      }
      if (event.ok) state.strangers.clear();
      return NO_CHANGE;
    case 'tick':
      return NO_CHANGE;
  }
}

/** Takes the arbiter's registry: nodes that left it, or came back as another Node, are forgotten here. */
function enrol(state: ObserverState, registry: Registry): Change {
  state.registry = registry;
  state.registered = byName(registry);
  for (const [name, node] of state.nodes) {
    if (state.registered.get(name)?.uid === node.uid) continue;
    state.nodes.delete(name);
    state.proofs.delete(name);
    state.kept.delete(name);
  }
  return { ...NO_CHANGE, store: 'now' };
}

interface Look {
  readonly changed: boolean;
  /** Somebody became silent: the arbiter wants to know at once. */
  readonly silenceChanged: boolean;
  readonly someLate: boolean;
  readonly wakeAtMs: number;
  readonly nextBeatDueAtMs: number;
}

/**
 * Brings the sights up to date. Nodes are in the order of their last beat, so the walk ends at the first one that
 * cannot be late yet: as many steps as there are nodes not heard, and one.
 */
function look(state: ObserverState, nowMs: number): Look {
  const { intervalMs } = state.policy;
  let changed = false;
  let silenceChanged = false;
  let someLate = false;
  let wakeAtMs = Number.POSITIVE_INFINITY;
  let nextBeatDueAtMs = Number.POSITIVE_INFINITY;
  for (const [name, node] of state.nodes) {
    const at = deadlinesOf(state, node);
    const sight = sightAt(at, nowMs);
    if (sight !== node.sight) {
      changed = true;
      silenceChanged ||= sight === 'silent';
      state.nodes.set(name, { ...node, sight });
    }
    if (sight !== 'heard') {
      someLate ||= sight !== 'silent';
      wakeAtMs = Math.min(wakeAtMs, nextChangeMs(at, nowMs));
    }
    // Whoever comes after this one was heard later: none of them is late, or due, before this one would be at the
    // policy's interval. (Its own may be longer, and must not hide theirs.)
    const othersLateAtMs = node.heardAtMs + intervalMs + LATE_GRACE_MS;
    if (nowMs < othersLateAtMs) {
      nextBeatDueAtMs = node.heardAtMs + intervalMs;
      // Lateness may be noticed half an interval late, which saves alarms; silence never.
      wakeAtMs = Math.min(wakeAtMs, Math.max(othersLateAtMs, nowMs + intervalMs / 2));
      break;
    }
    // One that announced a longer interval: heard still, though long ago.
    if (sight === 'heard') {
      nextBeatDueAtMs = Math.min(nextBeatDueAtMs, node.heardAtMs + at.intervalMs);
      wakeAtMs = Math.min(wakeAtMs, Math.max(at.lateAtMs, nowMs + intervalMs / 2));
    }
  }
  return { changed, silenceChanged, someLate, wakeAtMs, nextBeatDueAtMs };
}
