import { describe, expect, test } from 'vitest';
import { Link, LOST, type LinkModel } from '../support/simulator/network.ts';
import { EventQueue } from '../support/simulator/queue.ts';
import { Random } from '../support/simulator/random.ts';

describe('the event queue', () => {
  test('runs tasks by time, and by entry within one instant', () => {
    const queue = new EventQueue(0);
    const random = new Random(1);
    const due = Array.from({ length: 2_000 }, (_, entered) => ({
      atMs: Math.floor(random.between(0, 300)),
      entered,
    }));
    const ran: typeof due = [];
    for (const task of due) queue.at(task.atMs, () => ran.push(task));
    queue.runUntil(1_000);
    expect(ran).toEqual(due.toSorted((a, b) => a.atMs - b.atMs || a.entered - b.entered));
  });

  test('runs what is entered for the past at once, and never turns the clock back', () => {
    const queue = new EventQueue(100);
    const times: number[] = [];
    queue.at(200, () => queue.at(50, () => times.push(queue.nowMs)));
    queue.runUntil(300);
    expect(times).toEqual([200]);
    expect(queue.nowMs).toBe(300);
  });

  test('leaves what is due at the end for the next run', () => {
    const queue = new EventQueue(0);
    let ran = 0;
    queue.at(10, () => (ran += 1));
    queue.runUntil(10);
    expect(ran).toBe(0);
    queue.runUntil(11);
    expect(ran).toBe(1);
  });
});

describe('a link', () => {
  const GOOD: LinkModel = { delayMs: 10, jitterMs: 0, loss: 0 };

  function lossOf(model: LinkModel, everyMs = 100): number {
    const link = new Link(model, new Random(7));
    let lost = 0;
    for (let i = 0; i < 20_000; i++) if (link.transmit(1_000 + i * everyMs) === LOST) lost += 1;
    return lost / 20_000;
  }

  test.for([
    { name: 'loses nothing', model: GOOD, least: 0, most: 0 },
    { name: 'loses each by itself', model: { ...GOOD, loss: 0.05 }, least: 0.04, most: 0.06 },
    {
      name: 'loses in bursts, by the share of bad time',
      model: { ...GOOD, gilbert: { goodMs: 9_000, badMs: 1_000, badLoss: 0.9 } },
      least: 0.06,
      most: 0.12,
    },
  ])('$name', ({ model, least, most }) => {
    const loss = lossOf(model);
    expect(loss).toBeGreaterThanOrEqual(least);
    expect(loss).toBeLessThanOrEqual(most);
  });

  test('that is cut passes nothing', () => {
    const link = new Link(GOOD, new Random(1));
    link.isCut = true;
    expect(link.transmit(0)).toBe(LOST);
  });
});
