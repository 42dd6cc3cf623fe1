import type { Report, ReportReply, ReportedNode } from '../../../protocol/report.ts';
import {
  newArbiter,
  type ArbiterNode,
  type ArbiterSettings,
  type ArbiterState,
  type LeasePulse,
  type StoredReport,
} from '../../../worker/core/arbiter/state.ts';
import {
  stepArbiter,
  type ArbiterEffect,
  type ArbiterEvent,
  type ArbiterStep,
} from '../../../worker/core/arbiter/step.ts';
import { watchesUnenrolled } from '../../../worker/core/arbiter/unenrolled.ts';
import type { UnknownPatch } from '../../../worker/core/cluster-port.ts';
import type { ApiModel } from './api-model.ts';
import { LOST, type Path } from './network.ts';
import { ObjectHost } from './object-host.ts';
import type { ObserverHost } from './observer-host.ts';
import type { EventQueue } from './queue.ts';
import type { Random } from './random.ts';

const POLL_TIMEOUT_MS = 1_000;
/** As in worker/cluster/kubernetes.ts. */
const API_TIMEOUT_MS = 4_000;

const UNREACHABLE = { kind: 'unreachable', why: 'no answer within 4 s' } as const;

interface ArbiterParts {
  readonly queue: EventQueue;
  readonly random: Random;
  readonly settings: ArbiterSettings;
  readonly api: ApiModel;
  /** From the arbiter to the API server. */
  readonly apiPath: Path;
  readonly isFaithful: boolean;
}

/** The arbiter's object: imitates worker/objects/arbiter.ts, its store and its poll around the production core. */
export class ArbiterHost extends ObjectHost {
  observers: readonly ObserverHost[] = [];
  /** A PATCH has been decided and is sent now. */
  onDecided: ((patch: UnknownPatch) => void) | undefined;
  polls = 0;
  readonly #parts: ArbiterParts;
  readonly #store: ArbiterRows;
  #state!: ArbiterState;

  constructor(parts: ArbiterParts) {
    super(parts.queue, parts.random);
    this.#parts = parts;
    this.#store = new ArbiterRows(parts.isFaithful);
  }

  /** As it is now, loaded if need be; for assertions only. */
  get state(): ArbiterState {
    return this.#state;
  }

  /** Undefined: nobody answered. A stalled arbiter takes the report in later, but its answer is too late. */
  report(report: Report): ReportReply | undefined {
    if (this.isAway) return undefined;
    if (this.isStalled) {
      this.queue.at(this.stalledUntilMs, () => this.report(report));
      return undefined;
    }
    return this.#step({ kind: 'report', report: this.#copy(report) }).reply ?? {};
  }

  release(holdId: string): void {
    this.#step({ kind: 'release', holdId });
  }

  protected override load(): void {
    this.#state = this.#store.load(this.#parts.settings, this.ownNowMs);
  }

  protected override tick(): void {
    this.#step({ kind: 'tick' });
  }

  #step(event: ArbiterEvent): ArbiterStep {
    this.wake();
    const step = stepArbiter(this.#state, event, this.ownNowMs);
    this.#state = step.state;
    this.#store.save(step.state);
    for (const effect of step.effects) this.#perform(effect);
    this.arm(step.wakeAtMs);
    return step;
  }

  /** Feeds an effect's result back, unless the life that waited for it is over. */
  #finish(life: number, event: ArbiterEvent): void {
    if (life !== this.life) return;
    if (this.isStalled) {
      this.queue.at(this.stalledUntilMs, () => this.#finish(life, event));
      return;
    }
    this.pending -= 1;
    this.#step(event);
  }

  #perform(effect: ArbiterEffect): void {
    const { api } = this.#parts;
    switch (effect.kind) {
      case 'poll':
        this.#poll(effect.suspects);
        return;
      case 'list':
        this.#request(
          () => api.listNodes(),
          (result) => ({ kind: 'listed', result: result ?? UNREACHABLE }),
        );
        return;
      case 'list-leases':
        this.#request(
          () => api.listLeases(),
          (result) => ({ kind: 'leases', result: result ?? UNREACHABLE }),
        );
        return;
      case 'read': {
        const { name } = effect;
        this.#request(
          () => ({
            node: api.readNode(name),
            lease: effect.lease ? api.readLease(name) : ({ kind: 'off' } as const),
          }),
          (read) => ({
            kind: 'read',
            name,
            node: read?.node ?? UNREACHABLE,
            lease: read?.lease ?? UNREACHABLE,
          }),
        );
        return;
      }
      case 'write': {
        const { patch } = effect;
        this.onDecided?.(patch);
        this.#request(
          () => api.patchReadyUnknown(patch),
          (result) => ({ kind: 'written', name: patch.node, result: result ?? UNREACHABLE }),
        );
        return;
      }
      case 'mark-pods': {
        const { name, uid, lastTransitionTime } = effect;
        this.#request(
          () => api.markPods(name, uid, lastTransitionTime),
          (done) => ({ kind: 'pods-marked', name, marked: done?.marked ?? 0, ok: done?.ok ?? false }),
        );
        return;
      }
      case 'event':
        api.createEvent(effect.event);
        return;
      case 'read-own-lease':
        this.#request(
          () => api.readOwnLease(),
          (result) => ({ kind: 'own-lease-read', result: result ?? UNREACHABLE }),
        );
        return;
      case 'renew-own-lease': {
        const { renewal } = effect;
        this.#request(
          () => api.renewOwnLease(renewal),
          (result) => ({ kind: 'own-lease-renewed', renewal, result: result ?? UNREACHABLE }),
        );
        return;
      }
      case 'check-mode': {
        const { name, uid, lastTransitionTime } = effect;
        this.#request(
          () => api.checkMode(name, uid, lastTransitionTime),
          (finding) => ({
            kind: 'mode-checked',
            name,
            finding: finding ?? { kind: 'failed', why: UNREACHABLE.why },
          }),
        );
        return;
      }
    }
  }

  /** One call to the API server: it may be done there although its answer never arrives here. */
  #request<T>(run: () => T, eventOf: (result: T | undefined) => ArbiterEvent): void {
    const { apiPath, api } = this.#parts;
    const { life, queue } = this;
    this.pending += 1;
    const sentAtMs = queue.nowMs;
    const goMs = apiPath.there.transmit(sentAtMs);
    const timedOutAtMs = sentAtMs + API_TIMEOUT_MS;
    if (goMs === LOST) {
      queue.at(timedOutAtMs, () => this.#finish(life, eventOf(undefined)));
      return;
    }
    queue.at(sentAtMs + goMs, () => {
      if (api.trouble === 'unreachable') {
        queue.at(timedOutAtMs, () => this.#finish(life, eventOf(undefined)));
        return;
      }
      const result = run();
      const backMs = apiPath.back.transmit(queue.nowMs);
      if (backMs === LOST) queue.at(timedOutAtMs, () => this.#finish(life, eventOf(undefined)));
      else queue.after(backMs, () => this.#finish(life, eventOf(result)));
    });
  }

  #poll(suspects: readonly string[]): void {
    const { queue, life } = this;
    this.polls += 1;
    this.pending += 1;
    const begunAtMs = this.ownNowMs;
    const reports: Report[] = [];
    let left = this.observers.length;
    let isDone = false;
    const finish = (): void => {
      if (isDone) return;
      isDone = true;
      this.#finish(life, { kind: 'polled', begunAtMs, reports });
    };
    const oneLess = (): void => {
      left -= 1;
      if (left === 0) finish();
    };
    for (const observer of this.observers) {
      // The path is the observer's, so the arbiter's question goes the other way.
      const goMs = observer.path.back.transmit(queue.nowMs);
      if (goMs === LOST) continue;
      queue.after(goMs, () => {
        if (observer.isAway) {
          queue.after(1, oneLess);
          return;
        }
        const report = observer.ask(suspects);
        const backMs = observer.path.there.transmit(queue.nowMs);
        if (report === undefined || backMs === LOST) return;
        queue.after(backMs, () => {
          if (isDone) return;
          reports.push(this.#verified(this.#copy(report)));
          oneLess();
        });
      });
    }
    queue.after(POLL_TIMEOUT_MS, finish);
  }

  /** A proof that is not the beat it stands for does not verify. */
  #verified(report: Report): Report {
    const nodes = report.nodes.map((node): ReportedNode => {
      if (node.proof === undefined) return node;
      const { proof, ...without } = node;
      return proof === `${node.boot}:${node.seq}` ? node : without;
    });
    return { ...report, nodes };
  }

  #copy(report: Report): Report {
    return this.#parts.isFaithful ? structuredClone(report) : report;
  }
}

/** The rows of worker/storage/arbiter-store.ts: only what changed is written, told by object identity. */
class ArbiterRows {
  readonly #isFaithful: boolean;
  readonly #nodes = new Map<string, { readonly value: ArbiterNode; readonly json: string }>();
  readonly #reports = new Map<string, { readonly value: StoredReport; readonly json: string }>();
  #cluster: string | undefined;
  #leases = '[]';
  #leasesTakenAtMs = Number.NEGATIVE_INFINITY;

  constructor(isFaithful: boolean) {
    this.#isFaithful = isFaithful;
  }

  load(settings: ArbiterSettings, nowMs: number): ArbiterState {
    const fresh = newArbiter(settings, nowMs);
    if (this.#cluster === undefined) return fresh;
    fresh.memory.leases = new Map(JSON.parse(this.#leases) as [string, LeasePulse][]);
    fresh.memory.leasesTakenAtMs = this.#leasesTakenAtMs;
    return {
      ...fresh,
      ...(JSON.parse(this.#cluster) as Partial<ArbiterState>),
      nodes: this.#loadMap(this.#nodes),
      reports: this.#loadMap(this.#reports),
    };
  }

  save(state: ArbiterState): void {
    this.#saveMap(this.#nodes, state.nodes);
    this.#saveMap(this.#reports, state.reports);
    const { settings: _s, nodes: _n, reports: _r, memory: _m, ...cluster } = state;
    this.#cluster = JSON.stringify(cluster);
    const { leases, leasesTakenAtMs } = state.memory;
    if (this.#leasesTakenAtMs === leasesTakenAtMs || !watchesUnenrolled(state)) return;
    this.#leases = JSON.stringify([...leases]);
    this.#leasesTakenAtMs = leasesTakenAtMs;
  }

  #loadMap<T>(rows: Map<string, { readonly value: T; readonly json: string }>): Map<string, T> {
    const loaded = new Map<string, T>();
    for (const [key, row] of rows) {
      const value = this.#isFaithful ? (JSON.parse(row.json) as T) : row.value;
      loaded.set(key, value);
      rows.set(key, { value, json: row.json });
    }
    return loaded;
  }

  #saveMap<T>(
    rows: Map<string, { readonly value: T; readonly json: string }>,
    current: ReadonlyMap<string, T>,
  ): void {
    for (const [key, value] of current) {
      if (rows.get(key)?.value === value) continue;
      // Unless faithful, values are taken for immutable, as the core promises; that saves most of a run's time.
      rows.set(key, { value, json: this.#isFaithful ? JSON.stringify(value) : '' });
    }
    if (rows.size === current.size) return;
    for (const key of rows.keys()) if (!current.has(key)) rows.delete(key);
  }
}
