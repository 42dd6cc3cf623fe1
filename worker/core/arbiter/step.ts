import type { Report, ReportReply } from '../../../protocol/report.ts';
import type {
  ClusterFailure,
  ClusterResult,
  InventoryNode,
  LeaseCopy,
  UnknownPatch,
} from '../cluster-port.ts';
import type { Step } from '../step.ts';
import {
  alreadyUnknown,
  intend,
  isOurs,
  onCheck,
  onPodsMarked,
  onWritten,
  returned,
  suspect,
  toPhase,
  watch,
  wouldWrite,
  written,
} from './episode.ts';
import { followClock } from './clock.ts';
import { afterOwnOutage, coolDownEndsMs, HOLD_POLL_MS, openHold, release, tendHold } from './hold.ts';
import {
  forget,
  isPaused,
  learn,
  LIST_EVERY_MS,
  LIST_RETRY_MS,
  LOOK_UP_EVERY_MS,
  registryFor,
  takeInventory,
} from './inventory.ts';
import { judge, suspicionOf } from './judge.ts';
import { LIST_ABOVE, leasesDueMs, takeLeases } from './leases.ts';
import { heardNodes, type Heard } from './share.ts';
import { look, moved, nextLookMs, RENEWAL_MS, signsOf } from './signs.ts';
import { FRESH_MS, type ApiState, type ArbiterNode, type ArbiterState, type FreshRead } from './state.ts';
import { claimsOn, deafRegions, lastHeardMs, newestClaim } from './witness.ts';

/** What can happen to an arbiter. Results of effects come back as events. */
export type ArbiterEvent =
  | { readonly kind: 'report'; readonly report: Report }
  /** All observers were asked; those that answered within their second, with proofs already verified. */
  | { readonly kind: 'polled'; readonly begunAtMs: number; readonly reports: readonly Report[] }
  | { readonly kind: 'listed'; readonly result: ClusterResult<readonly InventoryNode[]> }
  | { readonly kind: 'leases'; readonly result: ClusterResult<readonly LeaseCopy[]> }
  | {
      readonly kind: 'read';
      readonly name: string;
      readonly node: FreshRead['node'];
      readonly lease: FreshRead['lease'];
    }
  | { readonly kind: 'written'; readonly name: string; readonly result: ClusterResult<unknown> }
  | { readonly kind: 'pods-marked'; readonly name: string; readonly marked: number; readonly ok: boolean }
  | { readonly kind: 'release'; readonly holdId: string }
  | { readonly kind: 'tick' };

export type ArbiterEffect =
  /** Ask every configured observer for its present view, with proofs for the suspects. */
  | { readonly kind: 'poll'; readonly suspects: readonly string[] }
  | { readonly kind: 'list' }
  | { readonly kind: 'list-leases' }
  | { readonly kind: 'read'; readonly name: string; readonly lease: boolean }
  | { readonly kind: 'write'; readonly patch: UnknownPatch }
  | {
      readonly kind: 'mark-pods';
      readonly name: string;
      readonly uid: string;
      readonly lastTransitionTime: string;
    };

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
/** An observer that has not reported for this long is asked. */
const REPORT_OVERDUE_MS = 240_000;
/** Nothing happens for at most this long: cron's pace. */
const IDLE_MS = 60_000;
const API_RETRY_MS = 5_000;
/** Longer than any answer takes, or is waited for. */
const ASK_AGAIN_MS = 5_000;

/** The arbiter's machine: takes in facts, moves every node's phase, and asks for what the next verdict needs. */
export function stepArbiter(state: ArbiterState, event: ArbiterEvent, nowMs: number): ArbiterStep {
  followClock(state, nowMs);
  if (nowMs - state.lastRanAtMs > OWN_OUTAGE_MS) afterOwnOutage(state, heardNodes(state), nowMs);
  if (nowMs - state.lastRanAtMs >= RAN_EVERY_MS) state.lastRanAtMs = nowMs;

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
    case 'release':
      return { released: release(state, event.holdId, nowMs) };
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

function withKubeletDown(node: ArbiterNode, kubeletDown: ArbiterNode['kubeletDown']): ArbiterNode {
  const { kubeletDown: _, ...without } = node;
  return kubeletDown === undefined ? without : { ...without, kubeletDown };
}

/** One pass over all nodes after an event: phases first, then verdicts, then what is due by the clock. */
class Turn {
  readonly effects: ArbiterEffect[] = [];
  wakeAtMs: number;
  readonly #state: ArbiterState;
  readonly #nowMs: number;
  #all: readonly Heard[] = [];
  #watched = 0;
  readonly #pollFor = new Set<string>();

  constructor(state: ArbiterState, nowMs: number) {
    this.#state = state;
    this.#nowMs = nowMs;
    this.wakeAtMs = nowMs + IDLE_MS;
  }

  run(): void {
    const state = this.#state;
    for (const node of state.nodes.values()) {
      const next = this.#move(node);
      if (next !== node) state.nodes.set(node.name, next);
    }
    this.#all = heardNodes(state);
    tendHold(state, this.#all, this.#nowMs);
    this.#watched = [...state.nodes.values()].filter((node) => node.phase === 'watched').length;
    for (const node of state.nodes.values()) this.#decide(node);
    this.#poll();
    this.#leases();
    this.#list();
    for (const name of state.memory.toRead) this.#read(name);
    this.#wakeForWhatIsUnderWay();
  }

  /** What is under way is known to memory only: should that be lost before the answer comes, it is asked for again. */
  #wakeForWhatIsUnderWay(): void {
    const { polling, listing, reading, writing, marking } = this.#state.memory;
    const isAnything = polling || listing || reading.size + writing.size + marking.size > 0;
    if (isAnything) this.#wakeAt(this.#nowMs + ASK_AGAIN_MS);
  }

  #wakeAt(atMs: number): void {
    this.wakeAtMs = Math.min(this.wakeAtMs, Math.max(atMs, this.#nowMs + 1));
  }

  /** The phase that the newest reports imply. */
  #move(node: ArbiterNode): ArbiterNode {
    const nowMs = this.#nowMs;
    if (node.phase === 'unenrolled') return node;
    const claims = claimsOn(this.#state, node);
    const newest = newestClaim(claims);
    if (newest === undefined) return node;
    // What is down stays down: a pause keeps from a verdict, it does not take one back.
    if (isPaused(node, nowMs) && node.phase !== 'down') {
      return node.phase === 'paused' ? node : toPhase(node, 'paused', nowMs);
    }

    const suspicion = suspicionOf(this.#state, claims);
    const kubeletDown = suspicion === 'kubelet-down' ? (node.kubeletDown ?? { sinceMs: nowMs }) : undefined;
    // Nothing changed: the same object, so that nothing is stored.
    const same = kubeletDown === node.kubeletDown ? node : withKubeletDown(node, kubeletDown);

    if (suspicion === undefined) {
      const { quorum } = this.#state.settings;
      const heard = claims.filter((claim) => claim.kind === 'heard').length;
      const late = claims.filter((claim) => claim.kind === 'late').length;
      const leaving = newest.reported.leaving;
      switch (node.phase) {
        case 'alive':
        case 'leaving':
          if (leaving !== undefined && leaving.forMs > nowMs - newest.receivedAtMs) {
            return node.phase === 'leaving' ? same : toPhase(same, 'leaving', nowMs, 'leaving');
          }
          return node.phase === 'alive' ? same : toPhase(same, 'alive', nowMs);
        case 'new':
        case 'paused':
          return toPhase(same, 'alive', nowMs);
        case 'suspect':
          // Late is no beat: it may be an answer older than the report it has replaced; see `judgeUnsettled`.
          return heard >= quorum ? returned(same, nowMs) : same;
        case 'watched':
        case 'down':
          return heard + late >= quorum ? returned(same, nowMs) : same;
      }
    }
    const hasEpisode = node.phase === 'suspect' || node.phase === 'watched' || node.phase === 'down';
    return hasEpisode ? same : suspect(this.#state, same, suspicion, lastHeardMs(claims), nowMs);
  }

  #decide(node: ArbiterNode): void {
    const { memory } = this.#state;
    memory.whys.delete(node.name);
    if (node.intent !== undefined) {
      if (!memory.writing.has(node.name)) this.#readWhenReachable(node.name);
      return;
    }
    if (node.phase === 'down') {
      this.#followUp(node);
      return;
    }
    if (node.phase !== 'suspect' && node.phase !== 'watched') return;
    // A second pulse while the first is missing; kept going even when nobody can judge.
    if (
      node.phase === 'watched' &&
      node.watch !== undefined &&
      !(node.watch.hasLease && this.#watched > LIST_ABOVE)
    ) {
      this.#lookAt(node, nextLookMs(node.watch));
    }
    const judgement = judge(this.#state, node, this.#all, this.#nowMs);
    if ('why' in judgement) memory.whys.set(node.name, judgement.why);
    this.#carryOut(node, judgement);
  }

  #carryOut(node: ArbiterNode, judgement: ReturnType<typeof judge>): void {
    const state = this.#state;
    const nowMs = this.#nowMs;
    switch (judgement.kind) {
      case 'well':
        return;
      case 'need':
        if (judgement.what === 'poll') this.#pollFor.add(node.name);
        else this.#read(node.name);
        return;
      case 'wait': {
        this.#wakeAt(judgement.untilMs);
        const { veto } = judgement;
        if (veto !== undefined && (node.veto?.boot !== veto.boot || node.veto.seq !== veto.seq)) {
          state.nodes.set(node.name, { ...node, veto: { boot: veto.boot, seq: veto.seq, sinceMs: nowMs } });
        }
        return;
      }
      case 'hold':
        openHold(state, judgement.share.lost, judgement.share.share, nowMs);
        this.#wakeAt(nowMs + HOLD_POLL_MS);
        return;
      case 'watch':
        state.nodes.set(node.name, watch(node, judgement.cause, judgement.read, nowMs));
        this.#wakeAt(nowMs + RENEWAL_MS);
        return;
      case 'gone':
        // `onRead` has already taken in what the read showed.
        return;
      case 'already-unknown':
        state.nodes.set(node.name, alreadyUnknown(node, judgement.cause, nowMs));
        return;
      case 'write':
        this.#write(node, judgement);
        return;
    }
  }

  #write(
    node: ArbiterNode,
    { cause, why, copy }: Extract<ReturnType<typeof judge>, { kind: 'write' }>,
  ): void {
    const state = this.#state;
    if (state.settings.mode === 'observe' || copy === undefined) {
      state.nodes.set(node.name, wouldWrite(node, cause, why, this.#nowMs));
      return;
    }
    const read = state.memory.reads.get(node.name);
    const signs = read === undefined ? {} : signsOf(read);
    const intending = intend(state, node, cause, why, copy, signs, this.#nowMs);
    state.nodes.set(node.name, intending);
    const { intent } = intending;
    if (intent === undefined) return;
    state.memory.writing.add(node.name);
    const { uid, resourceVersion, reason, message, lastTransitionTime } = intent;
    this.effects.push({
      kind: 'write',
      patch: { node: node.name, uid, resourceVersion, reason, message, lastTransitionTime },
    });
  }

  #followUp(node: ArbiterNode): void {
    const { memory } = this.#state;
    const followUp = node.episode?.followUp;
    if (followUp === undefined) return;
    if (followUp.podPassesLeft > 0) {
      if (this.#nowMs < followUp.podsDueAtMs) {
        this.#wakeAt(followUp.podsDueAtMs);
      } else if (!memory.marking.has(node.name)) {
        memory.marking.add(node.name);
        const { lastTransitionTime } = followUp;
        this.effects.push({ kind: 'mark-pods', name: node.name, uid: node.uid, lastTransitionTime });
      }
    }
    this.#lookAt(node, followUp.checkDueAtMs);
  }

  #lookAt(node: ArbiterNode, dueAtMs: number): void {
    if (this.#nowMs < dueAtMs) this.#wakeAt(dueAtMs);
    else this.#readWhenReachable(node.name);
  }

  #readWhenReachable(name: string): void {
    const { api } = this.#state;
    if (api.state === 'unreachable' && this.#nowMs < api.retryAtMs) this.#wakeAt(api.retryAtMs);
    else this.#read(name);
  }

  #read(name: string): void {
    const { memory, settings } = this.#state;
    if (!settings.hasApi || memory.reading.has(name)) return;
    memory.reading.add(name);
    this.effects.push({ kind: 'read', name, lease: settings.policy.leaseEvidence !== 'off' });
  }

  #poll(): void {
    const { memory, reports, hold, coolDown } = this.#state;
    const nowMs = this.#nowMs;
    const oldestMs = Math.min(...Array.from(reports.values(), (stored) => stored.receivedAtMs), nowMs);
    const idle = nowMs - memory.polledAtMs > IDLE_MS;
    const overdue = idle && (reports.size === 0 || nowMs - oldestMs > REPORT_OVERDUE_MS);
    const holding = hold !== undefined && nowMs - memory.polledAtMs >= HOLD_POLL_MS;
    if (hold !== undefined) this.#wakeAt(memory.polledAtMs + HOLD_POLL_MS);
    // It ends by what the observers say then, and nobody else may have a reason to ask them.
    const cooledMs = coolDown === undefined ? Number.POSITIVE_INFINITY : coolDownEndsMs(coolDown);
    const cooled = nowMs >= cooledMs && nowMs - memory.polledAtMs > FRESH_MS;
    if (nowMs < cooledMs && coolDown !== undefined) this.#wakeAt(cooledMs);
    if (memory.polling || !(this.#pollFor.size > 0 || overdue || holding || cooled)) return;
    memory.polling = true;
    this.effects.push({ kind: 'poll', suspects: [...this.#pollFor] });
  }

  #leases(): void {
    const { memory, api } = this.#state;
    const dueMs = Math.max(
      leasesDueMs(this.#state, this.#watched),
      api.state === 'unreachable' ? api.retryAtMs : 0,
    );
    if (this.#nowMs < dueMs) {
      if (Number.isFinite(dueMs)) this.#wakeAt(dueMs);
    } else if (!memory.listingLeases) {
      memory.listingLeases = true;
      memory.leasesListedAtMs = this.#nowMs;
      this.effects.push({ kind: 'list-leases' });
    }
  }

  #list(): void {
    const state = this.#state;
    const nowMs = this.#nowMs;
    const lookUpDueMs = (state.askedListAtMs ?? Number.NEGATIVE_INFINITY) + LOOK_UP_EVERY_MS;
    const listDueMs = Math.max(
      (state.listedAtMs ?? Number.NEGATIVE_INFINITY) + LIST_EVERY_MS,
      (state.askedListAtMs ?? Number.NEGATIVE_INFINITY) + LIST_RETRY_MS,
    );
    const dueMs = state.memory.strangers ? Math.min(lookUpDueMs, listDueMs) : listDueMs;
    if (nowMs < dueMs) {
      this.#wakeAt(dueMs);
    } else if (!state.memory.listing) {
      state.memory.listing = true;
      state.memory.strangers = false;
      state.askedListAtMs = nowMs;
      this.effects.push({ kind: 'list' });
    }
  }
}
