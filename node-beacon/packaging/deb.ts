import { chmod, copyFile, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { INSTALLED_FILES } from './files.ts';
import { runCommand } from './run-command.ts';

const SCRIPTS = ['postinst', 'prerm', 'postrm'] as const;

export interface DebParts {
  readonly root: string;
  readonly executable: string;
  /** Debian's name of it. */
  readonly architecture: string;
  readonly version: string;
  /** What all files in it are dated, in seconds since 1970. */
  readonly sourceDateEpoch: number;
}

/** Packs an executable and its units for Debian and its descendants. The same parts give the same bytes. */
export async function buildDeb(parts: DebParts, output: string): Promise<void> {
  const { root, executable, sourceDateEpoch } = parts;
  const beacon = join(root, 'node-beacon');
  const stage = await mkdtemp(join(tmpdir(), 'farpulse-deb-'));
  try {
    const place = async (from: string, to: string, mode: number): Promise<void> => {
      const target = join(stage, to);
      await mkdir(dirname(target), { recursive: true, mode: 0o755 });
      await copyFile(from, target);
      await chmod(target, mode);
    };
    await chmod(stage, 0o755);
    await place(executable, 'usr/bin/farpulse-beacon', 0o755);
    for (const [from, to] of INSTALLED_FILES) await place(join(beacon, from), to, 0o644);
    for (const script of SCRIPTS)
      await place(join(beacon, 'packaging/deb', script), `DEBIAN/${script}`, 0o755);
    await writeFile(join(stage, 'DEBIAN/control'), controlFile(parts, (await stat(executable)).size), {
      mode: 0o644,
    });
    await runCommand(
      'dpkg-deb',
      // gzip: any dpkg reads it, and it takes seconds where xz takes a minute.
      ['--root-owner-group', '-Zgzip', '--build', stage, output],
      { env: { ...process.env, SOURCE_DATE_EPOCH: String(sourceDateEpoch) } },
    );
  } finally {
    await rm(stage, { recursive: true, force: true });
  }
}

function controlFile({ architecture, version }: DebParts, executableBytes: number): string {
  return [
    'Package: farpulse-beacon',
    `Version: ${version}`,
    `Architecture: ${architecture}`,
    'Maintainer: the farpulse project <farpulse@localhost>',
    `Installed-Size: ${Math.ceil(executableBytes / 1024)}`,
    'Depends: libc6 (>= 2.28), systemd (>= 247)',
    'Recommends: ca-certificates',
    'Section: admin',
    'Priority: optional',
    'Description: liveness heartbeat of a Kubernetes node',
    ' Sends a signed heartbeat of this node to farpulse, an external node-liveness',
    ' detector, every few seconds. One executable and its systemd units; it needs',
    ' /etc/farpulse/beacon.env.',
    '',
  ].join('\n');
}
