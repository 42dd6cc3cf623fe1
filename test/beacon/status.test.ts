import { readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { statusCommand } from '../../node-beacon/commands/status.ts';
import type { Delivery, Outcome } from '../../node-beacon/deliver.ts';
import { readHost } from '../../node-beacon/host.ts';
import { StatusKeeper } from '../../node-beacon/status/keeper.ts';
import { metricsText } from '../../node-beacon/status/metrics.ts';
import { BeaconStatus, isWell } from '../../node-beacon/status/status.ts';
import { statusText } from '../../node-beacon/status/status-text.ts';
import { collectingLog } from './support/collecting-log.ts';
import { temporaryFolder } from './support/folder.ts';
import { VirtualClock } from './support/virtual-clock.ts';

const BOOT = readHost().bootId;
const DELIVERED: Outcome = { kind: 'delivered', endpoint: 'https://a.example', roundTripMs: 41.7 };
const FAILED: Outcome = { kind: 'failed', failure: 'dns', why: 'no such name' };
const by = (outcome: Outcome, ...recordedBy: string[]): Delivery => ({
  outcome,
  tries: 1,
  recordedBy,
  objections: new Set(),
});

async function setUp(uptimeMs = 100_000) {
  const folder = await temporaryFolder();
  const clock = new VirtualClock();
  const { log, events } = collectingLog();
  const statusFile = join(folder, 'run/status.json');
  const metricsFile = join(folder, 'run/beacon.prom');
  const uptime = { ms: uptimeMs };
  const keeper = new StatusKeeper({
    constant: {
      beacon: 'farpulse-beacon/test',
      deployment: 'prod',
      cluster: 'berlin',
      node: 'node-1',
      kid: 'thumbprint',
      boot: BOOT,
      intervalMs: 10_000,
    },
    uid: () => 'uid-1',
    signs: () => ({
      kubelet: { state: 'down', okThisBoot: true, why: 'nobody listens' },
      api: { state: 'ok', roundTripMs: 3 },
      checks: [
        { name: 'gpu', state: 'failed', why: 'exit status 9' },
        { name: 'cni', state: 'unknown' },
      ],
    }),
    transport: () => 'https',
    statusFile,
    metricsFile,
    clock,
    uptimeMs: () => uptime.ms,
    log,
  });
  return { keeper, uptime, statusFile, metricsFile, events };
}

describe('the status', () => {
  test('says per observer when it last recorded a beat, and why the last one was not delivered', async () => {
    const { keeper, uptime } = await setUp();
    await keeper.note(1, by(DELIVERED, 'weur', 'enam'));
    uptime.ms += 10_000;
    await keeper.note(2, by(FAILED));
    await keeper.note(3, by({ kind: 'interrupted' }));
    expect(keeper.status).toMatchObject({
      beats: 2,
      delivered: 1,
      lastBeat: { seq: 2, outcome: 'failed', why: 'dns: no such name' },
      lastAck: { atMs: 100_000, recordedBy: ['weur', 'enam'], roundTripMs: 42 },
      observers: { weur: 100_000, enam: 100_000 },
    });
    const text = statusText(keeper.status, uptime.ms);
    expect(text).toMatch(
      /^beats +arrive\nwhy not +dns: no such name\nlast ack +10 s ago, round trip 42 ms, https,/,
    );
    expect(text).toMatch(/^ {2}weur +10 s ago$/m);
    expect(text).toMatch(/^kubelet +down: nobody listens$/m);
    expect(text).toMatch(/^ {2}gpu +failed: exit status 9$/m);
  });

  test.for([
    { name: 'an ack of the last beat', afterMs: 9_000, well: true },
    { name: 'one beat without an ack', afterMs: 19_000, well: true },
    { name: 'two beats without an ack and a little more', afterMs: 25_001, well: false },
  ])('$name', async ({ afterMs, well }) => {
    const { keeper } = await setUp();
    await keeper.note(1, by(DELIVERED, 'weur', 'enam'));
    expect(isWell(keeper.status, 100_000 + afterMs)).toBe(well);
  });

  test('is written for everybody to read, with the metrics', async () => {
    const { keeper, statusFile, metricsFile } = await setUp();
    await keeper.note(7, by(DELIVERED, 'weur', 'enam'));
    expect(BeaconStatus.parse(JSON.parse(await readFile(statusFile, 'utf8')))).toEqual(keeper.status);
    expect(await readFile(metricsFile, 'utf8')).toBe(metricsText(keeper.status));
    expect((await stat(metricsFile)).mode & 0o777).toBe(0o644);
  });

  test('that cannot be written costs one line and nothing else', async () => {
    const { keeper, statusFile, events } = await setUp();
    await writeFile(join(statusFile, '../..', 'run'), 'a file where a folder should be');
    await keeper.write();
    await keeper.write();
    expect(events()).toEqual(['status-unwritable']);
  });
});

test('the metrics: a family a fact, and nothing where nothing is known', async () => {
  const { keeper } = await setUp();
  const before = metricsText(keeper.status);
  expect(before).not.toContain('last_ack');
  await keeper.note(1, by(DELIVERED, 'weur', 'enam'));
  const lines = metricsText(keeper.status).trimEnd().split('\n');
  expect(lines).toContain('farpulse_beacon_beats_delivered_total 1');
  expect(lines).toContain('farpulse_beacon_kubelet_ok 0');
  expect(lines).toContain('farpulse_beacon_check_ok{check="gpu"} 0');
  expect(lines.some((line) => line.includes('cni'))).toBe(false);
  expect(lines).toContain(
    'farpulse_beacon_info{beacon="farpulse-beacon/test",cluster="berlin",node="node-1",key="thumbprint"} 1',
  );
  for (const line of lines)
    expect(line).toMatch(/^(# (HELP|TYPE) farpulse_beacon_\w+ .+|farpulse_beacon_\w+(\{.+\})? [\d.]+)$/);
});

describe('the command', () => {
  const run = async (statusFile: string, json = false): Promise<{ exit: number; lines: string[] }> => {
    const lines: string[] = [];
    const exit = await statusCommand({ statusFile }, json, (line) => lines.push(line));
    return { exit, lines };
  };

  test('exit 0 while beats arrive', async () => {
    const { keeper, statusFile } = await setUp(readHost().uptimeMs());
    await keeper.note(1, by(DELIVERED, 'weur', 'enam'));
    expect((await run(statusFile)).exit).toBe(0);
    const { exit, lines } = await run(statusFile, true);
    expect(exit).toBe(0);
    expect(JSON.parse(lines.join(''))).toMatchObject({ well: true, node: 'node-1' });
  });

  test('exit 1 when none has arrived', async () => {
    const { keeper, statusFile } = await setUp(readHost().uptimeMs());
    await keeper.write();
    const { exit, lines } = await run(statusFile);
    expect(exit).toBe(1);
    expect(lines.join('\n')).toMatch(/^beats +do NOT arrive/);
  });

  test('exit 1 when it was written before this boot', async () => {
    const { keeper, statusFile } = await setUp(readHost().uptimeMs());
    await keeper.note(1, by(DELIVERED, 'weur', 'enam'));
    const before = Date.now() / 1_000 - readHost().uptimeMs() / 1_000 - 3_600;
    await utimes(statusFile, before, before);
    const { exit, lines } = await run(statusFile);
    expect({ exit, lines }).toEqual({
      exit: 1,
      lines: [`no beacon has run since this node was booted: ${statusFile} is older`],
    });
  });

  test('exit 1 when there is no status, or rubbish', async () => {
    const path = join(await temporaryFolder(), 'status.json');
    expect(await run(path)).toEqual({ exit: 1, lines: [`no beacon runs: ${path} is not there`] });
    await writeFile(path, '{}');
    expect((await run(path)).exit).toBe(1);
  });
});
