import { describe, expect, test } from 'vitest';
import type { ReportedNode, Report } from '../../protocol/report.ts';
import type { ArbiterNode } from '../../worker/core/arbiter/state.ts';
import { statusOf } from '../../worker/core/arbiter/status.ts';
import { amend, anArbiter, REGIONS, reported, reports, silent } from '../support/simulator/builders.ts';

const T = 1_800_000_000_000;
const MINUTE_MS = 60_000;

/** What one region says: of the node, or that it is blind. */
type Said = ReportedNode | { readonly blind: NonNullable<Report['blind']>; readonly agoMs: number };

function sentence(said: readonly Said[]): { readonly why: string; readonly alerts: readonly string[] } {
  const state = anArbiter(['node-7'], T);
  amend(state, 'node-7', { phase: 'alive' });
  for (const [index, one] of said.entries()) {
    const region = REGIONS[index] ?? '';
    if ('blind' in one) reports(state, region, [silent('node-7', one.agoMs)], T, { blind: one.blind });
    else reports(state, region, [one], T);
  }
  const { nodes, alerts } = statusOf(state, T);
  return {
    why: nodes[0]?.why ?? '',
    alerts: alerts.filter(({ node }) => node !== undefined).map(({ code, message }) => `${code}: ${message}`),
  };
}

const HEARD = reported('node-7');

describe('what is said of a node that no verdict stands against', () => {
  test.for<{
    readonly name: string;
    readonly said: readonly Said[];
    readonly why: string;
    readonly alerts?: readonly string[];
  }>([
    { name: 'heard by all', said: [HEARD, HEARD, HEARD], why: 'beats come' },
    {
      name: 'heard by all but one, for a short while',
      said: [silent('node-7', 9 * MINUTE_MS), HEARD, HEARD],
      why: 'beats come',
    },
    {
      name: 'not heard by one of three for long: below the quorum, and told',
      said: [silent('node-7', 40 * MINUTE_MS), HEARD, HEARD],
      why: 'beats come, but one region of three (weur) has not heard node-7 for 40 min',
      alerts: ['region-does-not-hear: one region of three (weur) has not heard node-7 for 40 min'],
    },
    {
      name: 'alone in its cluster and dead: all observers hear nobody and are blind',
      said: REGIONS.map(() => ({ blind: 'hears-nobody', agoMs: 5 * MINUTE_MS }) as const),
      why: 'no beat is known for 5 min, and too few regions can tell (weur hears-nobody, enam hears-nobody, apac hears-nobody)',
    },
    {
      name: 'silent in one region, while the others have just started',
      said: [
        silent('node-7', 30_000),
        reported('node-7', { sight: 'listening', heardAgoMs: 30_000 }),
        { blind: 'restarting', agoMs: 30_000 },
      ],
      why: 'no beat is known for 30 s, and too few regions can tell (enam listening, apac restarting)',
    },
    {
      name: 'late everywhere: its next beat may yet come',
      said: REGIONS.map(() => reported('node-7', { sight: 'late', heardAgoMs: 12_000 })),
      why: 'beats come',
    },
  ])('$name', ({ said, why, alerts = [] }) => {
    expect(sentence(said)).toEqual({ why, alerts });
  });
});

describe('what people are told of a node', () => {
  const EPISODE = {
    id: 'e1',
    node: 'node-7',
    uid: 'uid-node-7',
    cause: 'host-silent',
    lastBeatAtMs: T - 90_000,
    suspectAtMs: T - 67_000,
  } as const;
  const VETO = { boot: 'boot-0001', seq: 9, sinceMs: T - 60_000 };

  test.for<{
    readonly name: string;
    readonly node: Partial<ArbiterNode>;
    readonly said?: Partial<ReportedNode>;
    readonly codes: readonly string[];
  }>([
    { name: 'nothing, when it is well', node: { phase: 'alive' }, codes: [] },
    {
      name: 'that it flaps: three returns within the hour',
      node: { phase: 'alive', returnsAtMs: [T - 3_500_000, T - 60_000, T - 1_000] },
      codes: ['flapping'],
    },
    {
      name: 'nothing of a return longer ago',
      node: { phase: 'alive', returnsAtMs: [T - 3_600_000, T - 60_000, T - 1_000] },
      codes: [],
    },
    {
      name: 'that witnesses disagree, after three timeouts',
      node: { phase: 'suspect', veto: VETO, episode: EPISODE },
      codes: ['witnesses-disagree'],
    },
    {
      name: 'nothing of a veto before',
      node: { phase: 'suspect', veto: VETO, episode: { ...EPISODE, suspectAtMs: T - 66_000 } },
      codes: [],
    },
    {
      name: 'that its write was refused',
      node: {
        phase: 'suspect',
        episode: { ...EPISODE, write: { outcome: 'failed', atMs: T, reason: 'x', message: '', error: 'no' } },
      },
      codes: ['write-refused'],
    },
    {
      name: 'that two machines beat with its key',
      node: { phase: 'alive' },
      said: { duplicate: true },
      codes: ['duplicate-identity'],
    },
    {
      name: 'that its beats are refused',
      node: { phase: 'alive' },
      said: { refused: { code: 'old-key', agoMs: 1_000 } },
      codes: ['refused-beats'],
    },
    {
      name: 'that it cannot reach the API server',
      node: { phase: 'alive' },
      said: { api: { state: 'cut', why: 'timed out' } },
      codes: ['api-path-cut'],
    },
    {
      name: 'why it is down',
      node: { phase: 'down', cause: 'host-silent', episode: EPISODE },
      codes: ['host-silent'],
    },
    {
      name: 'not that a leaving host is down',
      node: { phase: 'down', cause: 'leaving', episode: EPISODE },
      codes: [],
    },
    { name: 'why it is watched', node: { phase: 'watched', cause: 'beacon-lost' }, codes: ['beacon-lost'] },
  ])('$name', ({ node, said = {}, codes }) => {
    const state = anArbiter(['node-7'], T);
    for (const region of REGIONS) reports(state, region, [reported('node-7', said)], T);
    amend(state, 'node-7', { sinceMs: T, ...node });
    expect(statusOf(state, T).alerts.map(({ code }) => code)).toEqual(codes);
  });
});
