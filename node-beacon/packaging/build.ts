// npm run build:beacon [-- TARGET …]: the beacon's executables and Debian packages, in dist/beacon/.
import { createHash } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { VERSION } from '../version.ts';
import { buildDeb } from './deb.ts';
import { buildExecutable } from './executable.ts';
import { runCommand } from './run-command.ts';
import { type Target, TARGETS } from './targets.ts';

const ROOT = join(import.meta.dirname, '../..');
const OUTPUT = join(ROOT, 'dist/beacon');

async function main(names: readonly string[]): Promise<void> {
  const targets = names.length === 0 ? TARGETS : names.map((name) => targetNamed(name));
  await mkdir(OUTPUT, { recursive: true });
  const sourceDateEpoch = await dateOfTheSources();
  const built: string[] = [];
  for (const target of targets) {
    const executable = join(OUTPUT, `farpulse-beacon-${target.name}`);
    await buildExecutable(ROOT, target, executable);
    built.push(executable);
    const { debianArchitecture: architecture } = target;
    if (architecture === undefined) continue;
    const deb = join(OUTPUT, `farpulse-beacon_${VERSION}_${architecture}.deb`);
    await buildDeb({ root: ROOT, executable, architecture, version: VERSION, sourceDateEpoch }, deb);
    built.push(deb);
  }
  const sums = await Promise.all(built.map(async (path) => `${await sha256Of(path)}  ${basename(path)}\n`));
  await writeFile(join(OUTPUT, 'SHA256SUMS'), sums.join(''));
  process.stdout.write(sums.join(''));
}

function targetNamed(name: string): Target {
  const target = TARGETS.find((each) => each.name === name);
  if (target === undefined) {
    throw new Error(`no target ${name}: expected ${TARGETS.map((each) => each.name).join(', ')}`);
  }
  return target;
}

/** https://reproducible-builds.org/docs/source-date-epoch/: as given, else the last commit's. */
async function dateOfTheSources(): Promise<number> {
  const given = process.env['SOURCE_DATE_EPOCH'];
  if (given !== undefined) return Number(given);
  const committed = await runCommand('git', ['log', '-1', '--format=%ct'], { cwd: ROOT }).catch(() => '0');
  return Number(committed);
}

async function sha256Of(path: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(path))
    .digest('hex');
}

await main(process.argv.slice(2));
