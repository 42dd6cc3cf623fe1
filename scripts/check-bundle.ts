import { buildBundle } from '../cli/local/bundle.ts';

/** What the deployed Worker may weigh. The platform takes more; start-up time is what it costs. */
const MAX_GZIP_BYTES = 1024 * 1024;

const { gzipBytes } = await buildBundle();
const kib = (bytes: number): string => `${(bytes / 1024).toFixed(0)} KiB`;
if (gzipBytes > MAX_GZIP_BYTES) {
  console.error(`the bundle has ${kib(gzipBytes)} gzipped, at most ${kib(MAX_GZIP_BYTES)} are wanted`);
  process.exit(1);
}
console.log(`bundle: ${kib(gzipBytes)} gzipped, of at most ${kib(MAX_GZIP_BYTES)}`);
