import type { Snapshot } from '../core/observer/snapshot.ts';

/** The observer's one row. Storage grows with nodes, never with beats. */
export class ObserverStore {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(
      'CREATE TABLE IF NOT EXISTS snapshot (id INTEGER PRIMARY KEY CHECK (id = 1), json TEXT NOT NULL) STRICT',
    );
  }

  load(): Snapshot | undefined {
    const row = this.#sql.exec<{ json: string }>('SELECT json FROM snapshot').toArray()[0];
    // SAFETY: this class wrote it; `Snapshot` only ever grows by optional fields.
    return row === undefined ? undefined : (JSON.parse(row.json) as Snapshot);
  }

  save(snapshot: Snapshot): void {
    this.#sql.exec('INSERT OR REPLACE INTO snapshot (id, json) VALUES (1, ?)', JSON.stringify(snapshot));
  }
}
