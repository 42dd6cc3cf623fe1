export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/** Writes one event as one line. Events are names that people grep for; what belongs to them is in the fields. */
export type LogWriter = (event: string, fields?: LogFields) => void;
export type Log = Readonly<Record<LogLevel, LogWriter>>;

interface LogTarget {
  readonly level: LogLevel;
  readonly now: () => Date;
  readonly write: (line: string) => void;
}

/** A log in logfmt (`time=… level=info event=beats-delivered missed=2`), which journald and people both read. */
export function createLog({ level, now, write }: LogTarget): Log {
  const least = LOG_LEVELS.indexOf(level);
  const writer = (own: LogLevel): LogWriter =>
    LOG_LEVELS.indexOf(own) < least
      ? () => {}
      : (event, fields = {}) =>
          write(formatLine({ time: now().toISOString(), level: own, event, ...fields }));
  return { debug: writer('debug'), info: writer('info'), warn: writer('warn'), error: writer('error') };
}

function formatLine(fields: LogFields): string {
  return Object.entries(fields)
    .flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${formatValue(String(value))}`]))
    .join(' ');
}

function formatValue(text: string): string {
  return /^[\w.:/@+,-]+$/.test(text) ? text : JSON.stringify(text);
}
