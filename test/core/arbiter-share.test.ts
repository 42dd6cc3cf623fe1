import { describe, expect, test } from 'vitest';
import { doubtMs, heardNodes, shareAround } from '../../worker/core/arbiter/share.ts';
import type { ArbiterNode } from '../../worker/core/arbiter/state.ts';
import type { WriteStatus } from '../../worker/core/arbiter/view.ts';
import { allReport, amend, anArbiter, reported, silent } from '../support/simulator/builders.ts';

const T = 1_000_000;
const WRITE: WriteStatus = {
  outcome: 'written',
  atMs: T - 60_000,
  reason: 'FarpulseHostSilent',
  message: '',
};

/** The share around the first node, which was last heard 22 s ago; the others as given. */
function around(
  agosMs: readonly number[],
  written: readonly number[] = [],
  writtenAgoMs = 60_000,
  amended: Readonly<Record<string, Partial<ArbiterNode>>> = {},
) {
  const names = ['node-0', ...agosMs.map((_, i) => `node-${i + 1}`)];
  const state = anArbiter(names, T);
  const nodes = names.map((name, i) =>
    i === 0 ? silent(name, 22_000) : reported(name, { heardAgoMs: agosMs[i - 1] ?? 0 }),
  );
  allReport(state, nodes, T);
  for (const i of written) {
    const name = `node-${i}`;
    const write = { ...WRITE, atMs: T - writtenAgoMs };
    const episode = {
      id: 'e',
      node: name,
      uid: `uid-${name}`,
      cause: 'host-silent' as const,
      lastBeatAtMs: 0,
      suspectAtMs: 0,
      write,
    };
    amend(state, name, { phase: 'down', episode });
  }
  for (const [name, over] of Object.entries(amended)) amend(state, name, over);
  const all = heardNodes(state);
  const suspect = all[0];
  if (suspect === undefined) throw new Error('nobody was heard');
  return shareAround(all, suspect, T);
}

describe('the share that is lost with a suspect last heard 22 s ago', () => {
  test.for([
    {
      name: 'all others were heard since its first missed beat',
      agosMs: [1_000, 5_000, 9_000],
      lost: 1,
      of: 4,
    },
    { name: 'one that is only late counts as lost', agosMs: [1_000, 12_500, 9_000], lost: 2, of: 4 },
    {
      name: 'one whose own beat is not due, but that was not heard since, counts too',
      agosMs: [1_000, 12_100],
      lost: 2,
      of: 3,
    },
    {
      name: 'all of them: a total outage, the first time anybody is silent',
      agosMs: [13_000, 15_000, 19_000, 21_000],
      lost: 5,
      of: 5,
    },
    {
      name: 'one that was gone long before does not count at all',
      agosMs: [1_000, 500_000, 9_000],
      lost: 1,
      of: 3,
    },
  ])('$name', ({ agosMs, lost, of }) => {
    const share = around(agosMs);
    expect({ lost: share.lost.length, of: share.of }).toEqual({ lost, of });
  });

  test('a node written within the hour counts as lost, although it was gone long before', () => {
    expect(around([1_000, 2_000, 3_000, 900_000, 4_000], [4])).toMatchObject({ of: 6, share: 2 / 6 });
  });

  test('a node written more than an hour ago counts no more', () => {
    expect(around([1_000, 2_000, 3_000, 9_000_000, 4_000], [4], 3_700_000)).toMatchObject({
      of: 5,
      share: 1 / 5,
    });
  });

  test.for([
    {
      name: 'was silent with it and came back counts on',
      lastBeatAgoMs: 25_000,
      returnedAgoMs: 1_000,
      wave: 2,
    },
    {
      name: 'came back before it fell silent does not',
      lastBeatAgoMs: 60_000,
      returnedAgoMs: 13_000,
      wave: 1,
    },
    { name: 'fell silent after it does not', lastBeatAgoMs: 11_000, returnedAgoMs: 1_000, wave: 1 },
  ])('a node that $name, for the doubt', ({ lastBeatAgoMs, returnedAgoMs, wave }) => {
    const lastAbsence = { lastBeatAtMs: T - lastBeatAgoMs, returnedAtMs: T - returnedAgoMs };
    const share = around([1_000, 500, 2_000, 3_000, 4_000], [], 0, { 'node-2': { lastAbsence } });
    expect(share).toMatchObject({ of: 6, share: 1 / 6, wave: wave / 6 });
  });

  test('in a cluster of four a written node leaves the share at once', () => {
    expect(around([1_000, 2_000, 900_000], [3])).toMatchObject({ of: 3, share: 1 / 3 });
  });
});

describe('doubt', () => {
  test.for([
    { name: 'none for one node of three', lost: 1, of: 3, waitMs: 0 },
    { name: 'none up to a tenth', lost: 10, of: 100, waitMs: 0 },
    { name: 'a rack of 30 in 100 waits 0.8 timeouts', lost: 30, of: 100, waitMs: 17_600 },
    { name: 'half the cluster waits 1.6 timeouts', lost: 50, of: 100, waitMs: 35_200 },
    { name: 'two of four wait a timeout', lost: 2, of: 4, waitMs: 22_000 },
  ])('$name', ({ lost, of, waitMs }) => {
    const share = {
      lost: Array.from({ length: lost }, (_, i) => `node-${i}`),
      of,
      share: lost / of,
      wave: lost / of,
    };
    expect(doubtMs(share, 22_000)).toBeCloseTo(waitMs, 6);
  });
});
