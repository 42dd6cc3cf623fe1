import { DurableObject } from 'cloudflare:workers';
import type { Report, ReportReply } from '../../protocol/report.ts';
import type { ArbiterState } from '../core/arbiter/state.ts';
import { statusOf } from '../core/arbiter/status.ts';
import {
  stepArbiter,
  type ArbiterEffect,
  type ArbiterEvent,
  type ArbiterStep,
} from '../core/arbiter/step.ts';
import type { ClusterStatus } from '../core/arbiter/view.ts';
import type { ClusterPort } from '../core/cluster-port.ts';
import { checkMode } from '../cluster/check-mode.ts';
import { clusterOf, fetchOf, secretsOf } from '../cluster/cluster-of.ts';
import { Gate } from '../cluster/gate.ts';
import type { DoctorRow } from '../cluster/doctor/row.ts';
import { markPods } from '../cluster/mark-pods.ts';
import { quorumOf, type ClusterConfig } from '../config.ts';
import type { Env } from '../env.ts';
import { ArbiterStore } from '../storage/arbiter-store.ts';
import { clusterConfigOf } from './names.ts';
import { poll } from './poll.ts';
import { Verifier } from './verifier.ts';
import { WakeAlarm } from './wake-alarm.ts';

/** Decides and writes for one cluster. All judgement is in `core/arbiter`. */
export class Arbiter extends DurableObject<Env> {
  readonly #store: ArbiterStore;
  readonly #verifier = new Verifier();
  readonly #events = new Gate(1);
  #loaded: Loaded | undefined;
  readonly #wake: WakeAlarm;
  #examination: Promise<readonly DoctorRow[]> | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = new ArbiterStore(ctx.storage.sql);
    this.#wake = new WakeAlarm(ctx.storage);
    void ctx.blockConcurrencyWhile(async () => {
      await this.#wake.restore();
    });
  }

  /** An observer's view. Answered at once: effects run afterwards, and nobody is called back inside. */
  async report(report: Report): Promise<ReportReply> {
    return (await this.#step({ kind: 'report', report })).reply ?? {};
  }

  /** Cron's second path. */
  async poke(): Promise<void> {
    await this.#step({ kind: 'tick' });
  }

  async status(): Promise<ClusterStatus> {
    return statusOf(this.#load().state, Date.now());
  }

  async release(holdId: string): Promise<{ released: boolean; why: string }> {
    return (await this.#step({ kind: 'release', holdId })).released ?? { released: false, why: 'no answer' };
  }

  /** What a look at the way to the API finds, from here, where verdicts are written. Changes nothing. */
  async doctor(): Promise<readonly DoctorRow[]> {
    const { config, state } = this.#load();
    // Lazy: no beat and no start of the Worker should pay for it.
    const { examine } = await import('../cluster/doctor/doctor.ts');
    // One examination at a time: who asks meanwhile gets the same.
    this.#examination ??= examine({
      config,
      fetch: fetchOf(config, this.env),
      secrets: secretsOf(config),
      nodes: [...state.nodes.values()],
      isListed: state.listedAtMs !== undefined,
      now: () => Date.now(),
    }).finally(() => {
      this.#examination = undefined;
    });
    return this.#examination;
  }

  override async alarm(): Promise<void> {
    this.#wake.rang();
    try {
      await this.#step({ kind: 'tick' });
    } catch (error) {
      // A throwing alarm is retried six times and then dropped for good; cron's poke comes in any case.
      console.error('arbiter alarm failed', error);
      await this.#wake.set(Date.now() + 1_000);
    }
  }

  #load(): Loaded {
    if (this.#loaded === undefined) {
      const { deploymentId, cluster: config } = clusterConfigOf(this.env, this.ctx.id.name ?? '');
      const settings = {
        cluster: config.name,
        mode: config.mode,
        regions: config.regions,
        shards: config.shards,
        quorum: quorumOf(config.regions.length),
        policy: config.policy,
        hasApi: config.apiUrl !== undefined,
        watchUnenrolled: config.watchUnenrolled,
        ...(config.lease !== '' && {
          lease: { name: config.lease, holder: `${deploymentId}/${config.name}` },
        }),
      };
      const state = this.#store.load(settings, Date.now());
      this.#loaded = { config, state, cluster: clusterOf(config, this.env) };
    }
    return this.#loaded;
  }

  async #step(event: ArbiterEvent): Promise<ArbiterStep> {
    const { state } = this.#load();
    const step = stepArbiter(state, event, Date.now());
    // Committed before any effect starts: the output gate then keeps every request of this object back until the
    // rows are durable, and a stale second instance, whose rows fail, sends nothing.
    this.#store.save(state);
    for (const effect of step.effects) this.ctx.waitUntil(this.#perform(effect));
    await this.#wake.set(step.wakeAtMs);
    return step;
  }

  /** Runs one effect; what came of it is the next event. Never throws: an effect without an event is lost for good. */
  async #perform(effect: ArbiterEffect): Promise<void> {
    if (effect.kind === 'event') {
      // One at a time, so that a verdict's requests find the way free. What came of it changes nothing.
      await this.#events
        .run(() => this.#load().cluster.createEvent(effect.event))
        .catch((error: unknown) => console.error('an Event was lost', error));
      return;
    }
    try {
      await this.#step(await this.#resultOf(effect));
    } catch (error) {
      console.error(`effect ${effect.kind} failed`, error);
      await this.#step(failureOf(effect));
    }
  }

  async #resultOf(effect: AnsweredEffect): Promise<ArbiterEvent> {
    const { config, cluster, state } = this.#load();
    switch (effect.kind) {
      case 'poll': {
        const begunAtMs = Date.now();
        const reports = await poll(this.env, config, effect.suspects, state, this.#verifier);
        return { kind: 'polled', begunAtMs, reports };
      }
      case 'list':
        return { kind: 'listed', result: await cluster.listNodes() };
      case 'list-leases':
        return { kind: 'leases', result: await cluster.listLeases() };
      case 'read': {
        const [node, lease] = await Promise.all([
          cluster.readNode(effect.name),
          effect.lease ? cluster.readLease(effect.name) : ({ kind: 'off' } as const),
        ]);
        return { kind: 'read', name: effect.name, node, lease };
      }
      case 'write':
        return {
          kind: 'written',
          name: effect.patch.node,
          result: await cluster.patchReadyUnknown(effect.patch),
        };
      case 'mark-pods': {
        const { marked, ok } = await markPods(cluster, effect);
        return { kind: 'pods-marked', name: effect.name, marked, ok };
      }
      case 'read-own-lease':
        return { kind: 'own-lease-read', result: await cluster.readOwnLease() };
      case 'renew-own-lease': {
        const { renewal } = effect;
        return { kind: 'own-lease-renewed', renewal, result: await cluster.renewOwnLease(renewal) };
      }
      case 'check-mode':
        return { kind: 'mode-checked', name: effect.name, finding: await checkMode(cluster, effect) };
    }
  }
}

/** The event of an effect that broke: as if the other side had not answered. */
function failureOf(effect: AnsweredEffect): ArbiterEvent {
  const failure = { kind: 'unreachable', why: 'internal error' } as const;
  switch (effect.kind) {
    case 'poll':
      return { kind: 'polled', begunAtMs: Date.now(), reports: [] };
    case 'list':
      return { kind: 'listed', result: failure };
    case 'list-leases':
      return { kind: 'leases', result: failure };
    case 'read':
      return { kind: 'read', name: effect.name, node: failure, lease: failure };
    case 'write':
      return { kind: 'written', name: effect.patch.node, result: failure };
    case 'mark-pods':
      return { kind: 'pods-marked', name: effect.name, marked: 0, ok: false };
    case 'read-own-lease':
      return { kind: 'own-lease-read', result: failure };
    case 'renew-own-lease':
      return { kind: 'own-lease-renewed', renewal: effect.renewal, result: failure };
    case 'check-mode':
      return { kind: 'mode-checked', name: effect.name, finding: { kind: 'failed', why: failure.why } };
  }
}

type AnsweredEffect = Exclude<ArbiterEffect, { kind: 'event' }>;

interface Loaded {
  readonly config: ClusterConfig;
  readonly cluster: ClusterPort;
  readonly state: ArbiterState;
}
