import type { LookupAddress } from 'node:dns';
import { describe, expect, test } from 'vitest';
import {
  type KnownAddresses,
  lookupBy,
  recallAddresses,
  Resolver,
} from '../../node-beacon/transport/lookup.ts';

const OLD: LookupAddress[] = [{ address: '192.0.2.1', family: 4 }];
const NEW: LookupAddress[] = [
  { address: '192.0.2.2', family: 4 },
  { address: '2001:db8::2', family: 6 },
];

/** A system that plays a script, one answer per question; the last one is repeated. */
function resolver(...answers: (LookupAddress[] | Error | 'hangs')[]) {
  const asked: string[] = [];
  const made = new Resolver((hostname) => {
    asked.push(hostname);
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (answer === undefined || answer === 'hangs') return new Promise(() => {});
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  });
  const ask = (hostname = 'farpulse.example'): Promise<LookupAddress[]> => made.addresses(hostname, 5);
  return { ask, asked, made };
}

describe('name resolution', () => {
  test('asks anew for each connection', async () => {
    const { ask, asked } = resolver(OLD, NEW);
    expect(await ask()).toEqual(OLD);
    expect(await ask()).toEqual(NEW);
    expect(asked).toHaveLength(2);
  });

  test('falls back to the last good answer when the resolver fails', async () => {
    const { ask } = resolver(OLD, new Error('SERVFAIL'));
    await ask();
    expect(await ask()).toEqual(OLD);
  });

  test('falls back to the last good answer when the resolver hangs, with one question open at a time', async () => {
    const { ask, asked } = resolver(OLD, 'hangs');
    await ask();
    expect(await ask()).toEqual(OLD);
    expect(await ask()).toEqual(OLD);
    expect(asked).toHaveLength(2);
  });

  test('fails when there was never an answer, and asks again the next time', async () => {
    const { ask } = resolver(new Error('SERVFAIL'), NEW);
    await expect(ask()).rejects.toThrow('SERVFAIL');
    expect(await ask()).toEqual(NEW);
  });

  test('two names that hang leave the third waiting, and those known are answered all the same', async () => {
    const open: { hostname: string; answer: (addresses: LookupAddress[]) => void }[] = [];
    const made = new Resolver((hostname) => new Promise((answer) => open.push({ hostname, answer })));
    const names = (): string[] => open.map(({ hostname }) => hostname);
    const first = made.addresses('known.example');
    open[0]?.answer(OLD);
    await first;

    const waiting = ['api.example', 'a.example', 'b.example'].map((name) => made.addresses(name));
    expect(names()).toEqual(['known.example', 'api.example', 'a.example']);
    expect(await made.addresses('known.example', 5)).toEqual(OLD);
    open[1]?.answer(NEW);
    expect(await waiting[0]).toEqual(NEW);
    expect(names()).toEqual(['known.example', 'api.example', 'a.example', 'b.example']);
  });
});

describe('across runs', () => {
  const NAMES = new Set(['farpulse.example']);

  test('what an earlier run knew is used while the resolver hangs', async () => {
    const { ask, made } = resolver('hangs');
    recallAddresses(made, NAMES, { 'farpulse.example': OLD }, () => {});
    expect(await ask()).toEqual(OLD);
  });

  test('a fresh answer outweighs it', async () => {
    const { ask, made } = resolver(NEW);
    recallAddresses(made, NAMES, { 'farpulse.example': OLD }, () => {});
    expect(await ask()).toEqual(NEW);
  });

  test('what changed is kept, what was only shuffled is not, and nothing of names that are not ours', async () => {
    const { ask, made } = resolver(OLD, NEW, NEW.toReversed(), OLD, NEW);
    const kept: KnownAddresses[] = [];
    recallAddresses(made, NAMES, { 'farpulse.example': OLD, 'gone.example': OLD }, (known) =>
      kept.push(known),
    );
    for (let question = 0; question < 3; question++) await ask();
    await ask('api.example');
    await ask('farpulse.example');
    expect(kept).toEqual([{ 'farpulse.example': NEW }]);
  });
});

describe('in the shape of dns.lookup', () => {
  const lookUp = (
    options: { all?: boolean; family?: 4 | 6 },
    ...answers: LookupAddress[][]
  ): Promise<unknown> =>
    new Promise((resolve, reject) => {
      lookupBy(resolver(...answers).made)('farpulse.example', options, (error, address, family) => {
        if (error !== null) reject(error);
        else resolve(options.all === true ? address : { address, family });
      });
    });

  test('all addresses', async () => {
    expect(await lookUp({ all: true }, NEW)).toEqual(NEW);
  });

  test('one address of the wanted family', async () => {
    expect(await lookUp({ family: 6 }, NEW)).toEqual({ address: '2001:db8::2', family: 6 });
    expect(await lookUp({ family: 4 }, NEW)).toEqual({ address: '192.0.2.2', family: 4 });
  });

  test('says so when no address is of the wanted family', async () => {
    await expect(lookUp({ family: 6 }, OLD)).rejects.toMatchObject({ code: 'ENOTFOUND' });
  });
});
