import { readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { Memory } from '../../node-beacon/memory.ts';
import { collectingLog } from './support/collecting-log.ts';
import { temporaryFolder } from './support/folder.ts';

const NODE = { name: 'node-1', uid: 'uid-1' };
const KUBELET_OK = { boot: 'boot-1', url: 'http://127.0.0.1:10248/healthz' };

describe('what the beacon remembers', () => {
  test('outlives the process, each fact for itself, in a closed file', async () => {
    const path = join(await temporaryFolder(), 'memory.json');
    const { log } = collectingLog();
    const memory = await Memory.open(path, log);
    await Promise.all([memory.remember({ node: NODE }), memory.remember({ kubeletOk: KUBELET_OK })]);
    expect((await Memory.open(path, log)).remembered).toEqual({ node: NODE, kubeletOk: KUBELET_OK });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  test('of many changes the last one stays', async () => {
    const folder = await temporaryFolder();
    const path = join(folder, 'memory.json');
    const { log } = collectingLog();
    const memory = await Memory.open(path, log);
    await Promise.all(
      Array.from({ length: 20 }, (_, index) => memory.remember({ node: { ...NODE, uid: `uid-${index}` } })),
    );
    expect((await Memory.open(path, log)).remembered.node?.uid).toBe('uid-19');
    expect(await readdir(folder)).toEqual(['memory.json']);
  });

  test.for([
    { name: 'half a file', content: '{"node":{"na' },
    { name: 'another shape', content: '{"node":"node-1"}' },
  ])('is nothing after $name, with a warning', async ({ content }) => {
    const path = join(await temporaryFolder(), 'memory.json');
    await writeFile(path, content);
    const { log, events } = collectingLog();
    expect((await Memory.open(path, log)).remembered).toEqual({});
    expect(events()).toEqual(['memory-unreadable']);
  });

  test('is kept for this run where nothing can be written', async () => {
    const folder = await temporaryFolder();
    const { log, events } = collectingLog();
    const memory = await Memory.open(join(folder, 'missing', 'memory.json'), log);
    await writeFile(join(folder, 'missing'), ''); // a file where the folder would have to be
    await memory.remember({ node: NODE });
    expect(memory.remembered.node).toEqual(NODE);
    expect(events()).toEqual(['memory-unwritable']);
  });
});
