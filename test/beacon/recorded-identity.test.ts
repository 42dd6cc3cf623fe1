import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { writeEnrolment, type EnrolmentRecord } from '../../node-beacon/enrolment-file.ts';
import { RecordedIdentity } from '../../node-beacon/recorded-identity.ts';
import { collectingLog } from './support/collecting-log.ts';
import { eventually } from './support/eventually.ts';
import { temporaryFolder } from './support/folder.ts';
import { VirtualClock } from './support/virtual-clock.ts';

const RECORD: EnrolmentRecord = {
  node: 'node-1',
  uid: 'uid-1',
  outcome: 'enrolled',
  api: { server: 'https://10.0.0.1:6443/', ca: 'PEM', servername: 'kubernetes' },
};

async function setUp(firstUid?: string) {
  const folder = await temporaryFolder();
  const clock = new VirtualClock();
  const { log, events } = collectingLog();
  const enrolmentFile = join(folder, 'enrolment.json');
  const enrolWantedFile = join(folder, 'state/enrol-wanted');
  const identity = new RecordedIdentity({
    node: 'node-1',
    enrolmentFile,
    enrolWantedFile,
    firstUid,
    clock,
    log,
  });
  return { clock, identity, enrolmentFile, enrolWantedFile, events };
}

test('knows what an enrolment has left, and how to reach the API server', async () => {
  const { identity, enrolmentFile } = await setUp();
  await identity.read();
  expect(identity.uid).toBeUndefined();
  await expect(identity.access()).rejects.toThrow('no enrolment');
  await writeEnrolment(enrolmentFile, RECORD);
  await identity.read();
  expect(identity.uid).toBe('uid-1');
  const { server, trust } = await identity.access();
  expect(server.href).toBe('https://10.0.0.1:6443/');
  expect(trust).toEqual({ ca: 'PEM', servername: 'kubernetes' });
  expect((await stat(enrolmentFile)).mode & 0o777).toBe(0o644);
});

test('follows a Node that was re-created, and tells each thing once', async () => {
  const { identity, enrolmentFile, events } = await setUp();
  await writeEnrolment(enrolmentFile, RECORD);
  await identity.read();
  await identity.read();
  await writeEnrolment(enrolmentFile, { ...RECORD, uid: 'uid-2' });
  await identity.read();
  expect(identity.uid).toBe('uid-2');
  expect(events()).toEqual(['enrolled', 'node-recreated', 'enrolled']);
});

test.for<{ name: string; record: EnrolmentRecord; uid: string | undefined; event: string }>([
  {
    name: 'of another Node',
    record: { ...RECORD, node: 'node-2' },
    uid: 'given',
    event: 'enrolment-unusable',
  },
  {
    name: 'that failed, with the uid of before',
    record: { ...RECORD, outcome: 'unreachable', why: 'timeout' },
    uid: 'uid-1',
    event: 'not-enrolled',
  },
])('a record $name', async ({ record, uid, event }) => {
  const { identity, enrolmentFile, events } = await setUp('given');
  await writeEnrolment(enrolmentFile, record);
  await identity.read();
  expect(identity.uid).toBe(uid);
  expect(events()).toEqual([event]);
});

test('doubted, it asks for an enrolment, once and not at once; a recorded beat settles it', async () => {
  const { clock, identity, enrolmentFile, enrolWantedFile, events } = await setUp();
  clock.chance = 0.5;
  await writeEnrolment(enrolmentFile, RECORD);
  const stop = new AbortController();
  const asked = (): number => events().filter((event) => event === 'asking-for-enrolment').length;
  const turn = async (): Promise<void> => {
    const running = identity.run(stop.signal);
    await eventually(() => expect(identity.uid).toBe('uid-1'));
    return running;
  };
  const running = turn();
  await eventually(() => expect(events()).toContain('enrolled'));
  identity.doubt();
  identity.doubt();
  identity.confirm();
  await clock.advance(10_000);
  expect(asked()).toBe(0);
  identity.doubt();
  await expect
    .poll(async () => {
      await clock.advance(10_000);
      return readFile(enrolWantedFile, 'utf8').catch(() => '');
    })
    .toContain('do not know');
  expect(asked()).toBe(1);
  stop.abort();
  await running;
});
