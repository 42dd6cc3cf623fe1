import { expect, test } from 'vitest';
import { createLog, LOG_LEVELS } from '../../node-beacon/log.ts';

function lines(
  level: (typeof LOG_LEVELS)[number],
  use: (log: ReturnType<typeof createLog>) => void,
): string[] {
  const written: string[] = [];
  use(createLog({ level, now: () => new Date(0), write: (line) => written.push(line) }));
  return written;
}

test('one event is one line, whatever is in its fields', () => {
  const written = lines('info', (log) =>
    log.warn('beats-failing', { failure: 'tcp', why: 'said "no"\nand = more', tries: 5, seq: undefined }),
  );
  expect(written).toEqual([
    'time=1970-01-01T00:00:00.000Z level=warn event=beats-failing failure=tcp why="said \\"no\\"\\nand = more" tries=5',
  ]);
});

test.for(LOG_LEVELS.map((level, index) => ({ level, count: LOG_LEVELS.length - index })))(
  'the level $level writes $count of the four',
  ({ level, count }) => {
    const written = lines(level, (log) => {
      for (const each of LOG_LEVELS) log[each](each);
    });
    expect(written).toHaveLength(count);
  },
);
