import type { Beat } from '../../../protocol/beat.ts';
import type { BeatAnswer, Registry } from '../../../protocol/report.ts';
import { LATE_GRACE_MS } from '../policy.ts';
import type { Step } from '../step.ts';
import { hear, NO_CHANGE, refuse, type Change } from './hear.ts';
import { listenAnew } from './listening.ts';
import { nextChangeMs, sightOf } from './sight.ts';
import { takeSnapshot, type Snapshot } from './snapshot.ts';
import {
  byName,
  MAX_STRANGERS,
  OUTAGE_MS,
  REPORT_EVERY_MS,
  REPORT_RETRY_MS,
  SLEEP_AFTER_MS,
  SNAPSHOT_EVERY_MS,
  SNAPSHOT_WHILE_LATE_MS,
  type ObserverState,
} from './state.ts';

/** What can happen to an observer. Signatures are checked outside, because that is asynchronous. */
export type ObserverEvent =
  /** A beat signed with a current key of the node it names. */
  | { readonly kind: 'beat'; readonly beat: Beat; readonly jws: string; readonly digest: string }
  /** A beat signed with a key that was valid until lately. */
  | { readonly kind: 'old-key'; readonly beat: Beat }
  /** A beat signed with a key, or naming a node, that the registry does not have. */
  | { readonly kind: 'stranger'; readonly name: string }
  | { readonly kind: 'registry'; readonly registry: Registry }
  /** Alarm, cron or a poll: look at the clock. */
  | { readonly kind: 'tick' }
  /** The arbiter has the report, or not. */
  | { readonly kind: 'reported'; readonly ok: boolean };

export type ObserverEffect =
  | { readonly kind: 'store'; readonly snapshot: Snapshot }
  | { readonly kind: 'report' };

export interface ObserverStep extends Step<ObserverState, ObserverEffect> {
  /** The answer to a beat. */
  readonly answer?: BeatAnswer;
}

/** The observer's machine: hears beats, knows who is silent, and says what it can vouch for. */
export function stepObserver(state: ObserverState, event: ObserverEvent, nowMs: number): ObserverStep {
  // Every event, not only the alarm, shows an own outage: a stalled isolate finds beats in its queue first.
  if (nowMs > state.wakeAtMs + OUTAGE_MS) listenAnew(state, state.lastEventAtMs, nowMs);
  state.lastEventAtMs = nowMs;

  const change = apply(state, event, nowMs);
  const seen = look(state, nowMs);
  state.someLate = seen.someLate;

  const effects: ObserverEffect[] = [];
  if (change.report || seen.silenceChanged || nowMs >= state.reportDueAtMs) {
    state.reportDueAtMs = nowMs + REPORT_EVERY_MS;
    effects.push({ kind: 'report' });
  }
  const snapshotDueAtMs = state.snapshot.atMs + (seen.someLate ? SNAPSHOT_WHILE_LATE_MS : SNAPSHOT_EVERY_MS);
  state.wakeAtMs = Math.min(
    seen.wakeAtMs,
    state.reportDueAtMs,
    seen.someLate ? Math.max(snapshotDueAtMs, nowMs + SNAPSHOT_WHILE_LATE_MS) : Number.POSITIVE_INFINITY,
  );

  // Nothing is due for so long that the object may sleep: what is in memory only would be lost.
  const maySleep = Math.min(state.wakeAtMs, seen.nextBeatDueAtMs) - nowMs > SLEEP_AFTER_MS;
  const completes = maySleep && (change.heard || !state.snapshot.complete);
  // A snapshot that promised "nothing was heard after me" must be taken back before that stops being true.
  const breaksPromise = change.heard && state.snapshot.complete;
  if (change.store || seen.changed || completes || breaksPromise || nowMs >= snapshotDueAtMs) {
    state.snapshot = { atMs: nowMs, complete: maySleep };
    effects.push({ kind: 'store', snapshot: takeSnapshot(state, nowMs, maySleep) });
  }
  return {
    state,
    effects,
    wakeAtMs: state.wakeAtMs,
    ...(change.answer !== undefined && { answer: change.answer }),
  };
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
      return { ...NO_CHANGE, report: true };
    }
    case 'registry':
      return enrol(state, event.registry);
    case 'reported':
      if (event.ok) state.strangers.clear();
      else state.reportDueAtMs = Math.min(state.reportDueAtMs, nowMs + REPORT_RETRY_MS);
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
    if (state.registered.get(name)?.uid !== node.uid) state.nodes.delete(name);
  }
  return { ...NO_CHANGE, store: true };
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
    const sight = sightOf(state, node, nowMs);
    if (sight !== node.sight) {
      changed = true;
      silenceChanged ||= sight === 'silent';
      state.nodes.set(name, { ...node, sight });
    }
    const changesAtMs = nextChangeMs(state, node, nowMs);
    if (sight === 'heard') {
      nextBeatDueAtMs = Math.min(nextBeatDueAtMs, node.heardAtMs + Math.max(intervalMs, node.intervalMs));
      // Lateness may be noticed half an interval late, which saves alarms; silence never.
      wakeAtMs = Math.min(wakeAtMs, Math.max(changesAtMs, nowMs + intervalMs / 2));
    } else {
      someLate ||= sight !== 'silent';
      wakeAtMs = Math.min(wakeAtMs, changesAtMs);
    }
    if (nowMs < node.heardAtMs + intervalMs + LATE_GRACE_MS) break;
  }
  return { changed, silenceChanged, someLate, wakeAtMs, nextBeatDueAtMs };
}
