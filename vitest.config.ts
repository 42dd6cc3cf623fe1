import { cloudflareTest } from '@cloudflare/vitest-plugin';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    projects: [
      { test: { name: 'core', include: ['test/{core,protocol}/**/*.test.ts'] } },
      { test: { name: 'beacon', include: ['test/beacon/**/*.test.ts'] } },
      {
        plugins: [
          cloudflareTest({
            wrangler: { configPath: './test/worker/wrangler.toml' },
          }),
        ],
        // As `alias` in wrangler.toml, which the plugin leaves to Vite.
        resolve: {
          alias: { undici: fileURLToPath(new URL('worker/cluster/no-undici.ts', import.meta.url)) },
        },
        test: {
          name: 'worker',
          include: ['test/worker/**/*.test.ts'],
          testTimeout: 30_000,
        },
      },
      {
        test: {
          name: 'cluster',
          include: ['test/cluster/**/*.test.ts'],
          // One control plane at a time: two cores, and every file starts its own.
          fileParallelism: false,
          testTimeout: 300_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          name: 'netns',
          include: ['test/netns/**/*.test.ts'],
          testTimeout: 180_000,
          chaiConfig: { truncateThreshold: 0 },
          // Each is a beacon and an edge that mostly wait: more of them only starve each other on two cores.
          maxConcurrency: 8,
        },
      },
    ],
  },
});
