import { describe, expect, test } from 'vitest';
import {
  claimsOn,
  confirmSilence,
  deafRegions,
  lastHeardMs,
  silentSinceMs,
} from '../../worker/core/arbiter/witness.ts';
import type { Report, ReportedNode } from '../../protocol/report.ts';
import {
  amend,
  anArbiter,
  nodeOf,
  REGIONS,
  reported,
  reports,
  silent,
} from '../support/simulator/builders.ts';

const T = 1_000_000;

type Said = ReportedNode | 'nothing' | { readonly blind: NonNullable<Report['blind']> };

function confirmed(
  said: readonly Said[],
  over: { readonly suspectSinceMs?: number; readonly vetoSeq?: number; readonly vetoAgoMs?: number } = {},
) {
  const state = anArbiter(['node-1', 'node-2'], T);
  said.forEach((node, index) => {
    const region = REGIONS[index];
    if (region === undefined || node === 'nothing') return;
    if ('blind' in node) reports(state, region, [silent('node-1', 30_000)], T, { blind: node.blind });
    else reports(state, region, [node], T);
  });
  const { vetoSeq, vetoAgoMs = 0, suspectSinceMs = T } = over;
  if (vetoSeq !== undefined)
    amend(state, 'node-1', { veto: { boot: 'boot-0001', seq: vetoSeq, sinceMs: T - vetoAgoMs } });
  const node = nodeOf(state, 'node-1');
  return confirmSilence(state, node, claimsOn(state, node), suspectSinceMs, T);
}

const PROVEN = reported('node-1', { seq: 9, proof: 'boot-0001:9' });
const SILENT = silent('node-1', 30_000, { seq: 8 });

describe('silence needs a quorum of the configured observers', () => {
  test.for([
    { name: 'three of three', said: [SILENT, SILENT, SILENT], kind: 'confirmed' },
    { name: 'two, one does not answer', said: [SILENT, SILENT, 'nothing'], kind: 'confirmed' },
    { name: 'two, one is blind', said: [SILENT, SILENT, { blind: 'restarting' }], kind: 'confirmed' },
    { name: 'one, the others do not answer: too few', said: [SILENT, 'nothing', 'nothing'], kind: 'too-few' },
    {
      name: 'one, the others are blind: too few',
      said: [SILENT, { blind: 'refusing' }, { blind: 'hears-nobody' }],
      kind: 'too-few',
    },
    { name: 'two, one has heard it and proves it: wait', said: [SILENT, SILENT, PROVEN], kind: 'wait' },
    {
      name: 'two, one says heard and proves nothing: no veto',
      said: [SILENT, SILENT, reported('node-1', { seq: 9 })],
      kind: 'confirmed',
    },
    {
      name: 'two, one proves an older beat: no veto',
      said: [SILENT, SILENT, reported('node-1', { seq: 7, proof: 'x' })],
      kind: 'confirmed',
    },
    {
      name: 'two, one proves the same beat: no veto',
      said: [SILENT, SILENT, reported('node-1', { seq: 8, proof: 'x' })],
      kind: 'confirmed',
    },
    {
      name: 'two, one proves a late beat of its own: wait',
      said: [SILENT, SILENT, { ...PROVEN, sight: 'late', heardAgoMs: 12_000 }],
      kind: 'wait',
    },
    {
      name: 'two, one proves a beat of another boot: wait',
      said: [SILENT, SILENT, { ...PROVEN, boot: 'boot-0002', seq: 1 }],
      kind: 'wait',
    },
    {
      name: 'one, another cannot say yet: wait',
      said: [SILENT, { ...SILENT, sight: 'listening', judgesInMs: 5_000 }, 'nothing'],
      kind: 'wait',
    },
    {
      name: 'one, another cannot say since a whole timeout: too few',
      said: [SILENT, { ...SILENT, sight: 'listening', judgesInMs: 5_000 }, 'nothing'],
      suspectSinceMs: T - 22_000,
      kind: 'too-few',
    },
    {
      name: 'two, the same beat has vetoed for a timeout: no more',
      said: [SILENT, SILENT, PROVEN],
      vetoSeq: 9,
      vetoAgoMs: 22_000,
      kind: 'confirmed',
    },
    {
      name: 'two, the same beat has vetoed for less',
      said: [SILENT, SILENT, PROVEN],
      vetoSeq: 9,
      vetoAgoMs: 21_999,
      kind: 'wait',
    },
    {
      name: 'two, another beat than the one before vetoes anew',
      said: [SILENT, SILENT, PROVEN],
      vetoSeq: 8,
      vetoAgoMs: 60_000,
      kind: 'wait',
    },
    {
      name: 'beats that were refused lately are no silence',
      said: [SILENT, { ...SILENT, refused: { code: 'old-key', agoMs: 3_000 } }, 'nothing'],
      kind: 'too-few',
    },
  ] as const)('$name', ({ said, kind, ...over }) => {
    expect(confirmed(said, over).kind).toBe(kind);
  });
});

describe('when a node was last heard', () => {
  test.for([
    { name: 'is what a quorum confirms', agosMs: [30_000, 29_000, 31_000], lastMs: 30_000 },
    {
      name: 'is not moved by one region that always says "a second ago"',
      agosMs: [30_000, 1_000, 31_000],
      lastMs: 30_000,
    },
    {
      name: 'is not moved by one region that says "never"',
      agosMs: [30_000, 9_000_000, 29_000],
      lastMs: 30_000,
    },
    { name: 'is known from one region, when only that knows the node', agosMs: [30_000], lastMs: 30_000 },
  ])('$name', ({ agosMs, lastMs }) => {
    const state = anArbiter(['node-1'], T);
    agosMs.forEach((agoMs, i) => reports(state, REGIONS[i] ?? '', [silent('node-1', agoMs)], T));
    expect(T - lastHeardMs(claimsOn(state, nodeOf(state, 'node-1')))).toBe(lastMs);
  });

  test('a region that did not answer the poll abstains, and what it heard still counts as heard', () => {
    const state = anArbiter(['node-1'], T);
    reports(state, 'weur', [silent('node-1', 1_000)], T - 60_000);
    const [claim] = claimsOn(state, nodeOf(state, 'node-1'), T - 100);
    expect(claim).toMatchObject({ kind: 'absent', heardAtMs: T - 61_000 });
  });

  test('another instance of the same name is not this node', () => {
    const state = anArbiter(['node-1'], T);
    reports(state, 'weur', [silent('node-1', 1_000, { uid: 'uid-of-another' })], T);
    expect(claimsOn(state, nodeOf(state, 'node-1'))[0]?.kind).toBe('absent');
  });

  test('silence begins anew where no region has listened without a gap', () => {
    const state = anArbiter(['node-1'], T);
    for (const [i, listenedForMs] of [22_000, 25_000].entries()) {
      reports(state, REGIONS[i] ?? '', [silent('node-1', 80_000, { listenedForMs })], T);
    }
    expect(T - silentSinceMs(claimsOn(state, nodeOf(state, 'node-1')))).toBe(25_000);
  });
});

describe('a region that hears few of those that another one hears', () => {
  const NAMES = ['node-1', 'node-2', 'node-3', 'node-4', 'node-5'];
  const heard = (name: string): ReportedNode => reported(name);
  const unheard = (count: number) => (name: string, index: number) =>
    index < count ? silent(name, 30_000) : reported(name);

  test.for<{
    readonly name: string;
    readonly nodes?: readonly string[];
    readonly said: readonly ((name: string, index: number) => ReportedNode)[];
    readonly blind?: string;
    readonly oldRegion?: string;
    readonly deaf: readonly string[];
  }>([
    { name: 'three of five: it is the suspect', said: [unheard(3), heard, heard], deaf: ['weur'] },
    { name: 'two of five: they may be', said: [unheard(2), heard, heard], deaf: [] },
    {
      name: 'both of two: too few to say',
      nodes: NAMES.slice(0, 2),
      said: [unheard(2), heard, heard],
      deaf: [],
    },
    {
      name: 'nobody is heard anywhere: nothing to compare',
      said: [unheard(5), unheard(5), unheard(5)],
      deaf: [],
    },
    {
      name: 'two of three regions: one that hears is enough',
      said: [unheard(5), unheard(5), heard],
      deaf: ['weur', 'enam'],
    },
    {
      name: 'heard by one that calls itself blind: that does not count',
      said: [unheard(5), heard, unheard(5)],
      blind: 'enam',
      deaf: [],
    },
    {
      name: 'heard in an answer to an earlier poll: that does not count',
      said: [unheard(5), heard, unheard(5)],
      oldRegion: 'enam',
      deaf: [],
    },
  ])('$name', ({ nodes = NAMES, said, blind, oldRegion, deaf }) => {
    const state = anArbiter(nodes, T);
    said.forEach((say, index) => {
      const region = REGIONS[index] ?? '';
      const over = region === blind ? { blind: 'restarting' as const } : {};
      reports(state, region, nodes.map(say), region === oldRegion ? T - 60_000 : T, over);
    });
    expect([...deafRegions(state, T)]).toEqual(deaf);
  });
});
