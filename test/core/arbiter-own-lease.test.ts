import { describe, expect, test } from 'vitest';
import { leaseForbids, RENEW_EVERY_MS, TAKE_OVER_MS } from '../../worker/core/arbiter/own-lease.ts';
import type { ArbiterState } from '../../worker/core/arbiter/state.ts';
import { statusOf } from '../../worker/core/arbiter/status.ts';
import { stepArbiter, type ArbiterEffect, type ArbiterEvent } from '../../worker/core/arbiter/step.ts';
import type { ClusterFailure, OwnLeaseCopy, OwnLeaseRenewal } from '../../worker/core/cluster-port.ts';
import { allReport, anArbiter, REGIONS, reported, reports } from '../support/simulator/builders.ts';

const T = 1_800_000_000_000;
const NAMES = ['node-1', 'node-2', 'node-3'];
const FORBIDDEN = { kind: 'refused', status: 403, why: '403 Forbidden: no' } as const;
const TIMED_OUT = { kind: 'unreachable', why: 'no answer within 4 s' } as const;

/** The Lease in the cluster, which two deployments may write. */
class LeaseObject {
  version = 1;
  holder: string | undefined;
  renewTimeMs: number | undefined;
  trouble: ClusterFailure | undefined;
  /** The next answer is lost, though what was asked is done. */
  losesAnswer = false;
  renewals: string[] = [];

  read(): { kind: 'ok'; value: OwnLeaseCopy } | ClusterFailure {
    const { version, holder, renewTimeMs } = this;
    return this.trouble ?? { kind: 'ok', value: { resourceVersion: `${version}`, holder, renewTimeMs } };
  }

  renew(renewal: OwnLeaseRenewal): { kind: 'ok'; value: { resourceVersion: string } } | ClusterFailure {
    if (this.trouble !== undefined) return this.trouble;
    if (renewal.resourceVersion !== `${this.version}`) return { kind: 'conflict', why: 'modified' };
    this.version += 1;
    this.holder = renewal.holder;
    this.renewTimeMs = renewal.renewTimeMs;
    this.renewals.push(renewal.holder);
    if (!this.losesAnswer) return { kind: 'ok', value: { resourceVersion: `${this.version}` } };
    this.losesAnswer = false;
    return TIMED_OUT;
  }
}

/** One deployment, whose clock may be any. */
class Deployment {
  state: ArbiterState;
  readonly #lease: LeaseObject;
  readonly #aheadMs: number;

  constructor(lease: LeaseObject, holder: string, aheadMs = 0, over: Parameters<typeof anArbiter>[2] = {}) {
    this.#lease = lease;
    this.#aheadMs = aheadMs;
    this.state = anArbiter(NAMES, T + aheadMs, { lease: { name: 'farpulse-detector', holder }, ...over });
  }

  /** Runs at that time of the world, and answers every ask about the Lease at once. */
  tick(atMs: number): void {
    const nowMs = atMs + this.#aheadMs;
    allReport(
      this.state,
      NAMES.map((name) => reported(name)),
      nowMs,
    );
    let asks = stepArbiter(this.state, { kind: 'tick' }, nowMs).effects;
    for (let rounds = 0; rounds < 5; rounds += 1) {
      const answers = asks.flatMap((effect) => this.#answer(effect));
      if (answers.length === 0) return;
      asks = answers.flatMap((event) => stepArbiter(this.state, event, nowMs).effects);
    }
    throw new Error('it asks for ever');
  }

  #answer(effect: ArbiterEffect): ArbiterEvent[] {
    if (effect.kind === 'read-own-lease') return [{ kind: 'own-lease-read', result: this.#lease.read() }];
    if (effect.kind !== 'renew-own-lease') return [];
    const { renewal } = effect;
    return [{ kind: 'own-lease-renewed', renewal, result: this.#lease.renew(renewal) }];
  }

  mayWrite(atMs: number): boolean {
    return leaseForbids(this.state, atMs + this.#aheadMs) === undefined;
  }

  codes(atMs: number): string[] {
    return statusOf(this.state, atMs + this.#aheadMs).alerts.map(({ code }) => code);
  }
}

function run(deployments: readonly Deployment[], fromMs: number, toMs: number): void {
  for (let ms = fromMs; ms <= toMs; ms += 10_000) for (const each of deployments) each.tick(T + ms);
}

describe('our own Lease', () => {
  test('is taken when nobody holds it, and renewed once a minute, without a read', () => {
    const lease = new LeaseObject();
    const one = new Deployment(lease, 'a/prod');
    run([one], 0, 300_000);
    expect(lease).toMatchObject({ holder: 'a/prod', renewTimeMs: T + 300_000 });
    expect(lease.renewals).toHaveLength(6);
    expect(one.mayWrite(T + 300_000)).toBe(true);
    expect(one.codes(T + 300_000)).toEqual([]);
  });

  test('is renewed before a write that comes later than two minutes after the last renewal', () => {
    const one = new Deployment(new LeaseObject(), 'a/prod');
    one.tick(T);
    expect(one.mayWrite(T + 119_999)).toBe(true);
    expect(one.mayWrite(T + 120_000)).toBe(false);
    one.tick(T + 150_000);
    expect(one.mayWrite(T + 150_000)).toBe(true);
  });

  test('whose renewal was taken and its answer lost is still ours', () => {
    const lease = new LeaseObject();
    const one = new Deployment(lease, 'a/prod');
    one.tick(T);
    lease.losesAnswer = true;
    run([one], RENEW_EVERY_MS, RENEW_EVERY_MS + 30_000);
    expect(one.codes(T + 90_000)).toEqual([]);
    expect(one.mayWrite(T + 90_000)).toBe(true);
  });

  test.for<{ readonly name: string; readonly over: Parameters<typeof anArbiter>[2] }>([
    { name: 'in observe mode', over: { mode: 'observe' } },
    { name: 'without an API', over: { hasApi: false } },
  ])('is not kept $name, and forbids nothing', ({ over }) => {
    const lease = new LeaseObject();
    const one = new Deployment(lease, 'a/prod', 0, over);
    run([one], 0, 120_000);
    expect(lease.renewals).toEqual([]);
    expect(one.mayWrite(T + 120_000)).toBe(true);
  });

  test('is not renewed while too few regions can judge: it shows when we were last well', () => {
    const lease = new LeaseObject();
    const { state } = new Deployment(lease, 'a/prod');
    for (const region of REGIONS) reports(state, region, [], T, { blind: 'hears-nobody' });
    const { effects } = stepArbiter(state, { kind: 'tick' }, T);
    expect(effects.filter(({ kind }) => kind.endsWith('own-lease'))).toEqual([]);
  });

  test.for([
    { name: 'that is not there', trouble: { kind: 'not-found' }, forMs: 0 },
    { name: 'that may not be read', trouble: FORBIDDEN, forMs: 0 },
    { name: 'for which nobody answers, though others are answered', trouble: TIMED_OUT, forMs: 60_000 },
  ] as const)('$name is told, and verdicts go on without it', ({ trouble, forMs }) => {
    const lease = new LeaseObject();
    lease.trouble = trouble;
    const one = new Deployment(lease, 'a/prod');
    run([one], 0, forMs);
    expect(one.codes(T + forMs)).toEqual(['lease-unavailable']);
    expect(one.mayWrite(T + forMs)).toBe(true);
    lease.trouble = undefined;
    run([one], forMs + 10_000, forMs + 70_000);
    expect(one.codes(T + forMs + 70_000)).toEqual([]);
    expect(lease.holder).toBe('a/prod');
  });
});

describe('two deployments on one cluster', () => {
  test.for([
    { name: 'with the same clock', aheadMs: 0 },
    { name: 'with clocks a day apart', aheadMs: 86_400_000 },
    { name: 'with clocks a day apart the other way', aheadMs: -86_400_000 },
  ])('$name: the second stands down, says so, and asks twice a minute', ({ aheadMs }) => {
    const lease = new LeaseObject();
    const first = new Deployment(lease, 'a/prod');
    const second = new Deployment(lease, 'b/prod', aheadMs);
    run([first, second], 0, 1_800_000);
    expect(first.mayWrite(T + 1_800_000)).toBe(true);
    expect(first.codes(T + 1_800_000)).toEqual([]);
    expect(second.mayWrite(T + 1_800_000)).toBe(false);
    expect(second.codes(T + 1_800_000)).toEqual(['another-detector']);
    expect(statusOf(second.state, T + 1_800_000 + aheadMs)).toMatchObject({
      state: 'hold',
      why: expect.stringContaining('a/prod') as string,
    });
    expect(new Set(lease.renewals)).toEqual(new Set(['a/prod']));
  });

  test('the second takes over once the first has not renewed for three minutes, and the first stands down then', () => {
    const lease = new LeaseObject();
    const first = new Deployment(lease, 'a/prod');
    const second = new Deployment(lease, 'b/prod');
    run([first, second], 0, 60_000);
    run([second], 70_000, 60_000 + TAKE_OVER_MS - 10_000);
    expect(lease.holder).toBe('a/prod');
    run([second], 60_000 + TAKE_OVER_MS, 60_000 + TAKE_OVER_MS + 40_000);
    expect(lease.holder).toBe('b/prod');
    expect(second.mayWrite(T + 290_000)).toBe(true);
    // Before anybody else may write, the first has stopped.
    expect(first.mayWrite(T + 60_000 + TAKE_OVER_MS - 1)).toBe(false);
    run([first, second], 300_000, 400_000);
    expect(first.codes(T + 400_000)).toEqual(['another-detector']);
    expect(second.codes(T + 400_000)).toEqual([]);
  });

  test('of the same name are told apart by what each has written', () => {
    const lease = new LeaseObject();
    const first = new Deployment(lease, 'a/prod');
    const twin = new Deployment(lease, 'a/prod', 3_000);
    run([first, twin], 0, 600_000);
    const writers = [first, twin].filter((each) => each.mayWrite(T + 600_000));
    expect(writers).toHaveLength(1);
  });

  test('a suspect of the one that stands down waits, with that reason', () => {
    const lease = new LeaseObject();
    const second = new Deployment(lease, 'b/prod');
    lease.holder = 'a/prod';
    lease.renewTimeMs = 5;
    second.tick(T);
    expect(leaseForbids(second.state, T)).toEqual({
      untilMs: T + 30_000,
      why: "another deployment, a/prod, holds this cluster's Lease: this one stands down",
    });
  });

  test('nothing of it is lost by a restart', () => {
    const lease = new LeaseObject();
    const first = new Deployment(lease, 'a/prod');
    run([first], 0, 60_000);
    const stored = JSON.parse(JSON.stringify(first.state.ownLease)) as ArbiterState['ownLease'];
    expect(stored).toEqual(first.state.ownLease);
  });
});
