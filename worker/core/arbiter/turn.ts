import { announce } from './announce.ts';
import { alreadyUnknown, intend, returned, suspect, toPhase, watch, wouldWrite } from './episode.ts';
import { coolDownEndsMs, HOLD_POLL_MS, openHold, tendHold } from './hold.ts';
import { isPaused, LIST_EVERY_MS, LIST_RETRY_MS, LOOK_UP_EVERY_MS } from './inventory.ts';
import { judge, suspicionOf } from './judge.ts';
import { LIST_ABOVE, leasesDueMs } from './leases.ts';
import type { ArbiterEffect } from './messages.ts';
import { nextLeaseAsk, noteSent } from './own-lease.ts';
import { heardNodes, type Heard } from './share.ts';
import { nextLookMs, RENEWAL_MS, signsOf } from './signs.ts';
import { FRESH_MS, type ArbiterNode, type ArbiterState, type FollowUp } from './state.ts';
import {
  isUnenrolled,
  judgeUnenrolled,
  moveUnenrolled,
  pulsingNodes,
  watchesUnenrolled,
} from './unenrolled.ts';
import { claimsOn, lastHeardMs, newestClaim } from './witness.ts';

/** An observer that has not reported for this long is asked. */
const REPORT_OVERDUE_MS = 240_000;
/** Nothing happens for at most this long: cron's pace. */
const IDLE_MS = 60_000;
/** Longer than any answer takes, or is waited for. */
const ASK_AGAIN_MS = 5_000;

function withKubeletDown(node: ArbiterNode, kubeletDown: ArbiterNode['kubeletDown']): ArbiterNode {
  const { kubeletDown: _, ...without } = node;
  return kubeletDown === undefined ? without : { ...without, kubeletDown };
}

/** One pass over all nodes after an event: phases first, then verdicts, then what is due by the clock. */
export class Turn {
  readonly effects: ArbiterEffect[] = [];
  wakeAtMs: number;
  readonly #state: ArbiterState;
  readonly #nowMs: number;
  #all: readonly Heard[] = [];
  #everyone: readonly Heard[] = [];
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
    const heard = heardNodes(state);
    const pulsing = pulsingNodes(state);
    // Around a node that beats, those without a beacon count only once they are missing: their pulse is slower.
    const lost = pulsing.filter(({ node }) => node.phase !== 'unenrolled');
    this.#all = lost.length === 0 ? heard : [...heard, ...lost];
    this.#everyone = pulsing.length === 0 ? heard : [...heard, ...pulsing];
    const holdsUnenrolled = pulsing.some(({ node }) => state.hold?.nodes.includes(node.name));
    tendHold(state, holdsUnenrolled ? this.#everyone : this.#all, this.#nowMs);
    this.#watched = [...state.nodes.values()].filter((node) => node.phase === 'watched').length;
    for (const node of state.nodes.values()) this.#decide(node);
    this.#poll();
    this.#ownLease();
    this.#leases();
    this.#list();
    for (const name of state.memory.toRead) this.#read(name);
    this.effects.push(...announce(state, this.#nowMs));
    this.#wakeForWhatIsUnderWay();
  }

  /** What is under way is known to memory only: should that be lost before the answer comes, it is asked for again. */
  #wakeForWhatIsUnderWay(): void {
    const { polling, listing, checkingMode, askingOwnLease, reading, writing, marking } = this.#state.memory;
    const isAnything =
      polling || listing || checkingMode || askingOwnLease || reading.size + writing.size + marking.size > 0;
    if (isAnything) this.#wakeAt(this.#nowMs + ASK_AGAIN_MS);
  }

  #wakeAt(atMs: number): void {
    this.wakeAtMs = Math.min(this.wakeAtMs, Math.max(atMs, this.#nowMs + 1));
  }

  /** The phase that the newest reports imply. */
  #move(node: ArbiterNode): ArbiterNode {
    const nowMs = this.#nowMs;
    if (isUnenrolled(node)) return moveUnenrolled(this.#state, node, nowMs);
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
        case 'unenrolled':
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
    const judgement = isUnenrolled(node)
      ? judgeUnenrolled(this.#state, node, this.#everyone, this.#nowMs)
      : judge(this.#state, node, this.#all, this.#nowMs);
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
        this.#lookAtPods('mark-pods', node, followUp);
      }
    }
    // One at a time: what the first look finds may spare the others.
    const { modeCheckDueAtMs } = followUp;
    if (modeCheckDueAtMs !== undefined) {
      if (this.#nowMs < modeCheckDueAtMs) {
        this.#wakeAt(modeCheckDueAtMs);
      } else if (!memory.checkingMode) {
        memory.checkingMode = true;
        this.#lookAtPods('check-mode', node, followUp);
      }
    }
    this.#lookAt(node, followUp.checkDueAtMs);
  }

  #lookAtPods(kind: 'check-mode' | 'mark-pods', node: ArbiterNode, { lastTransitionTime }: FollowUp): void {
    this.effects.push({ kind, name: node.name, uid: node.uid, lastTransitionTime });
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
    if (nowMs < cooledMs) this.#wakeAt(cooledMs);
    if (memory.polling || !(this.#pollFor.size > 0 || overdue || holding || cooled)) return;
    memory.polling = true;
    this.effects.push({ kind: 'poll', suspects: [...this.#pollFor] });
  }

  #leases(): void {
    const { memory, api } = this.#state;
    const dueMs = Math.max(
      leasesDueMs(this.#state, this.#watched, watchesUnenrolled(this.#state)),
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

  #ownLease(): void {
    const state = this.#state;
    // An API server that does not answer is not asked for this: whoever asks for more will find it back.
    if (state.memory.askingOwnLease || state.api.state === 'unreachable') return;
    const next = nextLeaseAsk(state, this.#nowMs);
    if (next === undefined) return;
    if (this.#nowMs < next.atMs) {
      this.#wakeAt(next.atMs);
      return;
    }
    state.memory.askingOwnLease = true;
    noteSent(state, next.ask);
    this.effects.push(next.ask);
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
