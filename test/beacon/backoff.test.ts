import { expect, test } from 'vitest';
import { afterBeat, backoffLevel, NO_BACKOFF } from '../../node-beacon/backoff.ts';
import type { Outcome } from '../../node-beacon/deliver.ts';

const OUTCOMES: Readonly<Record<string, Outcome['kind']>> = {
  D: 'delivered',
  F: 'failed',
  S: 'short',
  R: 'refused',
  I: 'interrupted',
};

test.for([
  { name: 'three lost beats, which every preset survives, change nothing', beats: 'FFF', level: 0 },
  { name: 'the fourth in a row does: the node is silent anyway', beats: 'FFFF', level: 1 },
  { name: 'each further one doubles the window', beats: 'FFFFF', level: 2 },
  { name: 'to a limit', beats: 'FFFFFFFFFFFFFFFF', level: 4 },
  { name: 'refused and too few observers count as well', beats: 'RSRS', level: 1 },
  { name: 'a beat that was cut short says nothing', beats: 'FFFIIII', level: 0 },
  { name: 'before that, one delivered beat starts the count anew', beats: 'FFFDFFF', level: 0 },
  { name: 'losing every second beat is not backing off', beats: 'FDFDFDFDFDFD', level: 0 },
  { name: 'after it, one delivered beat leads back to the mildest level', beats: 'FFFFFFFFD', level: 1 },
  { name: 'two are not sustained success', beats: 'FFFFFFFFDDF', level: 2 },
  { name: 'three in a row are', beats: 'FFFFFFFFDDD', level: 0 },
  { name: 'and then it takes four lost ones again', beats: 'FFFFFFFFDDDFFF', level: 0 },
])('$name: $beats', ({ beats, level }) => {
  const kinds = beats.split('').map((letter) => OUTCOMES[letter] ?? 'interrupted');
  expect(backoffLevel(kinds.reduce(afterBeat, NO_BACKOFF))).toBe(level);
});
