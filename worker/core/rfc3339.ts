/*
 * The API server's time format. The only uses of `Date` in the core: pure conversions, never a clock.
 */

/** Whole seconds, as Kubernetes stores them: what is sent reads back equal (apimachinery meta/v1 time_proto.go). */
export function toRfc3339Seconds(epochMs: number): string {
  // oxlint-disable-next-line no-restricted-globals -- a conversion, no clock
  return new Date(Math.floor(epochMs / 1000) * 1000).toISOString().replace('.000Z', 'Z');
}

/** Epoch milliseconds, or undefined when the text is no time. */
export function fromRfc3339(text: string): number | undefined {
  // oxlint-disable-next-line no-restricted-globals -- a conversion, no clock
  const epochMs = Date.parse(text);
  return Number.isNaN(epochMs) ? undefined : epochMs;
}
