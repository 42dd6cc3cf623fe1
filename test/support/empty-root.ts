import { execFile } from 'node:child_process';
import { copyFile, link, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

/**
 * A root folder with one executable and the C library that it names, and nothing else: no shell, no Node, no
 * certificates, no systemd. The machine's network and /proc are there.
 */
export class EmptyRoot {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  /** @param executable on the same disk as `folder` */
  static async make(folder: string, executable: string): Promise<EmptyRoot> {
    const root = new EmptyRoot(folder);
    await mkdir(join(folder, 'proc'), { recursive: true });
    await link(executable, await root.#place('/beacon')); // 110 MB: not copied
    const { stdout } = await promisify(execFile)('ldd', [executable]);
    for (const [path] of stdout.matchAll(/\/\S+(?= \(0x)/g)) await copyFile(path, await root.#place(path));
    return root;
  }

  /** What to spawn so that the executable runs in here, as the spawned process itself: signals reach it. */
  command(...args: readonly string[]): { command: string; args: string[] } {
    const script = '/bin/mount --rbind /proc "$0/proc" && exec /usr/sbin/chroot "$0" /beacon "$@"';
    return {
      command: '/usr/bin/unshare',
      args: ['--user', '--map-root-user', '--mount', '/bin/sh', '-c', script, this.folder, ...args],
    };
  }

  async write(path: string, content: string): Promise<void> {
    await writeFile(await this.#place(path), content);
  }

  async #place(path: string): Promise<string> {
    const placed = join(this.folder, path);
    await mkdir(dirname(placed), { recursive: true });
    return placed;
  }
}
