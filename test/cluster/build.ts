// Builds a real control plane from Go modules into a cache folder that later runs reuse.
//
// The first build takes about ten minutes on two cores, every later one a moment. Each binary is
// built beside its place and renamed, so one that exists is whole. Our own programs have a key of
// their own: an edit of one does not rebuild kube-apiserver.
//
// Run as a script it builds and prints where the binaries are: node test/cluster/build.ts
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, readdir, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

import { withBuildLock } from './build-lock.ts';
import { goBuild, goPlatform } from './go.ts';

export interface Binaries {
  readonly etcd: string;
  readonly kubeApiserver: string;
  readonly kubeControllerManager: string;
  /** The hollow kubelet: a real kubelet over a fake container runtime. */
  readonly kubemark: string;
  readonly kubectl: string;
  /** Renews node Leases at a fixed pace: see lease-load/main.go. */
  readonly leaseLoad: string;
  /** Stands in for a controller with an external source of liveness: see external-controller/main.go. */
  readonly externalController: string;
}

interface Program {
  readonly name: string;
  readonly package: string;
}

type Own = 'leaseLoad' | 'externalController';

const KUBERNETES: Record<Exclude<keyof Binaries, Own>, Program> = {
  etcd: { name: 'etcd', package: 'go.etcd.io/etcd/server/v3' },
  kubeApiserver: { name: 'kube-apiserver', package: 'k8s.io/kubernetes/cmd/kube-apiserver' },
  kubeControllerManager: {
    name: 'kube-controller-manager',
    package: 'k8s.io/kubernetes/cmd/kube-controller-manager',
  },
  kubemark: { name: 'kubemark', package: 'k8s.io/kubernetes/cmd/kubemark' },
  kubectl: { name: 'kubectl', package: 'k8s.io/kubernetes/cmd/kubectl' },
};

/** Folders of this module, each with a main package. */
const OWN: Record<Own, Program> = {
  leaseLoad: { name: 'lease-load', package: './lease-load' },
  externalController: { name: 'external-controller', package: './external-controller' },
};

const MODULE_FOLDER = import.meta.dirname;

/** What exists is used as it is; what is missing is built. `say` gets progress lines. */
export async function buildControlPlane(say: (line: string) => void = sayOnStderr): Promise<Binaries> {
  const platform = await goPlatform(MODULE_FOLDER);
  const flags = await linkerFlags();
  const baseKey = hash([
    platform,
    flags,
    await readFile(join(MODULE_FOLDER, 'go.mod')),
    await readFile(join(MODULE_FOLDER, 'go.sum')),
  ]);
  const cache = cacheFolder();

  const missing: { readonly program: Program; readonly file: string }[] = [];
  async function place<K extends string>(
    programs: Record<K, Program>,
    key: (program: Program) => Promise<string>,
  ) {
    const files: [string, string][] = [];
    for (const [id, program] of Object.entries<Program>(programs)) {
      const file = join(cache, await key(program), program.name);
      files.push([id, file]);
      if (!existsSync(file)) missing.push({ program, file });
    }
    // SAFETY: built from the keys of `programs`.
    return Object.fromEntries(files) as Record<K, string>;
  }
  const binaries: Binaries = {
    ...(await place(KUBERNETES, async () => baseKey)),
    ...(await place(OWN, async (program) => hash([baseKey, ...(await sources(program))]))),
  };
  if (missing.length === 0) return binaries;

  await mkdir(cache, { recursive: true });
  await withBuildLock(
    join(cache, 'build.lock'),
    () => say('another build of the control plane is running: waiting for it'),
    async () => {
      for (const [index, { program, file }] of missing.entries()) {
        if (existsSync(file)) continue;
        await buildOne(program, file, flags, (line) => say(`[${index + 1}/${missing.length}] ${line}`));
      }
    },
  );
  return binaries;
}

async function buildOne(
  program: Program,
  file: string,
  flags: string,
  say: (line: string) => void,
): Promise<void> {
  const folder = dirname(file);
  await mkdir(folder, { recursive: true });
  for (const name of await readdir(folder)) {
    // Of a build that was killed; we hold the lock.
    if (name.startsWith(`${program.name}.`) && name.endsWith('.unfinished'))
      await rm(join(folder, name), { force: true });
  }
  const unfinished = `${file}.${process.pid}.unfinished`;
  const startedAtMs = performance.now();
  const seconds = () => Math.round((performance.now() - startedAtMs) / 1000);
  say(`building ${program.name}`);
  const progress = setInterval(() => say(`building ${program.name}: ${seconds()} s`), 30_000);
  try {
    await goBuild({
      moduleFolder: MODULE_FOLDER,
      package: program.package,
      linkerFlags: flags,
      output: unfinished,
    });
    await rename(unfinished, file);
  } finally {
    clearInterval(progress);
    await rm(unfinished, { force: true });
  }
  say(`built ${program.name} in ${seconds()} s`);
}

/** The version has to be linked in, or clients see 0 and kubectl complains. */
async function linkerFlags(): Promise<string> {
  const text = await readFile(join(MODULE_FOLDER, 'go.mod'), 'utf8');
  const version = /^\s*k8s\.io\/kubernetes (v(\d+)\.(\d+)\.\S+)$/m.exec(text);
  if (version === null) throw new Error('test/cluster/go.mod does not require k8s.io/kubernetes');
  const [, full, major, minor] = version;
  const to = 'k8s.io/component-base/version';
  return `-s -w -X ${to}.gitVersion=${full} -X ${to}.gitMajor=${major} -X ${to}.gitMinor=${minor}`;
}

async function sources(program: Program): Promise<Buffer[]> {
  const folder = join(MODULE_FOLDER, program.package);
  const names = (await readdir(folder)).filter((name) => name.endsWith('.go')).toSorted();
  return Promise.all(names.map((name) => readFile(join(folder, name))));
}

function cacheFolder(): string {
  const root =
    process.env['FARPULSE_CACHE_DIR'] || process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache');
  return join(root, 'farpulse', 'control-plane');
}

function hash(parts: readonly (string | Buffer)[]): string {
  const sum = createHash('sha256');
  // With its length before each part, so that no two lists of parts read the same.
  for (const part of parts) sum.update(`${Buffer.byteLength(part)}:`).update(part);
  return sum.digest('hex').slice(0, 16);
}

function sayOnStderr(line: string): void {
  process.stderr.write(`control plane: ${line}\n`);
}

if (import.meta.main) {
  try {
    const binaries = await buildControlPlane();
    process.stdout.write(`${JSON.stringify(binaries, null, 2)}\n`);
  } catch (error) {
    process.stderr.write(`control plane: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}
