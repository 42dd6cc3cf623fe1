import type { Report, ReportReply } from '../../../protocol/report.ts';
import type { ClusterFailure, ClusterResult, InventoryNode } from '../cluster-port.ts';
import type { Step } from '../step.ts';
import { followClock } from './clock.ts';
import { isOurs, onCheck, onPodsMarked, onWritten, written } from './episode.ts';
import { afterOwnOutage, release } from './hold.ts';
import { forget, learn, registryFor, takeInventory } from './inventory.ts';
import { takeLeases } from './leases.ts';
import type { ArbiterEffect, ArbiterEvent } from './messages.ts';
import { onModeChecked, releaseMode, tendMode } from './mode.ts';
import { onOwnLeaseRead, onOwnLeaseRenewed } from './own-lease.ts';
import { heardNodes } from './share.ts';
import { look, moved, signsOf } from './signs.ts';
import type { ApiState, ArbiterNode, ArbiterState, FreshRead } from './state.ts';
import { Turn } from './turn.ts';
import { deafRegions } from './witness.ts';

export type { ArbiterEffect, ArbiterEvent } from './messages.ts';

export interface ArbiterStep extends Step<ArbiterState, ArbiterEffect> {
  /** The answer to a report. */
  readonly reply?: ReportReply;
  /** The answer to a release. */
  readonly released?: { readonly released: boolean; readonly why: string };
}

/** A gap in its own running this long is an own outage: cron alone runs it every minute. */
const OWN_OUTAGE_MS = 150_000;
/** How finely the own running is recorded: not a row for every event. */
const RAN_EVERY_MS = 30_000;
const API_RETRY_MS = 5_000;

/** The arbiter's machine: takes in facts, moves every node's phase, and asks for what the next verdict needs. */
export function stepArbiter(state: ArbiterState, event: ArbiterEvent, nowMs: number): ArbiterStep {
  followClock(state, nowMs);
  if (nowMs - state.lastRanAtMs > OWN_OUTAGE_MS) afterOwnOutage(state, heardNodes(state), nowMs);
  if (nowMs - state.lastRanAtMs >= RAN_EVERY_MS) state.lastRanAtMs = nowMs;
  tendMode(state);

  const answer = apply(state, event, nowMs);
  const turn = new Turn(state, nowMs);
  turn.run();
  return { state, effects: turn.effects, wakeAtMs: turn.wakeAtMs, ...answer };
}

function apply(
  state: ArbiterState,
  event: ArbiterEvent,
  nowMs: number,
): Pick<ArbiterStep, 'reply' | 'released'> | undefined {
  const { memory } = state;
  switch (event.kind) {
    case 'report': {
      const { report } = event;
      takeReport(state, report, nowMs);
      const stale = report.registryVersion !== state.registryVersion && state.registryVersion > 0;
      return { reply: stale ? { registry: registryFor(state, report.shard, nowMs) } : {} };
    }
    case 'polled':
      memory.polling = false;
      memory.pollBegunAtMs = event.begunAtMs;
      memory.polledAtMs = nowMs;
      for (const report of event.reports) takeReport(state, report, nowMs);
      memory.deaf = deafRegions(state, event.begunAtMs);
      return undefined;
    case 'listed':
      onListed(state, event.result, nowMs);
      return undefined;
    case 'leases':
      memory.listingLeases = false;
      noteApi(state, event.result, nowMs);
      if (event.result.kind === 'ok') takeLeases(state, event.result.value, nowMs);
      return undefined;
    case 'read':
      onRead(state, event.name, { atMs: nowMs, node: event.node, lease: event.lease }, nowMs);
      return undefined;
    case 'written':
      memory.writing.delete(event.name);
      // Whatever came of it, the copy it was written on is old now.
      memory.reads.delete(event.name);
      noteApi(state, event.result, nowMs);
      change(state, event.name, (node) => onWritten(state, node, event.result, nowMs));
      return undefined;
    case 'pods-marked':
      memory.marking.delete(event.name);
      change(state, event.name, (node) => onPodsMarked(node, event.marked, event.ok, nowMs));
      return undefined;
    case 'mode-checked':
      memory.checkingMode = false;
      onModeChecked(state, event.name, event.finding, nowMs);
      return undefined;
    case 'own-lease-read':
      memory.askingOwnLease = false;
      onOwnLeaseRead(state, event.result, nowMs);
      return undefined;
    case 'own-lease-renewed':
      memory.askingOwnLease = false;
      onOwnLeaseRenewed(state, event.result, event.renewal, nowMs);
      return undefined;
    case 'release':
      return {
        released:
          state.modeHold?.id === event.holdId ? releaseMode(state) : release(state, event.holdId, nowMs),
      };
    case 'tick':
      return undefined;
  }
}

function takeReport(state: ArbiterState, report: Report, nowMs: number): void {
  state.reports.set(report.observer, { report, receivedAtMs: nowMs });
  if (report.strangers.length > 0) state.memory.strangers = true;
}

function change(state: ArbiterState, name: string, update: (node: ArbiterNode) => ArbiterNode): void {
  const node = state.nodes.get(name);
  if (node !== undefined) state.nodes.set(name, update(node));
}

/** "API unreachable" is a state of its own, with since and reason. It is never evidence about a node. */
function noteApi(
  state: ArbiterState,
  result: { readonly kind: string } | ClusterFailure,
  nowMs: number,
): void {
  const trouble = troubleOf(result);
  if (trouble === undefined) {
    if (state.api.state !== 'ok') state.api = { state: 'ok', sinceMs: nowMs, retryAtMs: nowMs };
    return;
  }
  const sinceMs = state.api.state === 'unreachable' ? state.api.sinceMs : nowMs;
  state.api = {
    state: 'unreachable',
    sinceMs,
    why: trouble.why,
    retryAtMs: nowMs + trouble.retryAfterMs,
  } satisfies ApiState;
}

function troubleOf(
  result: { readonly kind: string } | ClusterFailure,
): { why: string; retryAfterMs: number } | undefined {
  if (!('why' in result)) return undefined;
  switch (result.kind) {
    case 'unreachable':
      return { why: result.why, retryAfterMs: API_RETRY_MS };
    case 'busy':
      return { why: result.why, retryAfterMs: Math.max(1_000, result.retryAfterMs) };
    case 'refused':
      return { why: `${result.status}: ${result.why}`, retryAfterMs: 6 * API_RETRY_MS };
    case 'conflict':
    case 'invalid':
      return undefined;
  }
}

function onListed(state: ArbiterState, result: ClusterResult<readonly InventoryNode[]>, nowMs: number): void {
  state.memory.listing = false;
  noteApi(state, result, nowMs);
  if (result.kind !== 'ok') return;
  const verdict = takeInventory(state, result.value, nowMs);
  if (verdict.kind === 'refused') {
    state.listRefused = verdict.why;
    return;
  }
  delete state.listRefused;
  state.listedAtMs = nowMs;
  for (const name of verdict.missing) state.memory.toRead.add(name);
}

function onRead(state: ArbiterState, name: string, read: FreshRead, nowMs: number): void {
  const { memory } = state;
  memory.reading.delete(name);
  memory.toRead.delete(name);
  memory.reads.set(name, read);
  noteApi(state, read.node, nowMs);
  if (read.node.kind === 'not-found') {
    forget(state, name);
    return;
  }
  if (read.node.kind !== 'ok') return;
  const copy = read.node.value;
  learn(state, copy, nowMs);
  change(state, name, (node) => {
    if (node.uid !== copy.uid) return node;
    if (node.intent !== undefined && !memory.writing.has(name)) {
      // A PATCH whose answer was lost, or that was never sent: what is there now tells.
      if (isOurs(node.intent, copy)) return written(state, node, node.intent, nowMs);
      const { intent: _, ...rest } = node;
      return rest;
    }
    const canLook = read.lease.kind === 'ok' || read.lease.kind === 'not-found' || read.lease.kind === 'off';
    if (node.phase === 'watched' && node.watch !== undefined && canLook)
      return { ...node, watch: look(node.watch, read) };
    if (node.phase === 'down') return onCheck(state, node, read, nowMs);
    if (node.kubeletDown !== undefined && canLook) {
      const { signs } = node.kubeletDown;
      if (signs === undefined || moved(signs, signsOf(read))) {
        return { ...node, kubeletDown: { ...node.kubeletDown, signs: signsOf(read), lookedAtMs: nowMs } };
      }
    }
    return node;
  });
}
