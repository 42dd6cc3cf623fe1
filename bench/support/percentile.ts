/** Nearest rank: the smallest value with at least that share of all values at or below it. 0 when there are none. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const rank = Math.ceil((sorted.length * percent) / 100);
  return sorted[Math.max(rank, 1) - 1] ?? 0;
}
