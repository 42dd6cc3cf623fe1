import { describe, expect, test } from 'vitest';
import type { KubeletSign, LeavingSign } from '../../protocol/beat.ts';
import { judge } from '../../worker/core/arbiter/judge.ts';
import { heardNodes } from '../../worker/core/arbiter/share.ts';
import type { ArbiterState, FreshRead } from '../../worker/core/arbiter/state.ts';
import type { WriteStatus } from '../../worker/core/arbiter/view.ts';
import {
  aCopy,
  allReport,
  amend,
  anArbiter,
  aRead,
  nodeOf,
  reported,
  silent,
} from '../support/simulator/builders.ts';

const T = 1_000_000;
const NAMES = ['node-0', 'node-1', 'node-2', 'node-3', 'node-4'];
/** The last beat was sent at that time, and the Lease renewed before the next one was due. */
const SENT = T - 22_500;
const STILL = aRead('node-0', T, SENT + 5_000);

interface Situation {
  /** The other nodes that are missing too. */
  readonly missing?: number;
  readonly silentForMs?: number;
  readonly leaving?: LeavingSign;
  readonly kubelet?: KubeletSign;
  readonly read?: FreshRead | 'none';
  readonly arrange?: (state: ArbiterState) => void;
}

function judged({ missing = 0, silentForMs = 22_500, leaving, kubelet, read = STILL, arrange }: Situation) {
  const state = anArbiter(NAMES, T);
  const signs = { ...(leaving !== undefined && { leaving }), ...(kubelet !== undefined && { kubelet }) };
  const first =
    kubelet === undefined
      ? silent('node-0', silentForMs, { sentAtMs: SENT, ...signs })
      : reported('node-0', { ...signs, sentAtMs: T - 1_000 });
  const others = NAMES.slice(1).map((name, i) => (i < missing ? silent(name, 23_000) : reported(name)));
  allReport(state, [first, ...others], T);
  const episode = {
    id: 'e1',
    node: 'node-0',
    uid: 'uid-node-0',
    cause: 'host-silent' as const,
    lastBeatAtMs: T - silentForMs,
    suspectAtMs: T - 500,
  };
  amend(state, 'node-0', { phase: 'suspect', episode });
  if (read !== 'none') state.memory.reads.set('node-0', read);
  arrange?.(state);
  return judge(state, nodeOf(state, 'node-0'), heardNodes(state), T);
}

function kindOf(situation: Situation): string {
  const judgement = judged(situation);
  return judgement.kind === 'need' ? `need ${judgement.what}` : judgement.kind;
}

const WRITE: WriteStatus = {
  outcome: 'written',
  atMs: T - 5_000,
  reason: 'FarpulseHostSilent',
  message: '',
};

/**
 * Another node of the zone was written so long ago, having fallen silent with the suspect.
 *
 * @param checks how often its Node was looked at since; undefined where nobody looks
 */
function canary(
  writtenAgoMs: number,
  lastBeatAtMs = T - 22_500,
  checks?: number,
): (state: ArbiterState) => void {
  return (state) => {
    const write = { ...WRITE, atMs: T - writtenAgoMs };
    const episode = {
      id: 'e0',
      node: 'node-4',
      uid: 'uid-node-4',
      cause: 'host-silent' as const,
      lastBeatAtMs,
      suspectAtMs: T - 40_000,
      write,
      ...(checks !== undefined && {
        followUp: {
          podPassesLeft: 0,
          podsDueAtMs: 0,
          podsMarked: 0,
          lastTransitionTime: '',
          checkDueAtMs: T,
          checks,
        },
      }),
    };
    amend(state, 'node-4', { phase: 'down', episode });
  };
}

const NO_LEASE = aRead('node-0', T, undefined);
const READY = aCopy('node-0').ready;

describe('a node that a quorum calls silent', () => {
  test.for<{ readonly name: string; readonly kind: string } & Situation>([
    { name: 'is written, when its kubelet has not moved either', kind: 'write' },
    {
      name: 'is not judged on an old poll',
      kind: 'need poll',
      arrange: ({ memory }) => (memory.polledAtMs = T - 6_000),
    },
    { name: 'has its Node and Lease read first', kind: 'need read', read: 'none' },
    { name: 'is not judged on an old read', kind: 'need read', read: { ...STILL, atMs: T - 6_000 } },
    {
      name: 'is watched when its kubelet outlived the missed beat',
      kind: 'watch',
      read: aRead('node-0', T, SENT + 11_000),
    },
    { name: 'is held when half of the cluster is missing with it', kind: 'hold', missing: 2 },
    { name: 'waits longer when another one is missing with it', kind: 'wait', missing: 1 },
    {
      name: 'is written when that wait is over',
      kind: 'write',
      missing: 1,
      silentForMs: 45_000,
      read: aRead('node-0', T, SENT - 30_000),
    },
    {
      name: 'waits while a hold is open',
      kind: 'wait',
      arrange: (state) => (state.hold = { id: 'hold-1', sinceMs: T, nodes: [], share: 0.6 }),
    },
    {
      name: 'waits while the breaker is open',
      kind: 'wait',
      arrange: (state) => (state.breakerOpenUntilMs = T + 1),
    },
    {
      name: 'waits during the cool-down',
      kind: 'wait',
      arrange: (state) => (state.coolDown = { untilMs: T + 1, wave: [], quietSinceMs: T }),
    },
    {
      name: 'of a wave waits for its quiet too',
      kind: 'wait',
      arrange: (state) => (state.coolDown = { untilMs: T, wave: ['node-0'], quietSinceMs: T - 60_000 }),
    },
    {
      name: 'waits while the API server cannot be asked',
      kind: 'wait',
      arrange: (state) => (state.api = { state: 'unreachable', sinceMs: T, retryAtMs: T + 1, why: 'x' }),
    },
    {
      name: 'that never had a Ready condition is still starting',
      kind: 'wait',
      read: aRead('node-0', T, SENT, { ready: undefined }),
    },
    {
      name: 'whose Node is another instance by now is gone',
      kind: 'gone',
      read: aRead('node-0', T, SENT, { uid: 'uid-new' }),
    },
    {
      name: 'whose Node is not there is gone',
      kind: 'gone',
      read: { ...STILL, node: { kind: 'not-found' } },
    },
    {
      name: 'that somebody else set to Unknown needs no write',
      kind: 'already-unknown',
      read: aRead('node-0', T, SENT, READY === undefined ? {} : { ready: { ...READY, status: 'Unknown' } }),
    },
    {
      name: 'that said False is written as well',
      kind: 'write',
      read: aRead('node-0', T, SENT, READY === undefined ? {} : { ready: { ...READY, status: 'False' } }),
    },
    {
      name: 'whose beacon restarts with notice is given that time',
      kind: 'wait',
      leaving: { what: 'beacon', reason: 'upgrade', forMs: 60_000 },
    },
    {
      name: 'whose beacon wants more than two minutes does not get it',
      kind: 'write',
      silentForMs: 121_000,
      leaving: { what: 'beacon', reason: 'upgrade', forMs: 600_000 },
      read: aRead('node-0', T, SENT - 100_000),
    },
    { name: 'without a Lease may be the canary of its zone', kind: 'write', read: NO_LEASE },
    { name: 'without a Lease waits for the canary', kind: 'wait', read: NO_LEASE, arrange: canary(14_999) },
    {
      name: 'without a Lease is written once the canary was not contradicted',
      kind: 'write',
      read: NO_LEASE,
      silentForMs: 60_000,
      arrange: canary(16_000, T - 60_000),
    },
    {
      name: 'without a Lease waits for the look at the canary, however long that takes',
      kind: 'wait',
      read: NO_LEASE,
      silentForMs: 60_000,
      arrange: canary(40_000, T - 60_000, 0),
    },
    {
      name: 'without a Lease waits no longer than that look',
      kind: 'write',
      read: NO_LEASE,
      silentForMs: 60_000,
      arrange: canary(12_100, T - 60_000, 1),
    },
    {
      name: 'without a Lease waits, when the look came before a kubelet would have spoken',
      kind: 'wait',
      read: NO_LEASE,
      silentForMs: 60_000,
      arrange: canary(5_000, T - 60_000, 1),
    },
    {
      name: 'with a Lease needs no canary',
      kind: 'write',
      arrange: canary(5_000),
      silentForMs: 60_000,
      read: aRead('node-0', T, SENT - 60_000),
    },
    {
      name: 'without a Lease is watched when a live kubelet contradicted us lately',
      kind: 'watch',
      read: NO_LEASE,
      arrange: (state) => (state.contradictionsAtMs = [T - 60_000]),
    },
    {
      name: 'is not judged before everybody could beat again after a restart of the observers',
      kind: 'wait',
      arrange: (state) => {
        for (const [id, stored] of state.reports) {
          state.reports.set(id, { ...stored, report: { ...stored.report, listeningForMs: 10_000 } });
        }
      },
    },
  ])('$name', ({ kind, name: _name, ...situation }) => {
    expect(kindOf(situation)).toBe(kind);
  });

  test('that said that its host leaves is written as leaving', () => {
    const leaving = { what: 'host', reason: 'reboot', forMs: 300_000 } as const;
    expect(judged({ leaving })).toMatchObject({ kind: 'write', cause: 'leaving' });
  });

  test('is written with the evidence in one sentence', () => {
    expect(judged({})).toMatchObject({ why: 'no beat for 22.5 s in weur, enam, apac (3 of 3 regions)' });
  });
});

describe('a node whose beats say that its kubelet is down', () => {
  const down = { state: 'down', okThisBoot: true } as const;
  const looked = (sinceMs: number, renewTimeMs: number) => (state: ArbiterState) => {
    const kubeletDown = {
      sinceMs,
      lookedAtMs: sinceMs,
      signs: { renewTimeMs, heartbeatTime: '1970-01-01T00:00:00Z' },
    };
    amend(state, 'node-0', { kubeletDown });
  };

  test.for<{ readonly name: string; readonly kind: string } & Situation>([
    {
      name: 'is well, if it never answered ok in this boot',
      kind: 'well',
      kubelet: { state: 'down', okThisBoot: false },
    },
    { name: 'is looked at at once', kind: 'need read', kubelet: down, read: 'none' },
    {
      name: 'waits until everybody could beat once more',
      kind: 'wait',
      kubelet: down,
      arrange: looked(T - 5_000, 5),
    },
    { name: 'waits while its Lease moves', kind: 'wait', kubelet: down, arrange: looked(T - 12_000, SENT) },
    {
      name: 'is written when its Lease has stood still for 11 s',
      kind: 'write',
      kubelet: down,
      arrange: looked(T - 12_000, SENT + 5_000),
    },
  ])('$name', ({ kind, name: _name, ...situation }) => {
    expect(kindOf(situation)).toBe(kind);
  });
});

describe('a silent node that is watched', () => {
  const watchedFor = (lookedAgoMs: number, movedAgoMs: number, isNew?: true) => (state: ArbiterState) => {
    const watch = {
      signs: { renewTimeMs: SENT + 5_000 },
      movedAtMs: T - movedAgoMs,
      lookedAtMs: T - lookedAgoMs,
      hasLease: true,
      ...(isNew && { isNew }),
    };
    amend(state, 'node-0', { phase: 'watched', watch });
  };

  test.for<{ readonly name: string; readonly kind: string } & Situation>([
    { name: 'new, is left alone for 11 s', kind: 'wait', arrange: watchedFor(10_999, 10_999, true) },
    { name: 'new, is looked at after 11 s', kind: 'need read', arrange: watchedFor(11_000, 11_000, true) },
    { name: 'looked at before, is left alone for 20 s', kind: 'wait', arrange: watchedFor(19_999, 19_999) },
    { name: 'is looked at after 20 s', kind: 'need read', arrange: watchedFor(20_000, 20_000) },
    {
      name: 'is looked at once its Lease stands still',
      kind: 'need read',
      arrange: watchedFor(9_000, 60_000),
    },
    { name: 'is not written before', kind: 'wait', arrange: watchedFor(0, 59_999), read: STILL },
    { name: 'is written then', kind: 'write', arrange: watchedFor(0, 60_000), read: STILL },
  ])('$name', ({ kind, name: _name, read = 'none', ...situation }) => {
    expect(kindOf({ ...situation, read })).toBe(kind);
  });
});
