import type { LookupAddress } from 'node:dns';
import { describe, expect, test } from 'vitest';
import { rememberingLookup } from '../../node-beacon/transport/lookup.ts';

const OLD: LookupAddress[] = [{ address: '192.0.2.1', family: 4 }];
const NEW: LookupAddress[] = [
  { address: '192.0.2.2', family: 4 },
  { address: '2001:db8::2', family: 6 },
];

/** A resolver that plays a script, one answer per question; the last one is repeated. */
function resolver(...answers: (LookupAddress[] | Error | 'hangs')[]) {
  const asked: string[] = [];
  const lookup = rememberingLookup((hostname) => {
    asked.push(hostname);
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (answer === undefined || answer === 'hangs') return new Promise(() => {});
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  }, 5);
  const ask = (options: { all?: boolean; family?: 4 | 6 } = { all: true }): Promise<unknown> =>
    new Promise((resolve, reject) => {
      lookup('farpulse.example', options, (error, address, family) => {
        if (error !== null) reject(error);
        else resolve(options.all === true ? address : { address, family });
      });
    });
  return { ask, asked };
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

  test('answers one address of the wanted family where only one is asked for', async () => {
    const { ask } = resolver(NEW);
    expect(await ask({ family: 6 })).toEqual({ address: '2001:db8::2', family: 6 });
    expect(await ask({ family: 4 })).toEqual({ address: '192.0.2.2', family: 4 });
  });

  test('says so when no address is of the wanted family', async () => {
    const { ask } = resolver(OLD);
    await expect(ask({ family: 6 })).rejects.toMatchObject({ code: 'ENOTFOUND' });
  });
});
