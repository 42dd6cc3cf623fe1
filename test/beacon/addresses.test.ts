import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { AddressOrder } from '../../node-beacon/transport/address-order.ts';
import { raceAddresses } from '../../node-beacon/transport/address-race.ts';
import { closedPort } from './support/local-server.ts';

const v4 = (address: string): LookupAddress => ({ address, family: 4 });
const v6 = (address: string): LookupAddress => ({ address, family: 6 });

describe('the order of addresses', () => {
  test.for<{ name: string; given: LookupAddress[]; failed?: string[]; order: string }>([
    {
      name: 'the families take turns, the resolver’s favourite first',
      given: [v6('a'), v6('b'), v4('1'), v4('2')],
      order: 'a 1 b 2',
    },
    { name: 'one family only', given: [v4('1'), v4('2'), v4('3')], order: '1 2 3' },
    {
      name: 'more of the one than of the other',
      given: [v4('1'), v6('a'), v6('b'), v6('c')],
      order: '1 a b c',
    },
    { name: 'what failed comes last', given: [v6('a'), v4('1'), v4('2')], failed: ['a'], order: '1 2 a' },
    {
      name: 'what failed last comes very last',
      given: [v4('1'), v4('2'), v4('3')],
      failed: ['2', '1', '2'],
      order: '3 1 2',
    },
    {
      name: 'when all have failed, the one whose failure is longest ago',
      given: [v4('1'), v4('2'), v4('3')],
      failed: ['2', '3', '1'],
      order: '2 3 1',
    },
    {
      name: 'failures of addresses that are gone matter to nobody',
      given: [v4('1'), v4('2')],
      failed: ['9', '8'],
      order: '1 2',
    },
  ])('$name', ({ given, failed = [], order }) => {
    const addresses = new AddressOrder();
    for (const address of failed) addresses.failed(address);
    expect(
      addresses
        .arrange(given)
        .map(({ address }) => address)
        .join(' '),
    ).toBe(order);
  });
});

/** An address of loopback where connections are taken; 127.0.0.0/8 belongs to this machine as a whole. */
async function listenOn(address: string, port = 0): Promise<{ server: Server; port: number }> {
  const server = createServer((socket) => socket.on('error', () => {})).listen(port, address);
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { server, port: (server.address() as AddressInfo).port };
}

describe('the race of addresses', () => {
  const race = (
    addresses: LookupAddress[],
    port: number,
    signal = AbortSignal.timeout(10_000),
    staggerMs = 20,
  ) => {
    const losers: string[] = [];
    const running = raceAddresses({
      addresses,
      port,
      staggerMs,
      signal,
      onLoser: (loser) => losers.push(loser),
    });
    return { running, losers };
  };

  test('the first that answers wins', async () => {
    const { port } = await listenOn('127.0.0.1');
    const { running, losers } = race([v4('127.0.0.1'), v4('127.0.0.2')], port, undefined, 10_000);
    const socket = await running;
    expect(socket.remoteAddress).toBe('127.0.0.1');
    expect(losers).toEqual([]);
    socket.destroy();
  });

  test('an address that refuses costs no time', async () => {
    const { port } = await listenOn('127.0.0.2');
    const { running, losers } = race([v4('127.0.0.1'), v4('127.0.0.2')], port, undefined, 1_000_000);
    const socket = await running;
    expect(socket.remoteAddress).toBe('127.0.0.2');
    expect(losers).toEqual(['127.0.0.1']);
    socket.destroy();
  });

  test('when all refuse, all are named', async () => {
    const port = await closedPort();
    const { running, losers } = race([v4('127.0.0.1'), v4('127.0.0.2')], port);
    const error = await running.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(AggregateError);
    expect((error as AggregateError).errors.map(String)).toEqual([
      expect.stringContaining(`127.0.0.1:${port}`),
      expect.stringContaining(`127.0.0.2:${port}`),
    ]);
    expect(losers).toEqual(['127.0.0.1', '127.0.0.2']);
  });

  test('one that refuses alone is the error', async () => {
    const { running } = race([v4('127.0.0.1')], await closedPort());
    await expect(running).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  test('a deadline that has passed connects to nobody', async () => {
    const { server, port } = await listenOn('127.0.0.1');
    let connections = 0;
    server.on('connection', () => (connections += 1));
    await expect(race([v4('127.0.0.1')], port, AbortSignal.abort()).running).rejects.toThrow();
    expect(connections).toBe(0);
  });
});
