import { expect, test } from 'vitest';
import { DeliveryLog } from '../../node-beacon/delivery-log.ts';
import type { Outcome } from '../../node-beacon/deliver.ts';
import { collectingLog } from './support/collecting-log.ts';

const OUTCOMES: Readonly<Record<string, Outcome>> = {
  well: { kind: 'delivered', endpoint: 'https://a.example', roundTripMs: 50 },
  dns: { kind: 'failed', failure: 'dns', why: 'no such name' },
  tls: { kind: 'failed', failure: 'tls', why: 'the certificate has expired' },
  stranger: { kind: 'refused', code: 'stranger', why: 'unknown key' },
  short: { kind: 'short', quorum: 2, missing: [{ observer: 'apac', code: 'unavailable' }] },
  cut: { kind: 'interrupted' },
};

test.for([
  {
    name: 'a beat that is delivered as the last one was is no news',
    beats: 'well well well',
    told: ['well'],
  },
  { name: 'a cause is told when it appears', beats: 'well dns dns', told: ['well', 'dns'] },
  { name: 'another cause too', beats: 'dns dns tls', told: ['dns', 'tls'] },
  {
    name: 'two endpoints that fail in turn are told once each',
    beats: 'dns tls dns tls dns',
    told: ['dns', 'tls'],
  },
  { name: 'a good beat between makes it news again', beats: 'dns well dns', told: ['dns', 'well', 'dns'] },
  {
    name: 'refusals and missing observers are causes',
    beats: 'stranger short stranger',
    told: ['stranger', 'short'],
  },
  { name: 'a beat that was cut short says nothing', beats: 'well cut well cut dns', told: ['well', 'dns'] },
])('$name', ({ beats, told }) => {
  const { log, entries } = collectingLog();
  const deliveries = new DeliveryLog(log);
  for (const [seq, beat] of beats.split(' ').entries()) {
    const outcome = OUTCOMES[beat] ?? { kind: 'interrupted' };
    deliveries.note(seq, { outcome, tries: 1, recordedBy: [], objections: new Set() });
  }
  const lines = entries
    .filter(({ level }) => level !== 'debug')
    .map(({ event, fields }) => {
      if (event === 'beats-delivered') return 'well';
      if (event === 'beats-short-of-quorum') return 'short';
      return fields['failure'] ?? fields['code'];
    });
  expect(lines).toEqual(told);
});
