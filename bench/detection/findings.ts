// What a run has found, kept after each of its parts.
import { readFile, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';

import { rowsOf, wonByOther, type Kill, type ReadySeen } from './figures.ts';
import { wrongVerdictsOf, type Rig, type Say } from './phases.ts';
import { markdownOf, withFigures, type RunFacts } from './table.ts';

const RESULTS = new URL('../results/detection.json', import.meta.url);
const PAGE = new URL('../../docs/detection-latency.md', import.meta.url);

export interface FindingsOptions {
  readonly seed: number;
  /** Whether rows and page are written. */
  readonly store: boolean;
  readonly say: Say;
}

/** What has come of a run so far. */
export class Findings {
  readonly #options: FindingsOptions;
  readonly #kills: Kill[] = [];
  readonly #wrong = new Map<string, ReadySeen>();
  #kubernetes = '';

  constructor(options: FindingsOptions) {
    this.#options = options;
  }

  readonly record = (kill: Kill): void => {
    this.#kills.push(kill);
  };

  /** Waits for a part on this rig. Its kills, and whatever was wrong meanwhile, are kept also when it fails. */
  async keep(rig: Rig, part: Promise<void>): Promise<void> {
    try {
      await part;
    } finally {
      this.#kubernetes = rig.kubernetes;
      this.#noteWrongVerdicts(rig);
      if (this.#options.store && this.#kills.length > 0) await this.#store();
    }
  }

  /** For people. */
  markdown(): string {
    const facts: RunFacts = {
      kubernetes: this.#kubernetes,
      cores: availableParallelism(),
      seed: this.#options.seed,
      wrongVerdicts: this.#wrong.size,
      wonByOthers: this.#kills.filter(wonByOther).length,
    };
    return markdownOf(rowsOf(this.#kills), facts);
  }

  get clean(): boolean {
    return this.#wrong.size === 0 && !this.#kills.some(wonByOther);
  }

  #noteWrongVerdicts(rig: Rig): void {
    for (const verdict of wrongVerdictsOf(rig)) {
      const key = `${verdict.node} ${verdict.atMs}`;
      if (this.#wrong.has(key)) continue;
      this.#wrong.set(key, verdict);
      this.#options.say(`WRONG VERDICT: ${verdict.node} Ready=${verdict.status} (${verdict.reason})`);
    }
  }

  async #store(): Promise<void> {
    // This run's alone: what another run has measured is no comparison.
    const rows = rowsOf(this.#kills).map((row) => `  ${JSON.stringify(row)}`);
    await writeFile(RESULTS, `[\n${rows.join(',\n')}\n]\n`);
    await writeFile(PAGE, withFigures(await readFile(PAGE, 'utf8'), this.markdown()));
    this.#options.say('stored: bench/results/detection.json, docs/detection-latency.md');
  }
}
