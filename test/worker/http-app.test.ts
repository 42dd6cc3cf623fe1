import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { PROBLEM_CONTENT_TYPE } from '../../protocol/ack.ts';
import { REFUSAL_CODES } from '../../protocol/beat.ts';
import { TIMED_OUT, withTimeout } from '../../worker/timeout.ts';
import { ADMIN_TOKEN, bearer, json, jwsOf, post, READ_TOKEN, subject } from './support/http-app.ts';

describe('a broken configuration', () => {
  const broken = { clusters: { prod: { apiUrl: 'https://kube.example.com', missedBeats: 1 } } };
  const everybody = [
    { name: 'nobody', headers: {} },
    { name: 'a reader', headers: bearer(READ_TOKEN) },
    { name: 'a guesser', headers: bearer(`${ADMIN_TOKEN}x`) },
  ];

  test.for(everybody)('healthz tells $name only that it is misconfigured', async ({ headers }) => {
    const { app } = subject(broken);

    const response = await app.request('/healthz', { headers });

    expect(response.status).toBe(500);
    expect(await json(response)).toEqual({ status: 'misconfigured' });
  });

  test('healthz tells the admin the field and what was expected', async () => {
    const { app } = subject(broken);

    const response = await app.request('/healthz', { headers: bearer(ADMIN_TOKEN) });

    expect(response.status).toBe(500);
    expect(await json(response)).toEqual({
      status: 'misconfigured',
      field: 'CLUSTERS.prod.missedBeats',
      expected: expect.stringContaining('at least 2'),
    });
  });

  test.for([
    '/v1/clusters',
    '/v1/clusters/prod',
    '/v1/clusters/prod/nodes',
    '/v1/clusters/prod/nodes/node-1',
    '/fragment',
  ])('%s: 500 misconfigured, explained to the admin only', async (path) => {
    const { app, statusReads } = subject(broken);

    const response = await app.request(path, { headers: bearer(READ_TOKEN) });
    const explained = await app.request(path, { headers: bearer(ADMIN_TOKEN) });

    expect(response.status).toBe(500);
    expect(response.headers.get('content-type')).toBe(PROBLEM_CONTENT_TYPE);
    const body = await json(response);
    expect(body).toMatchObject({ code: 'misconfigured' });
    expect(body).not.toHaveProperty('field');
    expect(await json(explained)).toMatchObject({
      code: 'misconfigured',
      field: 'CLUSTERS.prod.missedBeats',
    });
    expect(statusReads).toEqual([]);
  });

  test('a beat is refused and counted, and no observer hears of it', async () => {
    const { app, asked, counters } = subject(broken);

    const response = await post(app, jwsOf());

    expect(response.status).toBe(500);
    expect(await json(response)).toMatchObject({ code: 'misconfigured' });
    expect(counters.snapshot().beats).toEqual({ misconfigured: 1 });
    expect(asked).toEqual([]);
  });

  test('the page says so, without the field', async () => {
    const { app } = subject(broken);

    const response = await app.request('/');
    const html = await response.text();

    expect(response.status).toBe(500);
    expect(html).toContain('misconfigured');
    expect(html).not.toContain('missedBeats');
  });

  test('an admin token that is itself too short opens nothing', async () => {
    const { app } = subject({ env: { ADMIN_TOKEN: 'short' } });

    const response = await app.request('/healthz', { headers: bearer('short') });

    expect(response.status).toBe(500);
    expect(await json(response)).toEqual({ status: 'misconfigured' });
  });
});

describe('the rest', () => {
  test('healthz of a whole configuration counts its clusters', async () => {
    const { app, statusReads } = subject();

    const response = await app.request('/healthz');

    expect(response.status).toBe(200);
    expect(await json(response)).toEqual({ status: 'ok', clusters: 1 });
    expect(statusReads).toEqual([]);
  });

  test.for(['/nothing', '/v1', '/v1/clusters/prod/holds', '/healthz/x', '/favicon.ico'])(
    '%s: 404 problem',
    async (path) => {
      const { app } = subject();

      const response = await app.request(path);

      expect(response.status).toBe(404);
      expect(response.headers.get('content-type')).toBe(PROBLEM_CONTENT_TYPE);
      expect(await json(response)).toMatchObject({ code: 'not-found', status: 404 });
    },
  );

  test('a defect answers 500 internal, and its text goes to the log only', async () => {
    const logged = vi.spyOn(console, 'error').mockImplementation(() => {});
    const { app } = subject({ clusters: { prod: { apiUrl: 'https://kube.example.com', readers: 'open' } } });
    const defect = new Error('secret text');
    const broken = vi.spyOn(Date.prototype, 'toISOString').mockImplementation(() => {
      throw defect;
    });

    const response = await app.request('/v1/clusters/prod');
    broken.mockRestore();

    expect(response.status).toBe(500);
    expect(await response.text()).not.toContain('secret');
    expect(logged).toHaveBeenCalledExactlyOnceWith(defect);
    logged.mockRestore();
  });

  test('the OpenAPI document names every route and every refusal of a beat with its status', async () => {
    const { app } = subject();

    const document = (await json(await app.request('/v1/openapi.json'))) as {
      paths: Record<string, Record<string, { responses: Record<string, { description: string }> }>>;
    };

    expect(Object.keys(document.paths).toSorted()).toEqual([
      '/v1/beats',
      '/v1/clusters',
      '/v1/clusters/{cluster}',
      '/v1/clusters/{cluster}/doctor',
      '/v1/clusters/{cluster}/holds/{hold}/release',
      '/v1/clusters/{cluster}/nodes',
      '/v1/clusters/{cluster}/nodes/{node}',
      '/v1/sockets/{observer}',
    ]);
    const responses = Object.values(document.paths['/v1/beats']?.['post']?.responses ?? {});
    const documented = responses.map(({ description }) => description).join('\n');
    for (const code of REFUSAL_CODES) expect(documented).toContain(`\`${code}\``);
  });
});

describe('withTimeout', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('work that ends in time is what it is, and leaves no timer', async () => {
    expect(await withTimeout(Promise.resolve('done'), 1_000)).toBe('done');
    await expect(withTimeout(Promise.reject(new Error('broken')), 1_000)).rejects.toThrow('broken');
    expect(vi.getTimerCount()).toBe(0);
  });

  test('work that does not is given up at the limit and not before', async () => {
    let outcome: unknown;
    const waiting = withTimeout(new Promise(() => {}), 1_000).then((value) => (outcome = value));
    await vi.advanceTimersByTimeAsync(999);
    expect(outcome).toBeUndefined();

    await vi.advanceTimersByTimeAsync(1);
    await waiting;

    expect(outcome).toBe(TIMED_OUT);
  });

  test('a rejection after the limit disturbs nobody', async () => {
    let fail: (error: Error) => void = () => {};
    const work = new Promise<never>((_, reject) => (fail = reject));
    const waiting = withTimeout(work, 1_000);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await waiting).toBe(TIMED_OUT);

    fail(new Error('late'));

    await expect(work).rejects.toThrow('late');
  });
});
