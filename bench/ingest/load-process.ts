// The load generator, a process of its own: it must neither wait for the bench nor be counted with anybody.
// Its parent asks over the IPC channel, one question at a time; see load.ts.
import { PostDelivery, type Delivery } from './delivery.ts';
import { Fleet, type RegisteredKeys, type SignedBeat, type Transport } from './fleet.ts';
import { Pace } from './pace.ts';
import { SocketDelivery } from './socket-delivery.ts';
import type { LoadResult } from './tally.ts';

export type Question =
  | { readonly ask: 'create'; readonly nodes: number }
  | { readonly ask: 'sign'; readonly beats: number }
  | { readonly ask: 'start'; readonly url: string; readonly transport: Transport; readonly perSecond: number }
  /** Ends one stretch and begins the next. */
  | { readonly ask: 'next'; readonly perSecond: number }
  | { readonly ask: 'stop' };

export interface Answer {
  readonly keys?: RegisteredKeys;
  readonly result?: LoadResult;
  readonly error?: string;
}

if (import.meta.main) serve();

function serve(): void {
  let fleet: Fleet | undefined;
  let delivery: Delivery | undefined;
  let pace: Pace | undefined;
  const beats: SignedBeat[] = [];

  async function answer(question: Question): Promise<Answer> {
    switch (question.ask) {
      case 'create':
        fleet = await Fleet.create(question.nodes);
        return { keys: fleet.keys };
      case 'sign':
        if (fleet === undefined) throw new Error('asked to sign without nodes');
        for (const beat of await fleet.sign(question.beats)) beats.push(beat);
        return {};
      case 'start':
        if (fleet === undefined) throw new Error('asked to start without nodes');
        delivery =
          question.transport === 'https'
            ? new PostDelivery(question.url, fleet.size)
            : new SocketDelivery(question.url);
        pace = new Pace(delivery, beats, question.perSecond);
        return {};
      case 'next':
        if (pace === undefined) throw new Error('not started');
        return { result: await pace.next(question.perSecond) };
      case 'stop': {
        if (pace === undefined) throw new Error('not started');
        const result = await pace.stop();
        delivery?.close();
        return { result };
      }
    }
  }

  process.on('message', (question: Question) => {
    answer(question).then(
      (given) => process.send?.(given),
      (error: unknown) =>
        process.send?.({ error: error instanceof Error ? error.message : String(error) } satisfies Answer),
    );
  });
  // The bench is gone, however it went.
  process.on('disconnect', () => process.exit());
}
