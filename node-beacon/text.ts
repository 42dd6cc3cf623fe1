const MAX_LENGTH = 200;

/** Text from elsewhere, fit for a beat or a log line: one line, no control characters, at most 200 characters. */
export function clip(text: string): string {
  const line = text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ');
  return line.trim().slice(0, MAX_LENGTH).toWellFormed();
}

/** What went wrong, as far as an unknown thrown value can say it. */
export function whyOf(error: unknown): string {
  if (!(error instanceof Error)) return clip(String(error));
  // Several addresses tried: the outer error has no message of its own.
  const inner =
    error instanceof AggregateError && error.message === '' ? error.errors.map(whyOf).join('; ') : '';
  return clip(error.message || inner || error.name);
}

/** The `code` of a system error (`ECONNREFUSED`, `CERT_HAS_EXPIRED`, ...). */
export function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}
