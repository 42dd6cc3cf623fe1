import { describe, expect, test } from 'vitest';
import {
  firstKubeletState,
  judgeKubelet,
  KubeletCheck,
  type KubeletState,
} from '../../node-beacon/checks/kubelet.ts';
import { rhythmFor } from '../../node-beacon/checks/repeat.ts';
import { systemClock } from '../../node-beacon/clock.ts';
import type { Exchanged } from '../../node-beacon/transport/exchange.ts';
import { eventually } from './support/eventually.ts';
import { collectingLog } from './support/collecting-log.ts';
import { closedPort, serve } from './support/local-server.ts';

const answered = (status: number, body: string): Exchanged => ({
  kind: 'answered',
  status,
  headers: {},
  body,
});
const broken = (code: string): Exchanged => ({
  kind: 'failed',
  failure: 'tcp',
  why: code,
  code,
  stale: false,
});
const OK = answered(200, 'ok');
const REFUSED = broken('ECONNREFUSED');
const TIMEOUT: Exchanged = {
  kind: 'failed',
  failure: 'timeout',
  why: 'gave up',
  code: undefined,
  stale: false,
};

function after(looks: readonly Exchanged[], okThisBoot = false): KubeletState {
  return looks.reduce(judgeKubelet, firstKubeletState(okThisBoot));
}

describe('the sign after a row of looks', () => {
  test.for<{ name: string; looks: Exchanged[]; sign: object }>([
    { name: 'before any: unknown', looks: [], sign: { state: 'unknown', okThisBoot: false } },
    { name: 'ok', looks: [OK], sign: { state: 'ok', okThisBoot: true } },
    { name: 'ok with a line end', looks: [answered(200, 'ok\n')], sign: { state: 'ok' } },
    { name: 'one failure after ok changes nothing', looks: [OK, REFUSED], sign: { state: 'ok' } },
    {
      name: 'two in a row are down',
      looks: [OK, REFUSED, REFUSED],
      sign: { state: 'down', okThisBoot: true, why: 'ECONNREFUSED' },
    },
    {
      name: 'failures of different kinds are two as well',
      looks: [OK, TIMEOUT, answered(500, 'syncloop')],
      sign: { state: 'down', why: 'answered 500: syncloop' },
    },
    {
      name: 'a hanging kubelet is down',
      looks: [OK, TIMEOUT, TIMEOUT],
      sign: { state: 'down', why: 'gave up' },
    },
    {
      name: 'a 200 that does not say ok is no ok',
      looks: [OK, answered(200, 'hello'), answered(200, 'hello')],
      sign: { state: 'down' },
    },
    {
      name: 'failures that are not in a row are none',
      looks: [OK, REFUSED, OK, REFUSED],
      sign: { state: 'ok' },
    },
    { name: 'ok ends down at once', looks: [OK, REFUSED, REFUSED, OK], sign: { state: 'ok' } },
    {
      name: 'never seen ok: down, but not to be believed',
      looks: [REFUSED, REFUSED],
      sign: { state: 'down', okThisBoot: false },
    },
    {
      name: 'what is wrong here and not there is unknown',
      looks: [OK, broken('EMFILE'), broken('EMFILE')],
      sign: { state: 'unknown', okThisBoot: true, why: 'EMFILE' },
    },
  ])('$name', ({ looks, sign }) => {
    expect(after(looks).sign).toMatchObject(sign);
  });

  test('ok in this boot is remembered from before the start', () => {
    expect(after([REFUSED, REFUSED], true).sign).toMatchObject({ state: 'down', okThisBoot: true });
  });

  test('ok carries no old reason', () => {
    expect(after([REFUSED, REFUSED, OK]).sign).toEqual({ state: 'ok', okThisBoot: true });
  });
});

describe('the rhythm', () => {
  test.for([
    { intervalMs: 10_000, rhythm: { periodMs: 5_000, recheckMs: 1_000, timeoutMs: 2_000 } },
    { intervalMs: 3_000, rhythm: { periodMs: 1_500, recheckMs: 750, timeoutMs: 1_500 } },
    { intervalMs: 300_000, rhythm: { periodMs: 5_000, recheckMs: 1_000, timeoutMs: 2_000 } },
  ])('at beats every $intervalMs ms', ({ intervalMs, rhythm }) => {
    expect(rhythmFor(intervalMs)).toEqual(rhythm);
  });
});

const QUICK = { periodMs: 20, recheckMs: 5, timeoutMs: 150 };

function watch(url: string) {
  const { log, events } = collectingLog();
  const stop = new AbortController();
  const firstOks: true[] = [];
  const changes: string[] = [];
  const check = new KubeletCheck({
    url: new URL(url),
    rhythm: QUICK,
    clock: systemClock,
    log,
    okThisBoot: false,
    onFirstOk: () => firstOks.push(true),
    onChange: () => changes.push(check.sign.state),
  });
  const running = check.run(stop.signal);
  return { check, stop, running, events, firstOks, changes };
}

describe('against a real server', () => {
  test('ok, gone and back are seen and told once each, on a new connection each time', async () => {
    const kubelet = await serve((_request, response) => response.end('ok'));
    const { check, stop, running, events, firstOks, changes } = watch(`${kubelet.url}/healthz`);
    await eventually(() => expect(kubelet.requests.length).toBeGreaterThan(2));
    expect(check.sign).toEqual({ state: 'ok', okThisBoot: true });
    expect(new Set(kubelet.requests.map(({ socket }) => socket)).size).toBe(kubelet.requests.length);

    await kubelet.close();
    await eventually(() =>
      expect(check.sign).toMatchObject({
        state: 'down',
        okThisBoot: true,
        why: expect.stringContaining('ECONNREFUSED'),
      }),
    );
    await serve((_request, response) => response.end('ok'), { port: kubelet.port });
    await eventually(() => expect(check.sign.state).toBe('ok'));

    stop.abort();
    await running;
    expect(events()).toEqual(['kubelet-ok', 'kubelet-down', 'kubelet-ok']);
    expect(firstOks).toHaveLength(1);
    expect(changes).toEqual(['down', 'ok']);
  });

  test('a kubelet that accepts and never answers is down after two timeouts', async () => {
    const kubelet = await serve(() => {});
    const { check, stop, running } = watch(`${kubelet.url}/healthz`);
    expect(check.sign.state).toBe('unknown');
    await eventually(() => expect(check.sign.state).toBe('down'));
    expect(kubelet.requests.length).toBeGreaterThanOrEqual(2);
    stop.abort();
    await running;
  });

  test('stopping does not wait for a hanging kubelet, and is no finding', async () => {
    const kubelet = await serve((_request, response) => {
      if (kubelet.requests.length === 1) response.writeHead(500).end(); // one failure, so that another would count
    });
    const { log, events } = collectingLog();
    const stop = new AbortController();
    const check = new KubeletCheck({
      url: new URL(kubelet.url),
      rhythm: { ...QUICK, timeoutMs: 60_000 },
      clock: systemClock,
      log,
      okThisBoot: false,
      onFirstOk: () => {},
    });
    const running = check.run(stop.signal);
    await eventually(() => expect(kubelet.requests).toHaveLength(2));
    stop.abort();
    await running;
    expect(check.sign.state).toBe('unknown');
    expect(events()).toEqual([]);
  });

  test('nobody listening from the start is down without belief', async () => {
    const { check, stop, running, firstOks } = watch(`http://127.0.0.1:${await closedPort()}/healthz`);
    await eventually(() => expect(check.sign).toMatchObject({ state: 'down', okThisBoot: false }));
    stop.abort();
    await running;
    expect(firstOks).toEqual([]);
  });
});
