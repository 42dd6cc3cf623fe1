import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { replaceFile } from './atomic-file.ts';
import type { Log } from './log.ts';
import { codeOf, whyOf } from './text.ts';

const Remembered = z.object({
  /** The Node as last read: lets a rebooted node beat while its API server cannot be reached. */
  node: z.object({ name: z.string(), uid: z.string() }).optional(),
  /** The kubelet answered ok in this boot, at this address: another address may be a closed port. */
  kubeletOk: z.object({ boot: z.string(), url: z.string() }).optional(),
  /** Where endpoints and proxy were found: lets a beacon beat that is started while its resolver hangs. */
  addresses: z.record(z.string(), z.array(z.object({ address: z.string(), family: z.number() }))).optional(),
});

export type Remembered = z.infer<typeof Remembered>;

/**
 * What outlives the process, in a small file beside the key. Nothing in it is needed: it only spares questions. So a
 * file that cannot be read counts as empty, and one that cannot be written is a warning.
 */
export class Memory {
  readonly #path: string;
  readonly #log: Log;
  #remembered: Remembered;
  #writing: Promise<void> = Promise.resolve();

  private constructor(path: string, log: Log, remembered: Remembered) {
    this.#path = path;
    this.#log = log;
    this.#remembered = remembered;
  }

  static async open(path: string, log: Log): Promise<Memory> {
    try {
      return new Memory(path, log, Remembered.parse(JSON.parse(await readFile(path, 'utf8'))));
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') log.warn('memory-unreadable', { file: path, why: whyOf(error) });
      return new Memory(path, log, {});
    }
  }

  get remembered(): Remembered {
    return this.#remembered;
  }

  /** Merged at once in memory; on the disk when the returned promise settles. Never rejects. */
  remember(what: Remembered): Promise<void> {
    this.#remembered = { ...this.#remembered, ...what };
    this.#writing = this.#writing.then(() => this.#write()); // one after the other, or the older could win
    return this.#writing;
  }

  async #write(): Promise<void> {
    try {
      await replaceFile(this.#path, `${JSON.stringify(this.#remembered)}\n`);
    } catch (error) {
      this.#log.warn('memory-unwritable', { file: this.#path, why: whyOf(error) });
    }
  }
}
