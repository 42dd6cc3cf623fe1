import { describe, expect, test } from 'vitest';
import {
  kubeletEvidence,
  leaseSpeaks,
  look,
  lookAtLease,
  nextLookMs,
  stillAtMs,
  stillLeaseEvidence,
} from '../../worker/core/arbiter/signs.ts';
import type { FreshRead } from '../../worker/core/arbiter/state.ts';
import { toRfc3339Seconds } from '../../worker/core/rfc3339.ts';
import { PRESETS } from '../support/simulator/simulation.ts';
import { aRead } from '../support/simulator/builders.ts';

/** The node's clock is a day ahead of ours; both sides of every comparison are its own. */
const NODE = 86_400_000;
const T = 1_000_000;
const SENT = NODE + T;
const STEADY = PRESETS.steady;

const FORBIDDEN = { kind: 'refused', status: 403, why: 'no' } as const;
const TIMED_OUT = { kind: 'unreachable', why: 'no answer within 4 s' } as const;

function read(atMs: number, lease: FreshRead['lease'] | number | undefined, heartbeatMs = 0): FreshRead {
  const renewTimeMs = typeof lease === 'number' ? lease : undefined;
  const base = aRead('node-1', atMs, renewTimeMs);
  const at = toRfc3339Seconds(heartbeatMs);
  const ready = {
    status: 'True',
    reason: '',
    message: '',
    lastTransitionTime: at,
    lastHeartbeatTime: at,
  } as const;
  const node = base.node.kind === 'ok' ? { ...base.node, value: { ...base.node.value, ready } } : base.node;
  return { ...base, node, ...(typeof lease === 'object' && { lease }) };
}

describe('the kubelet of a node whose last beat was sent at T, and whose next was due 10 s later', () => {
  test.for([
    {
      name: 'has outlived it: its Lease was renewed later than that',
      read: read(T + 22_000, SENT + 10_001),
      kind: 'outlived',
    },
    { name: 'has not: its Lease was renewed before', read: read(T + 22_000, SENT + 9_999), kind: 'still' },
    {
      name: 'has outlived it, by its heartbeat time, without a Lease',
      read: read(T + 22_000, undefined, SENT + 15_000),
      kind: 'outlived',
    },
    {
      name: 'may still renew: 11 s have not passed since the missed beat',
      read: read(T + 20_999, SENT),
      kind: 'wait',
    },
    { name: 'is still once they have', read: read(T + 21_000, SENT), kind: 'still' },
    {
      name: 'is still at the first look under `look`',
      read: read(T + 12_000, SENT),
      evidence: 'look',
      kind: 'still',
    },
    {
      name: 'has outlived it under `look` too',
      read: read(T + 12_000, SENT + 10_500),
      evidence: 'look',
      kind: 'outlived',
    },
    { name: 'has no Lease: only a 404 means that', read: read(T + 22_000, undefined), kind: 'still' },
    {
      name: 'cannot be told of by a 403, under `wait`',
      read: read(T + 22_000, FORBIDDEN),
      kind: 'unavailable',
    },
    {
      name: 'cannot be told of by a timeout, under `wait`',
      read: read(T + 22_000, TIMED_OUT),
      kind: 'unavailable',
    },
    {
      name: 'is not waited for under `look`, when its Lease cannot be read',
      read: read(T + 22_000, TIMED_OUT),
      evidence: 'look',
      kind: 'still',
    },
    {
      name: 'renews no Lease where there are none',
      read: read(T + 22_000, { kind: 'off' }),
      evidence: 'off',
      kind: 'still',
    },
  ] as const)('$name', ({ read: copy, kind, ...over }) => {
    const policy = { ...STEADY, leaseEvidence: 'evidence' in over ? over.evidence : 'wait' } as const;
    expect(kubeletEvidence(policy, copy, SENT, 10_000, T + 10_000).kind).toBe(kind);
  });
});

describe('a Lease', () => {
  const heartbeatTime = toRfc3339Seconds(SENT);
  test.for([
    {
      name: 'speaks for its kubelet where there is no heartbeat time',
      signs: { renewTimeMs: 0 },
      speaks: true,
    },
    {
      name: 'speaks when renewed after the last status',
      signs: { renewTimeMs: SENT + 1, heartbeatTime },
      speaks: true,
    },
    {
      name: 'speaks when not yet due at the last status',
      signs: { renewTimeMs: SENT - 11_000, heartbeatTime },
      speaks: true,
    },
    {
      name: 'hangs when overdue at the last status',
      signs: { renewTimeMs: SENT - 13_000, heartbeatTime },
      speaks: false,
    },
    { name: 'that there is not says nothing', signs: { heartbeatTime }, speaks: false },
  ])('$name', ({ signs, speaks }) => {
    expect(leaseSpeaks(signs)).toBe(speaks);
  });

  test('that hangs is no evidence of a silent node, and nothing to wait for', () => {
    const hung = read(T + 12_000, SENT - 60_000, SENT - 5_000);
    expect(kubeletEvidence(STEADY, hung, SENT, 10_000, T + 10_000)).toEqual({
      kind: 'still',
      hasLease: false,
    });
  });

  test('that hangs is believed again by a watch once it moves', () => {
    const hung = { signs: { renewTimeMs: SENT }, movedAtMs: T, lookedAtMs: T, hasLease: false };
    const same = look(hung, read(T + 20_000, SENT, SENT));
    expect(same.hasLease).toBe(false);
    expect(look(same, read(T + 40_000, SENT + 40_000, SENT)).hasLease).toBe(true);
  });

  test('of a watch is believed no more once the kubelet reports without renewing it', () => {
    const watch = { signs: { renewTimeMs: SENT }, movedAtMs: T, lookedAtMs: T, hasLease: true };
    const next = look(watch, read(T + 40_000, SENT, SENT + 30_000));
    expect(next).toMatchObject({ hasLease: false, movedAtMs: T + 40_000 });
    expect(stillAtMs(next)).toBe(T + 1_000_000);
  });
});

describe('the Lease of a node without a beacon, read before its verdict', () => {
  test.for([
    { name: 'is still when nothing was written since', read: read(T, SENT, SENT - 60_000), kind: 'still' },
    { name: 'has moved since it was listed', read: read(T, SENT + 10_000, SENT - 60_000), kind: 'wait' },
    {
      name: 'may hang: a status was written after it',
      read: read(T, SENT, SENT + 1_000),
      kind: 'unavailable',
    },
    {
      name: 'may hang: a status was written within the same second',
      read: read(T, SENT, SENT),
      kind: 'unavailable',
    },
    { name: 'cannot be read', read: read(T, FORBIDDEN, SENT - 60_000), kind: 'unavailable' },
    { name: 'is no longer there', read: read(T, undefined, SENT - 60_000), kind: 'unavailable' },
  ] as const)('$name', ({ read: copy, kind }) => {
    expect(stillLeaseEvidence(copy, SENT, T).kind).toBe(kind);
  });
});

describe('a watched node', () => {
  const first = { signs: { renewTimeMs: SENT }, movedAtMs: T, lookedAtMs: T, hasLease: true };

  test('moves when its Lease does, in either direction of its clock', () => {
    expect(look(first, read(T + 20_000, SENT + 10_000)).movedAtMs).toBe(T + 20_000);
    expect(look(first, read(T + 20_000, SENT - 3_600_000)).movedAtMs).toBe(T + 20_000);
  });

  test('that does not move is still after a minute with a Lease, after 16 min without', () => {
    const watch = look(look(first, read(T + 20_000, SENT, NODE)), read(T + 40_000, SENT, NODE));
    expect(watch).toMatchObject({ movedAtMs: T + 20_000, lookedAtMs: T + 40_000 });
    expect(stillAtMs(watch)).toBe(T + 80_000);
    expect(stillAtMs({ ...watch, hasLease: false })).toBe(T + 980_000);
  });

  test.for([
    {
      name: 'is compared after 11 s, when it is new',
      watch: { ...first, isNew: true as const },
      dueMs: 11_000,
    },
    { name: 'is compared after 20 s, when it was before', watch: first, dueMs: 20_000 },
    {
      name: 'is compared when it becomes still, not after it',
      watch: { ...first, lookedAtMs: T + 51_000 },
      dueMs: 60_000,
    },
    {
      name: 'that is still goes on being compared',
      watch: { ...first, lookedAtMs: T + 60_000 },
      dueMs: 80_000,
    },
    {
      name: 'without a Lease is compared just as often',
      watch: { ...first, hasLease: false, lookedAtMs: T + 60_000 },
      dueMs: 80_000,
    },
  ])('$name', ({ watch, dueMs }) => {
    expect(nextLookMs(watch)).toBe(T + dueMs);
  });

  test.for([
    { name: 'a read', compared: look({ ...first, isNew: true }, read(T + 11_000, SENT, NODE)) },
    { name: 'a list', compared: lookAtLease({ ...first, isNew: true }, SENT, T + 11_000) },
  ])('is no longer new once compared by $name', ({ compared }) => {
    expect(nextLookMs(compared)).toBe(T + 31_000);
  });
});
