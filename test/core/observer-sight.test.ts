import { describe, expect, test } from 'vitest';
import { blindness, sightOf } from '../../worker/core/observer/sight.ts';
import { stepObserver } from '../../worker/core/observer/step.ts';
import { anObserver, heardNode, hears } from '../support/simulator/builders.ts';

const T = 1_000_000;

describe('a node as one observer sees it (10 s beats, 2 missed, 2 s margin)', () => {
  test.for([
    { name: 'before the next beat is due it is heard', agoMs: 9_000, sight: 'heard' },
    { name: 'a late beat within grace stays heard', agoMs: 10_999, sight: 'heard' },
    { name: 'a second past its interval it is late', agoMs: 11_000, sight: 'late' },
    { name: 'up to its timeout it is late, not silent', agoMs: 21_999, sight: 'late' },
    { name: 'at its timeout it is silent', agoMs: 22_000, sight: 'silent' },
    {
      name: 'after a restart a minute ago it is silent, as if there had been none',
      agoMs: 90_000,
      listeningMs: 60_000,
      sight: 'silent',
    },
    {
      name: 'an observer that has not listened for an interval says nothing',
      agoMs: 15_000,
      listeningMs: 5_000,
      sight: 'listening',
    },
    {
      name: 'one that has listened for an interval says late',
      agoMs: 20_000,
      listeningMs: 12_000,
      sight: 'late',
    },
    {
      name: 'one that has listened for less than a timeout does not say silent',
      agoMs: 60_000,
      listeningMs: 21_999,
      sight: 'listening',
    },
    {
      name: 'one that has listened for a whole timeout does',
      agoMs: 60_000,
      listeningMs: 22_000,
      sight: 'silent',
    },
    {
      name: 'silence listened to before a restart is credited',
      agoMs: 60_000,
      listeningMs: 4_000,
      creditMs: 18_000,
      sight: 'silent',
    },
    {
      name: 'a credit is no more than what it is',
      agoMs: 60_000,
      listeningMs: 3_999,
      creditMs: 18_000,
      sight: 'listening',
    },
    { name: 'a longer announced interval is honoured', agoMs: 40_000, intervalMs: 20_000, sight: 'late' },
    {
      name: 'a shorter announced interval shortens nothing',
      agoMs: 10_500,
      intervalMs: 3_000,
      sight: 'heard',
    },
  ])('$name', ({ agoMs, listeningMs = 3_600_000, creditMs = 0, intervalMs = 10_000, sight }) => {
    const state = anObserver(['node-1'], T);
    hears(state, 'node-1', T, { intervalMs });
    state.listeningSinceMs = T + agoMs - listeningMs;
    expect(sightOf(state, { ...heardNode(state, 'node-1'), creditMs }, T + agoMs)).toBe(sight);
  });
});

describe('an observer', () => {
  test('that hears nobody, after listening for long enough, is blind', () => {
    const state = anObserver(['node-1', 'node-2'], T);
    for (const name of ['node-1', 'node-2']) hears(state, name, T);
    expect(blindness(state, T + 21_999)).toBeUndefined();
    expect(blindness(state, T + 22_000)).toBe('hears-nobody');
  });

  test('that still hears one of its nodes is not blind', () => {
    const state = anObserver(['node-1', 'node-2'], T);
    for (const name of ['node-1', 'node-2']) hears(state, name, T);
    hears(state, 'node-2', T + 10_000);
    expect(blindness(state, T + 30_000)).toBeUndefined();
  });

  test('that has just been restarted listens, and is not deaf', () => {
    const state = anObserver(['node-1'], T);
    hears(state, 'node-1', T);
    state.listeningSinceMs = T + 100_000;
    expect(blindness(state, T + 101_000)).toBeUndefined();
  });

  test('that refuses more than a tenth of its beats is blind', () => {
    const state = anObserver(['node-1'], T);
    for (let i = 0; i < 20; i++) hears(state, 'node-1', T + i * 10_000);
    for (let i = 0; i < 2; i++) hears(state, 'node-1', T + 200_000, { seq: 1 });
    expect(blindness(state, T + 200_000)).toBeUndefined();
    hears(state, 'node-1', T + 200_000, { seq: 2 });
    expect(blindness(state, T + 200_000)).toBe('refusing');
  });

  test('that cannot stay up for one interval says so', () => {
    const state = anObserver(['node-1'], T);
    hears(state, 'node-1', T);
    state.startedAtMs = T;
    state.previousStartedAtMs = T - 5_000;
    expect(blindness(state, T + 1_000)).toBe('restarting');
    expect(blindness(state, T + 11_000)).toBeUndefined();
  });
});

describe('the clock of the observer', () => {
  test('set back an hour does not keep a dead node heard', () => {
    const state = anObserver(['node-1', 'node-2'], T);
    for (const name of ['node-1', 'node-2']) hears(state, name, T);
    const backMs = 3_600_000;
    hears(state, 'node-2', T + 10_000 - backMs, { seq: T + 10_000 });
    for (let ms = T + 12_000; ms <= T + 40_000; ms += 2_000)
      stepObserver(state, { kind: 'tick' }, ms - backMs);
    expect(sightOf(state, heardNode(state, 'node-1'), T + 40_000 - backMs)).toBe('silent');
  });

  test('set forward an hour makes nobody silent at once', () => {
    const state = anObserver(['node-1'], T);
    hears(state, 'node-1', T);
    stepObserver(state, { kind: 'tick' }, T + 3_600_000);
    expect(sightOf(state, heardNode(state, 'node-1'), T + 3_600_000)).toBe('listening');
  });
});
