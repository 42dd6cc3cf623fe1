import { runInDurableObject } from 'cloudflare:test';
import { expect, test } from 'vitest';
import { ArbiterStore } from '../../worker/storage/arbiter-store.ts';
import { anArbiter } from '../support/simulator/builders.ts';
import { learn } from '../../worker/core/arbiter/inventory.ts';
import { takeLeases } from '../../worker/core/arbiter/leases.ts';
import { arbiter } from './support/lab.ts';

const T = 1_800_000_000_000;

test.for([
  {
    name: 'are stored while a node without a beacon is watched by its own',
    watchUnenrolled: true,
    stored: 1,
  },
  { name: 'are not stored otherwise', watchUnenrolled: false, stored: 0 },
])('Leases $name', async ({ watchUnenrolled, stored }) => {
  await runInDurableObject(arbiter(), (_instance, { storage }) => {
    storage.sql.exec('DROP TABLE IF EXISTS leases');
    const state = anArbiter([], T, { watchUnenrolled });
    learn(state, { name: 'node-1', uid: 'uid-1', labels: {}, annotations: {} }, T);
    const store = new ArbiterStore(storage.sql);
    for (const ms of [0, 20_000, 40_000]) takeLeases(state, [{ node: 'node-1', renewTimeMs: ms }], T + ms);
    store.save(state);

    const { memory } = new ArbiterStore(storage.sql).load(state.settings, T + 60_000);
    expect(memory.leases.size).toBe(stored);
    if (stored === 0) return;
    expect([...memory.leases]).toEqual([...state.memory.leases]);
    expect(memory.leasesTakenAtMs).toBe(T + 40_000);
  });
});
