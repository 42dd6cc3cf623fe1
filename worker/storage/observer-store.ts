import { withReturns, type Snapshot } from '../core/observer/snapshot.ts';
import type { HeardNode } from '../core/observer/state.ts';
import type { Registry } from '../../protocol/report.ts';

/**
 * The observer's rows: the snapshot, the registry it verifies with, and nodes that returned since. Storage grows with
 * nodes, never with beats. The registry is half of all bytes and seldom changes, so it has a row of its own.
 */
export class ObserverStore {
  readonly #sql: SqlStorage;
  /** As stored: the core makes a new object for every change. */
  #registry: Registry | undefined;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(`
      CREATE TABLE IF NOT EXISTS snapshot (id INTEGER PRIMARY KEY CHECK (id = 1), json TEXT NOT NULL) STRICT;
      CREATE TABLE IF NOT EXISTS registry (id INTEGER PRIMARY KEY CHECK (id = 1), json TEXT NOT NULL) STRICT;
      CREATE TABLE IF NOT EXISTS returned (name TEXT PRIMARY KEY, json TEXT NOT NULL) STRICT, WITHOUT ROWID;
    `);
  }

  load(): Snapshot | undefined {
    const row = this.#sql
      .exec<{ snapshot: string; registry: string }>(
        'SELECT snapshot.json AS snapshot, registry.json AS registry FROM snapshot, registry',
      )
      .toArray()[0];
    if (row === undefined) return undefined;
    // SAFETY: this class wrote it; stored shapes only ever grow by optional fields. The same holds below.
    const snapshot = JSON.parse(row.snapshot) as Omit<Snapshot, 'registry'>;
    const registry = JSON.parse(row.registry) as Registry;
    this.#registry = registry;
    const returned = this.#sql
      .exec<{ name: string; json: string }>('SELECT name, json FROM returned')
      .toArray();
    const returns = new Map(returned.map(({ name, json }) => [name, JSON.parse(json) as HeardNode]));
    return withReturns({ ...snapshot, registry }, returns);
  }

  /** No await inside, so that it is one atomic commit. */
  save({ registry, ...snapshot }: Snapshot): void {
    if (registry !== this.#registry) {
      this.#sql.exec('INSERT OR REPLACE INTO registry (id, json) VALUES (1, ?)', JSON.stringify(registry));
      this.#registry = registry;
    }
    this.#sql.exec('INSERT OR REPLACE INTO snapshot (id, json) VALUES (1, ?)', JSON.stringify(snapshot));
    this.#sql.exec('DELETE FROM returned');
  }

  saveReturn(name: string, node: HeardNode): void {
    this.#sql.exec('INSERT OR REPLACE INTO returned (name, json) VALUES (?, ?)', name, JSON.stringify(node));
  }
}
