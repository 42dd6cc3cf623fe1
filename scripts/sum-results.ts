import { readFile } from 'node:fs/promises';

/*
 * Usage: node scripts/sum-results.ts passed|failed FILE...
 * Adds up vitest's JSON reports and one run that has no report, and prints "N passed, N failed, N skipped".
 */

interface Report {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  /** False also when a file could not be loaded, which counts no test. */
  readonly success: boolean;
}

const [single, ...files] = process.argv.slice(2);
let passed = single === 'passed' ? 1 : 0;
let failed = single === 'passed' ? 0 : 1;
let skipped = 0;
for (const file of files) {
  // SAFETY: vitest's JSON reporter wrote it.
  const report = JSON.parse(await readFile(file, 'utf8')) as Report;
  passed += report.numPassedTests;
  failed += report.numFailedTests === 0 && !report.success ? 1 : report.numFailedTests;
  skipped += report.numPendingTests + report.numTodoTests;
}
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
process.exitCode = failed > 0 ? 1 : 0;
