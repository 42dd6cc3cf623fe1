import { describe, expect, test } from 'vitest';
import type { ClusterStatus, NodeStatus } from '../../worker/core/arbiter/view.ts';
import {
  ADMIN_TOKEN,
  bearer,
  clusterStatus,
  json,
  READ_TOKEN,
  START_MS,
  subject,
} from './support/http-app.ts';

const CLUSTERS = {
  open: { apiUrl: 'https://open.example.com', readers: 'open' },
  closed: { apiUrl: 'https://closed.example.com' },
};

function node(fields: Partial<NodeStatus> & { name: string }): NodeStatus {
  return {
    uid: 'uid',
    zone: 'a',
    phase: 'alive',
    sinceMs: START_MS,
    why: 'beats come',
    lastHeard: [],
    ...fields,
  };
}

const DOWN = node({
  name: 'node-1.example.internal',
  phase: 'down',
  cause: 'host-silent',
  sinceMs: START_MS - 8_000,
  why: 'silent everywhere',
  lastHeard: [{ region: 'weur', sight: 'silent', heardAgoMs: 30_049 }],
  kubelet: { state: 'ok', okThisBoot: true },
  api: { state: 'ok', roundTripMs: 12 },
  beacon: 'farpulse-beacon/0.1',
  episode: {
    id: 'episode-1',
    node: 'node-1.example.internal',
    uid: 'uid',
    cause: 'host-silent',
    lastBeatAtMs: START_MS - 30_000,
    suspectAtMs: START_MS - 19_000,
    verdictAtMs: START_MS - 8_000,
    write: {
      outcome: 'written',
      atMs: START_MS - 7_500,
      reason: 'FarpulseHostSilent',
      message: 'no beat for 22 s in weur, enam',
      podsMarked: 3,
    },
  },
});

const NODES = [
  DOWN,
  node({ name: 'node-2' }),
  node({ name: 'node-3', cause: 'api-path-cut' }),
  node({ name: 'node-4', phase: 'watched', cause: 'beacon-lost' }),
];

const WITH_NODES = {
  clusters: CLUSTERS,
  status: async (cluster: string) => clusterStatus({ cluster, nodes: NODES }),
};

describe('who may read', () => {
  const paths = ['/v1/clusters/{}', '/v1/clusters/{}/nodes', '/v1/clusters/{}/nodes/node-2'];

  test.for([
    { cluster: 'open', token: undefined, status: 200 },
    { cluster: 'open', token: 'not-a-token-at-all-no', status: 200 },
    { cluster: 'closed', token: undefined, status: 401 },
    { cluster: 'closed', token: 'not-a-token-at-all-no', status: 401 },
    { cluster: 'closed', token: `${READ_TOKEN}x`, status: 401 },
    { cluster: 'closed', token: READ_TOKEN.slice(0, -1), status: 401 },
    { cluster: 'closed', token: READ_TOKEN, status: 200 },
    { cluster: 'closed', token: ADMIN_TOKEN, status: 200 },
    { cluster: 'unknown', token: undefined, status: 401 },
    { cluster: 'unknown', token: READ_TOKEN, status: 404 },
    { cluster: 'constructor', token: READ_TOKEN, status: 404 },
  ])('cluster "$cluster" with token $token: $status', async ({ cluster, token, status }) => {
    const { app, statusReads } = subject(WITH_NODES);

    for (const path of paths) {
      const headers = token === undefined ? {} : bearer(token);
      const response = await app.request(path.replace('{}', cluster), { headers });
      expect(response.status).toBe(status);
    }
    expect(statusReads).toEqual(status === 200 ? [cluster] : []);
  });

  test('without a token a closed cluster and none at all cannot be told apart', async () => {
    const { app } = subject(WITH_NODES);

    const closed = await app.request('/v1/clusters/closed');
    const unknown = await app.request('/v1/clusters/unknown');

    expect(await closed.text()).toBe(await unknown.text());
    expect([...closed.headers]).toEqual([...unknown.headers]);
    expect(closed.headers.get('www-authenticate')).toBe('Bearer realm="farpulse"');
  });

  test('where no token is configured, an unknown cluster is simply unknown', async () => {
    const { app } = subject({
      clusters: { open: CLUSTERS.open },
      env: { READ_TOKEN: undefined, ADMIN_TOKEN: undefined },
    });

    expect((await app.request('/v1/clusters/unknown')).status).toBe(404);
  });

  test.for([
    { name: 'nobody', headers: {}, names: ['open'] },
    { name: 'a reader', headers: bearer(READ_TOKEN), names: ['open', 'closed'] },
    { name: 'the admin', headers: bearer(ADMIN_TOKEN), names: ['open', 'closed'] },
    {
      name: 'a reader who writes the scheme small',
      headers: { authorization: `bearer ${READ_TOKEN}` },
      names: ['open', 'closed'],
    },
    {
      name: 'a token as the wrong scheme',
      headers: { authorization: `Basic ${READ_TOKEN}` },
      names: ['open'],
    },
  ])('the list for $name: $names', async ({ headers, names }) => {
    const { app } = subject(WITH_NODES);

    const response = await app.request('/v1/clusters', { headers });

    expect(await response.json()).toEqual({ clusters: names.map((name) => ({ name, mode: 'observe' })) });
  });

  test('the list asks for a token when all clusters are closed, and is empty when there are none', async () => {
    const closed = subject({ clusters: { closed: CLUSTERS.closed } });
    const none = subject({ clusters: {} });

    expect((await closed.app.request('/v1/clusters')).status).toBe(401);
    expect(await json(await none.app.request('/v1/clusters'))).toEqual({ clusters: [] });
  });

  test('an answer that a token opens is never stored on the way', async () => {
    const { app } = subject(WITH_NODES);

    for (const path of ['/v1/clusters', '/v1/clusters/closed', '/v1/clusters/closed/nodes']) {
      const response = await app.request(path, { headers: bearer(READ_TOKEN) });
      expect(response.headers.get('cache-control')).toBe('no-store');
    }
  });
});

describe('what is read', () => {
  test('a cluster: times as RFC 3339, ages in seconds, counts instead of nodes', async () => {
    const full: ClusterStatus = clusterStatus({
      cluster: 'open',
      mode: 'compat',
      state: 'hold',
      why: '61 % late',
      nodes: NODES,
      hold: { id: 'hold-1', sinceMs: START_MS - 60_000, nodes: ['node-1'], share: 0.61 },
      regions: [
        { region: 'weur', nodesHeard: 3, reportedAgoMs: 4_249 },
        { region: 'enam', nodesHeard: 0, blind: 'just started' },
      ],
      api: { state: 'unreachable', sinceMs: START_MS - 1_500, why: 'connection refused' },
      alerts: [{ code: 'beacon-lost', sinceMs: START_MS, message: 'no beats', node: 'node-4' }],
    });
    const { app } = subject({ clusters: CLUSTERS, status: async () => full });

    expect(await json(await app.request('/v1/clusters/open'))).toEqual({
      cluster: 'open',
      mode: 'compat',
      at: '2026-12-01T12:00:00.000Z',
      state: 'hold',
      why: '61 % late',
      hold: { id: 'hold-1', since: '2026-12-01T11:59:00.000Z', nodes: ['node-1'], share: 0.61 },
      regions: [
        { region: 'weur', nodesHeard: 3, reportedAgoSeconds: 4.2 },
        { region: 'enam', nodesHeard: 0, blind: 'just started' },
      ],
      api: { state: 'unreachable', since: '2026-12-01T11:59:58.500Z', why: 'connection refused' },
      inventory: { nodes: 2, enrolled: 2, listedAgoSeconds: 30 },
      nodesByPhase: { down: 1, alive: 2, watched: 1 },
      alerts: [
        { code: 'beacon-lost', since: '2026-12-01T12:00:00.000Z', message: 'no beats', node: 'node-4' },
      ],
    });
  });

  test('a node: phase, cause, last heard per region, the episode and what was written', async () => {
    const { app } = subject(WITH_NODES);

    expect(await json(await app.request('/v1/clusters/open/nodes/node-1.example.internal'))).toEqual({
      name: 'node-1.example.internal',
      uid: 'uid',
      zone: 'a',
      phase: 'down',
      since: '2026-12-01T11:59:52.000Z',
      cause: 'host-silent',
      why: 'silent everywhere',
      lastHeard: [{ region: 'weur', sight: 'silent', heardAgoSeconds: 30 }],
      kubelet: { state: 'ok', okThisBoot: true },
      api: { state: 'ok', roundTripMs: 12 },
      beacon: 'farpulse-beacon/0.1',
      episode: {
        id: 'episode-1',
        node: 'node-1.example.internal',
        uid: 'uid',
        cause: 'host-silent',
        lastBeatAt: '2026-12-01T11:59:30.000Z',
        suspectAt: '2026-12-01T11:59:41.000Z',
        verdictAt: '2026-12-01T11:59:52.000Z',
        write: {
          outcome: 'written',
          at: '2026-12-01T11:59:52.500Z',
          reason: 'FarpulseHostSilent',
          message: 'no beat for 22 s in weur, enam',
          podsMarked: 3,
        },
      },
    });
  });

  test.for([
    { query: '', names: ['node-1.example.internal', 'node-2', 'node-3', 'node-4'] },
    { query: '?phase=alive', names: ['node-2', 'node-3'] },
    { query: '?phase=down&phase=watched', names: ['node-1.example.internal', 'node-4'] },
    { query: '?cause=beacon-lost', names: ['node-4'] },
    { query: '?phase=alive&cause=api-path-cut', names: ['node-3'] },
    { query: '?phase=paused', names: [] },
  ])('nodes$query: $names', async ({ query, names }) => {
    const { app } = subject(WITH_NODES);

    const body = await json(await app.request(`/v1/clusters/open/nodes${query}`));

    expect(body).toMatchObject({ cluster: 'open', at: '2026-12-01T12:00:00.000Z' });
    expect((body['nodes'] as NodeStatus[]).map(({ name }) => name)).toEqual(names);
  });

  test('a filter that is no phase is refused and named', async () => {
    const { app, statusReads } = subject(WITH_NODES);

    const response = await app.request('/v1/clusters/open/nodes?phase=asleep');

    expect(response.status).toBe(400);
    const body = await json(response);
    expect(body).toMatchObject({ code: 'invalid-request' });
    expect(body['detail']).toMatch(/^phase: /);
    expect(statusReads).toEqual([]);
  });

  test('an unknown node: 404 unknown-node', async () => {
    const { app } = subject(WITH_NODES);

    const response = await app.request('/v1/clusters/open/nodes/node-9');

    expect(response.status).toBe(404);
    expect(await json(response)).toMatchObject({ code: 'unknown-node' });
  });
});

describe('the cache', () => {
  test('readers within 1.5 s share one answer of the arbiter; then it is asked again', async () => {
    const { app, statusReads, clock } = subject(WITH_NODES);

    for (const path of ['/v1/clusters/open', '/v1/clusters/open/nodes', '/']) await app.request(path);
    clock.nowMs += 1_499;
    await app.request('/v1/clusters/open');
    expect(statusReads).toEqual(['open']);

    clock.nowMs += 1;
    await app.request('/v1/clusters/open');
    expect(statusReads).toEqual(['open', 'open']);
  });

  test('a hundred readers at once ask the arbiter once', async () => {
    let answer: (status: ClusterStatus) => void = () => {};
    const slow = new Promise<ClusterStatus>((resolve) => (answer = resolve));
    const { app, statusReads, timers } = subject({ clusters: CLUSTERS, status: () => slow });
    const readers = Array.from({ length: 100 }, async () => app.request('/v1/clusters/open'));
    await timers.armed(5_000);

    answer(clusterStatus({ cluster: 'open' }));

    expect((await Promise.all(readers)).map(({ status }) => status)).toEqual(readers.map(() => 200));
    expect(statusReads).toEqual(['open']);
  });

  test('clusters do not share answers', async () => {
    const { app } = subject(WITH_NODES);

    await app.request('/v1/clusters/open');
    const closed = await json(await app.request('/v1/clusters/closed', { headers: bearer(READ_TOKEN) }));

    expect(closed).toMatchObject({ cluster: 'closed' });
  });

  test.for([
    { name: 'throws', status: () => Promise.reject(new Error('secret text of the platform')) },
    { name: 'hangs', status: () => new Promise<ClusterStatus>(() => {}) },
  ])(
    'an arbiter that $name: 503 with Retry-After, and it is not asked again at once',
    async ({ name, status }) => {
      const { app, statusReads, timers, clock } = subject({ clusters: CLUSTERS, status });
      const pending = app.request('/v1/clusters/open');
      if (name === 'hangs') await timers.armed(5_000);
      timers.pass(5_000);

      const response = await pending;

      expect(response.status).toBe(503);
      expect(response.headers.get('retry-after')).toBe('2');
      expect(await response.text()).not.toContain('secret');
      expect((await app.request('/v1/clusters/open/nodes')).status).toBe(503);
      expect(statusReads).toEqual(['open']);
      clock.nowMs += 1_500;
      void app.request('/v1/clusters/open');
      await expect.poll(() => statusReads).toEqual(['open', 'open']);
    },
  );
});

describe('release of a hold', () => {
  const path = '/v1/clusters/closed/holds/hold-1/release';

  test.for([
    { name: 'nobody', headers: {}, status: 401 },
    { name: 'a guesser', headers: bearer('not-a-token-at-all-no'), status: 401 },
    { name: 'a reader', headers: bearer(READ_TOKEN), status: 403 },
    { name: 'the admin', headers: bearer(ADMIN_TOKEN), status: 200 },
  ])('by $name: $status', async ({ headers, status }) => {
    const { app, releases } = subject(WITH_NODES);

    const response = await app.request(path, { method: 'POST', headers });

    expect(response.status).toBe(status);
    expect(releases).toEqual(status === 200 ? ['closed/hold-1'] : []);
  });

  test('also of an open cluster only by the admin', async () => {
    const { app, releases } = subject(WITH_NODES);

    const response = await app.request('/v1/clusters/open/holds/hold-1/release', { method: 'POST' });

    expect(response.status).toBe(401);
    expect(releases).toEqual([]);
  });

  test('that is not the running one: 409 with the reason', async () => {
    const { app } = subject({
      ...WITH_NODES,
      release: async () => ({ released: false, why: 'hold-2 is the running one' }),
    });

    const response = await app.request(path, { method: 'POST', headers: bearer(ADMIN_TOKEN) });

    expect(response.status).toBe(409);
    expect(await json(response)).toMatchObject({ code: 'not-released', detail: 'hold-2 is the running one' });
  });

  test('of an unknown cluster: 404, and no arbiter is made for it', async () => {
    const { app, releases } = subject(WITH_NODES);

    const response = await app.request('/v1/clusters/other/holds/hold-1/release', {
      method: 'POST',
      headers: bearer(ADMIN_TOKEN),
    });

    expect(response.status).toBe(404);
    expect(releases).toEqual([]);
  });

  test('whose arbiter does not answer: 503 that says that the outcome is open', async () => {
    const { app, timers } = subject({ ...WITH_NODES, release: () => new Promise(() => {}) });
    const pending = app.request(path, { method: 'POST', headers: bearer(ADMIN_TOKEN) });
    await timers.armed(10_000);
    timers.pass(10_000);

    const response = await pending;

    expect(response.status).toBe(503);
    expect((await json(response))['detail']).toMatch(/whether the hold is released/);
  });

  test('is seen by the next reader, also when a read from before it is still under way', async () => {
    const answers: ((status: ClusterStatus) => void)[] = [];
    const { app, timers } = subject({
      clusters: CLUSTERS,
      status: () => new Promise<ClusterStatus>((resolve) => answers.push(resolve)),
    });
    const before = app.request('/v1/clusters/open');
    await timers.armed(5_000);
    await app.request('/v1/clusters/open/holds/hold-1/release', {
      method: 'POST',
      headers: bearer(ADMIN_TOKEN),
    });
    answers[0]?.(clusterStatus({ cluster: 'open', state: 'hold' }));
    expect(await json(await before)).toMatchObject({ state: 'hold' });

    const after = app.request('/v1/clusters/open');
    await expect.poll(() => answers.length).toBe(2);
    answers[1]?.(clusterStatus({ cluster: 'open', state: 'judging' }));

    expect(await json(await after)).toMatchObject({ state: 'judging' });
  });
});
