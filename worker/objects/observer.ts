import { DurableObject } from 'cloudflare:workers';
import { claimedKid, digestOf, peekBeat } from '../../protocol/jws.ts';
import { audienceOf } from '../../protocol/names.ts';
import type { BeatAnswer, Report } from '../../protocol/report.ts';
import { BEAT_HEADER } from '../../protocol/socket.ts';
import type { ClusterConfig } from '../config.ts';
import type { KeptNode, ObserverIdentity, ObserverState } from '../core/observer/state.ts';
import { restore } from '../core/observer/snapshot.ts';
import { stepObserver, type ObserverEvent, type ObserverStep } from '../core/observer/step.ts';
import { reportOf } from '../core/observer/report.ts';
import { observerIdOf } from '../core/shard.ts';
import type { Env } from '../env.ts';
import { TIMED_OUT, withTimeout } from '../timeout.ts';
import { ObserverStore } from '../storage/observer-store.ts';
import { ackOf, BeaconSockets } from './beacon-sockets.ts';
import { arbiterStub, clusterConfigOf, parseObserverName } from './names.ts';
import { Verifier } from './verifier.ts';
import { WakeAlarm } from './wake-alarm.ts';

/** A report not answered by then is sent anew later. Pending calls keep an object billed. */
const REPORT_TIMEOUT_MS = 5_000;

const NOBODY: ReadonlySet<string> = new Set();

/** Hears the beats of one (cluster, region, shard). All judgement is in `core/observer`. */
export class Observer extends DurableObject<Env> {
  readonly #store: ObserverStore;
  readonly #verifier = new Verifier();
  readonly #sockets: BeaconSockets;
  #loaded: Promise<Loaded> | undefined;
  readonly #wake: WakeAlarm;
  #reporting = false;
  #reportAgain = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = new ObserverStore(ctx.storage.sql);
    this.#wake = new WakeAlarm(ctx.storage);
    this.#sockets = new BeaconSockets(ctx);
  }

  /**
   * One beat, as it came. The answer says whether this observer has it, and if not, why.
   *
   * @param digest from the router, which is of the same deployment; during a deploy an older one sends none
   */
  async beat(jws: string, digest?: string): Promise<BeatAnswer> {
    const { state, audience } = await this.#load();
    const { observer } = state.identity;
    const peeked = peekBeat(jws);
    if (!peeked.ok) return { kind: 'refused', observer, code: peeked.code, why: peeked.why };
    const { beat } = peeked;
    if (beat.aud !== audience) {
      return { kind: 'refused', observer, code: 'wrong-audience', why: `this deployment is ${audience}` };
    }
    const registered = state.registered.get(beat.node);
    if (await this.#verifier.isSignedBy(jws, registered?.keys ?? [])) {
      const step = await this.#step({ kind: 'beat', beat, jws, digest: digest ?? (await digestOf(jws)) });
      if (state.kept.has(beat.node)) this.#keep(state, beat.node);
      return this.#answer(step);
    }
    if (await this.#verifier.isSignedBy(jws, registered?.oldKeys ?? [])) {
      return this.#answer(await this.#step({ kind: 'old-key', beat }));
    }
    // The key it claims is known, so this is garbage, or a beat that was tampered with: nothing to look up.
    if (await this.#verifier.isOneOf(claimedKid(jws), registered?.keys ?? [])) {
      return { kind: 'refused', observer, code: 'bad-signature', why: 'not signed by the key it names' };
    }
    await this.#step({ kind: 'stranger', name: beat.node });
    return { kind: 'refused', observer, code: 'stranger', why: 'not signed with a key that its Node names' };
  }

  /** A beacon's handshake. The router has checked what it can, and makes the problem of a refusal. */
  override async fetch(handshake: Request): Promise<Response> {
    const { state, config } = await this.#load();
    const { identity } = state;
    const jws = handshake.headers.get(BEAT_HEADER) ?? '';
    const peeked = peekBeat(jws);
    const name = peeked.ok ? peeked.beat.node : '';
    if (this.#sockets.isFullFor(name)) {
      const why = 'as many sockets as one observer takes';
      const { observer } = identity;
      return Response.json({ kind: 'refused', observer, code: 'unavailable', why } satisfies BeatAnswer);
    }
    const digest = await digestOf(jws);
    const answer = await this.beat(jws, digest);
    const kept = keptNodeOf(state, name);
    if (answer.kind === 'refused' || kept === undefined) return Response.json(answer);
    const response = this.#sockets.accept(name, kept, ackOf(identity, config, digest));
    await this.#step({ kind: 'socket-opened', name });
    return response;
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    const { state, config } = await this.#load();
    await this.#sockets.answer(socket, message, state.identity, config, (jws, digest) =>
      this.beat(jws, digest),
    );
  }

  /** No sign of anything: beacons restart, middleboxes tidy up, and the end of a socket may be told late or never. */
  override async webSocketClose(socket: WebSocket): Promise<void> {
    // Woken by this very event, the object must not lose what the socket has kept.
    await this.#load(undefined, socket);
    const name = this.#sockets.nodeOf(socket);
    if (!this.#sockets.has(name, socket)) await this.#step({ kind: 'socket-closed', name });
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    await this.webSocketClose(socket);
  }

  /** The arbiter's poll: the present view, with the newest beat of each suspect as proof. */
  async ask(suspects: readonly string[]): Promise<Report> {
    await this.#step({ kind: 'tick' });
    const { state } = await this.#load();
    return reportOf(state, new Set(suspects), Date.now());
  }

  /** Cron's second path: look at the clock, and arm the alarm if it was lost. */
  async poke(): Promise<void> {
    await this.#step({ kind: 'tick' });
  }

  override async alarm(info?: AlarmInvocationInfo): Promise<void> {
    this.#wake.rang();
    try {
      // While an alarm runs `getAlarm` is null, so memory is restored with the moment it was due.
      await this.#load(info?.scheduledTime);
      await this.#step({ kind: 'tick' });
    } catch (error) {
      // A throwing alarm is retried six times and then dropped for good; cron's poke comes in any case.
      console.error('observer alarm failed', error);
      await this.#wake.set(Date.now() + 1_000);
    }
  }

  /** @param closing the socket whose end has woken this object, if it was that */
  #load(alarmDueAtMs?: number, closing?: WebSocket): Promise<Loaded> {
    this.#loaded ??= this.#restore(alarmDueAtMs, closing).catch((error: unknown) => {
      this.#loaded = undefined;
      throw error;
    });
    return this.#loaded;
  }

  async #restore(alarmDueAtMs: number | undefined, closing: WebSocket | undefined): Promise<Loaded> {
    const { cluster, region, shard } = parseObserverName(this.ctx.id.name);
    const { deploymentId, cluster: config } = clusterConfigOf(this.env, cluster);
    const identity: ObserverIdentity = {
      observer: observerIdOf(region, shard, config.shards),
      region,
      shard,
    };
    const armedAtMs = await this.#wake.restore();
    const state = restore(
      identity,
      config.policy,
      this.#store.load(),
      alarmDueAtMs ?? armedAtMs,
      Date.now(),
      this.#sockets.kept(closing),
    );
    return { cluster, config, audience: audienceOf(deploymentId, cluster), state };
  }

  #keep(state: ObserverState, name: string): void {
    const kept = keptNodeOf(state, name);
    if (kept !== undefined) this.#sockets.keep(name, kept);
  }

  async #step(event: ObserverEvent): Promise<ObserverStep> {
    const loaded = await this.#load();
    const step = stepObserver(loaded.state, event, Date.now());
    for (const effect of step.effects) {
      switch (effect.kind) {
        case 'store':
          // The output gate holds the ack until this row is durable.
          this.#store.save(effect.snapshot);
          break;
        case 'store-return':
          this.#store.saveReturn(effect.name, effect.node);
          break;
        case 'report':
          this.#report();
          break;
      }
    }
    await this.#wake.set(step.wakeAtMs);
    return step;
  }

  #answer(step: ObserverStep): BeatAnswer {
    if (step.answer === undefined) throw new Error('a beat was not answered');
    return step.answer;
  }

  /** One report at a time; what happens meanwhile goes into the next. */
  #report(): void {
    this.#reportAgain = true;
    if (this.#reporting) return;
    this.#reporting = true;
    this.ctx.waitUntil(this.#sendReports());
  }

  async #sendReports(): Promise<void> {
    try {
      while (this.#reportAgain) {
        this.#reportAgain = false;
        await this.#step({ kind: 'reported', ok: await this.#sendReport() });
      }
    } finally {
      this.#reporting = false;
    }
  }

  async #sendReport(): Promise<boolean> {
    const { cluster, state } = await this.#load();
    try {
      const report = reportOf(state, NOBODY, Date.now());
      const reply = await withTimeout(arbiterStub(this.env, cluster).report(report), REPORT_TIMEOUT_MS);
      if (reply === TIMED_OUT) return false;
      if (reply.registry !== undefined) {
        this.#verifier.clear();
        await this.#step({ kind: 'registry', registry: reply.registry });
      }
      return true;
    } catch (error) {
      console.warn('report not delivered', error instanceof Error ? error.message : 'unknown error');
      return false;
    }
  }
}

function keptNodeOf(state: ObserverState, name: string): KeptNode | undefined {
  const node = state.nodes.get(name);
  const jws = state.proofs.get(name);
  return node === undefined || jws === undefined ? undefined : { node, jws };
}

interface Loaded {
  readonly cluster: string;
  readonly config: ClusterConfig;
  readonly audience: string;
  readonly state: ObserverState;
}
