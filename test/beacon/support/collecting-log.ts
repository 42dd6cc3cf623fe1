import type { Log, LogFields, LogLevel } from '../../../node-beacon/log.ts';

export interface LogEntry {
  readonly level: LogLevel;
  readonly event: string;
  readonly fields: LogFields;
}

/** A log that keeps what was written; `events` leaves the debug level out. */
export function collectingLog(): { log: Log; entries: LogEntry[]; events: () => string[] } {
  const entries: LogEntry[] = [];
  const writer =
    (level: LogLevel) =>
    (event: string, fields: LogFields = {}) => {
      entries.push({ level, event, fields });
    };
  const log = { debug: writer('debug'), info: writer('info'), warn: writer('warn'), error: writer('error') };
  const events = () => entries.filter(({ level }) => level !== 'debug').map(({ event }) => event);
  return { log, entries, events };
}
