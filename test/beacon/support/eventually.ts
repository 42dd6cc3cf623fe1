import { vi } from 'vitest';

vi.setConfig({ testTimeout: 30_000 });

/** Waits until the expectation holds; fails with its own message when that takes too long even on a busy machine. */
export async function eventually(expectation: () => void): Promise<void> {
  await vi.waitFor(expectation, { timeout: 15_000, interval: 10 });
}
