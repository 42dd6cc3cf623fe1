// The Go toolchain: which one is here, and one build with it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { constants, setPriority } from 'node:os';
import { join } from 'node:path';

import { runCommand } from '../../cli/local/processes.ts';

export interface GoBuild {
  readonly moduleFolder: string;
  readonly package: string;
  readonly linkerFlags: string;
  readonly output: string;
}

/** Version, system and architecture, as one string; fails if Go is missing or older than go.mod wants. */
export async function goPlatform(moduleFolder: string): Promise<string> {
  const needed = /^go (\S+)$/m.exec(await readFile(join(moduleFolder, 'go.mod'), 'utf8'))?.[1] ?? '';
  let answer: string;
  try {
    // In the module's folder, where a Go that can fetch newer toolchains picks the one to build with.
    answer = await runCommand('go', ['env', 'GOVERSION', 'GOOS', 'GOARCH'], {
      cwd: moduleFolder,
      timeoutMs: 300_000,
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new Error(`the control plane is built with Go ${needed} or newer, and there is no go in PATH`, {
      cause: error,
    });
  }
  const [version = '', os = '', arch = ''] = answer.trim().split('\n');
  if (isOlder(version.replace(/^go/, ''), needed)) {
    throw new Error(`the control plane is built with Go ${needed} or newer; the go in PATH is ${version}`);
  }
  return `${version} ${os}/${arch}`;
}

export async function goBuild(build: GoBuild): Promise<void> {
  const args = [
    'build',
    '-trimpath',
    '-buildvcs=false',
    '-ldflags',
    build.linkerFlags,
    '-o',
    build.output,
    build.package,
  ];
  const child = spawn('go', args, {
    cwd: build.moduleFolder,
    env: { ...process.env, CGO_ENABLED: '0', GOWORK: 'off' },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  // Minutes of all cores: let whatever else runs here go first.
  if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_BELOW_NORMAL);
  let complaint = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (complaint += text));
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  if (code !== 0) {
    const end = complaint.trimEnd().split('\n').slice(-30).join('\n');
    throw new Error(`go build ${build.package} failed (${signal ?? `exit code ${code}`}):\n${end}`);
  }
}

function isOlder(version: string, needed: string): boolean {
  const have = numbers(version);
  const want = numbers(needed);
  for (const [index, wanted] of want.entries()) {
    const difference = (have[index] ?? 0) - wanted;
    if (difference !== 0) return difference < 0;
  }
  return false;
}

function numbers(version: string): number[] {
  return version.split(/[.\s-]/).map((part) => Number.parseInt(part, 10) || 0);
}
