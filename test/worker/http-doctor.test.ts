// The doctor's route: who may ask, and what an arbiter that does not answer becomes.
import { expect, test, vi } from 'vitest';
import { ADMIN_TOKEN, bearer, json, READ_TOKEN, START_MS, subject } from './support/http-app.ts';

const PATH = '/v1/clusters/prod/doctor';
const ROWS = [
  { check: 'api', state: 'ok', found: 'Kubernetes v1.37.0 answers' },
  { check: 'mode', state: 'unknown', found: 'cannot be seen', todo: 'look' },
] as const;

test('the rows of the arbiter, to the admin', async () => {
  const { app } = subject({ doctor: async () => ROWS });
  const response = await app.request(PATH, { method: 'POST', headers: bearer(ADMIN_TOKEN) });
  expect(response.status).toBe(200);
  expect(response.headers.get('cache-control')).toBe('no-store');
  expect(await json(response)).toEqual({ cluster: 'prod', at: new Date(START_MS).toISOString(), rows: ROWS });
});

test.for([
  { name: 'nobody', headers: {}, path: PATH, status: 401, code: 'unauthorized' },
  { name: 'a reader', headers: bearer(READ_TOKEN), path: PATH, status: 403, code: 'forbidden' },
  {
    name: 'the admin, for a cluster that is not configured',
    headers: bearer(ADMIN_TOKEN),
    path: '/v1/clusters/other/doctor',
    status: 404,
    code: 'unknown-cluster',
  },
])('$name gets $status, and no arbiter is asked', async ({ headers, path, status, code }) => {
  const asked: string[] = [];
  const { app } = subject({
    doctor: async (cluster) => {
      asked.push(cluster);
      return ROWS;
    },
  });
  const response = await app.request(path, { method: 'POST', headers });
  expect([response.status, (await json(response))['code']]).toEqual([status, code]);
  expect(asked).toEqual([]);
});

test('reading is not enough: a link cannot start it', async () => {
  const { app } = subject({ doctor: async () => ROWS });
  expect((await app.request(PATH, { headers: bearer(ADMIN_TOKEN) })).status).toBe(404);
});

test('an arbiter that fails is not available, and its text stays inside', async () => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => {});
  const { app } = subject({
    doctor: async () => {
      throw new Error('the-secret');
    },
  });
  const response = await app.request(PATH, { method: 'POST', headers: bearer(ADMIN_TOKEN) });
  expect(response.status).toBe(503);
  expect(JSON.stringify(await json(response))).not.toContain('the-secret');
  expect(log).toHaveBeenCalledOnce();
  log.mockRestore();
});

test('an arbiter that does not answer is given up after 35 s', async () => {
  const { app, timers } = subject({ doctor: () => new Promise(() => {}) });
  const answer = app.request(PATH, { method: 'POST', headers: bearer(ADMIN_TOKEN) });
  await timers.armed(35_000);
  timers.pass(35_000);
  expect((await answer).status).toBe(503);
});
