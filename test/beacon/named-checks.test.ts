import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckResult } from '../../protocol/beat.ts';
import { type CheckSetting, lookAt, NamedChecks } from '../../node-beacon/checks/named-checks.ts';
import { systemClock } from '../../node-beacon/clock.ts';
import { collectingLog } from './support/collecting-log.ts';
import { eventually } from './support/eventually.ts';
import { temporaryFolder } from './support/folder.ts';
import { closedPort, serve } from './support/local-server.ts';

const inTime = (): AbortSignal => AbortSignal.timeout(10_000);
const program = (path: string, ...args: string[]): CheckSetting => ({ name: 'it', program: path, args });

describe('one look', () => {
  test.for<{ name: string; setting: CheckSetting; look: object }>([
    { name: 'exit status 0', setting: program('/bin/true'), look: { state: 'ok' } },
    {
      name: 'another exit status',
      setting: program('/bin/false'),
      look: { state: 'failed', why: 'exit status 1' },
    },
    {
      name: 'the words of a program that failed',
      setting: program('/bin/ls', '/nowhere'),
      look: { state: 'failed', why: expect.stringMatching(/^exit status 2: .*nowhere/) },
    },
    {
      name: 'a program that is not there says nothing of what it was to look at',
      setting: program('/nowhere/nvidia-smi'),
      look: { state: 'unknown', why: expect.stringContaining('ENOENT') },
    },
  ])('$name', async ({ setting, look }) => {
    expect(await lookAt(setting, inTime())).toEqual(look);
  });

  test('a program that hangs is ended at the deadline', async () => {
    const started = performance.now();
    const look = await lookAt(program('/bin/sleep', '600'), AbortSignal.timeout(50));
    expect(look).toEqual({ state: 'failed', why: 'gave up waiting for it' });
    expect(performance.now() - started).toBeLessThan(60_000);
  });

  test('a program gets none of the beacon’s environment', async () => {
    const script = join(await temporaryFolder(), 'check');
    await writeFile(script, '#!/bin/sh\ntest -z "$HTTPS_PROXY" && test -z "$FARPULSE_ENDPOINT"\n', {
      mode: 0o755,
    });
    process.env['HTTPS_PROXY'] = 'http://me:secret@proxy.example';
    try {
      expect(await lookAt(program(script), inTime())).toEqual({ state: 'ok' });
    } finally {
      delete process.env['HTTPS_PROXY'];
    }
  });

  test('by HTTP: 204 is well, 503 is not, a closed port is not', async () => {
    const server = await serve((request, response) => {
      response.writeHead(request.path === '/well' ? 204 : 503).end('no "devices"\n');
    });
    const at = (path: string): CheckSetting => ({ name: 'it', url: new URL(path, server.url) });
    expect(await lookAt(at('/well'), inTime())).toEqual({ state: 'ok' });
    expect(await lookAt(at('/ill'), inTime())).toEqual({
      state: 'failed',
      why: 'answered 503: no "devices"',
    });
    const closed = { name: 'it', url: new URL(`http://127.0.0.1:${await closedPort()}/`) };
    expect(await lookAt(closed, inTime())).toMatchObject({ state: 'failed' });
  });

  test('what it says fits a beat, whatever was printed', async () => {
    const script = join(await temporaryFolder(), 'check');
    await writeFile(script, `#!/bin/sh\nprintf '%s' '${'"\\\\Ünïcödé 💥'.repeat(30)}'\nexit 3\n`, {
      mode: 0o755,
    });
    const look = await lookAt(program(script), inTime());
    expect(CheckResult.parse({ name: 'it', ...look }).why).toBe(look.why);
    expect(look.why).toMatch(/^exit status 3: /);
    expect(look.why?.isWellFormed()).toBe(true);
  });
});

test('a check fails after two failures in a row, and is told once', async () => {
  const { log, events } = collectingLog();
  const answers = [204, 503, 503, 503, 204];
  let asked = 0;
  const server = await serve((_request, response) => {
    response.writeHead(answers[Math.min(asked, answers.length - 1)] ?? 500).end();
    asked += 1;
  });
  // The rhythm's sleeps pass at once.
  const clock = {
    ...systemClock,
    sleep: (ms: number, signal?: AbortSignal) =>
      systemClock.sleep(ms >= 5_000 && ms <= 30_000 && signal === stop.signal ? 1 : ms, signal),
  };
  const stop = new AbortController();
  const checks = new NamedChecks({ settings: [{ name: 'cni', url: new URL(server.url) }], clock, log });
  expect(checks.results).toEqual([{ name: 'cni', state: 'unknown', why: 'not looked at yet' }]);
  const running = checks.run(stop.signal);
  await eventually(() => expect(events()).toEqual(['check-ok', 'check-failed', 'check-ok']));
  stop.abort();
  await running;
});
