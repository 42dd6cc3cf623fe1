import {
  newArbiter,
  type ArbiterNode,
  type ArbiterSettings,
  type ArbiterState,
  type LeasePulse,
  type Memory,
  type StoredReport,
} from '../core/arbiter/state.ts';
import { watchesUnenrolled } from '../core/arbiter/unenrolled.ts';

/** What is stored of the cluster as a whole: everything but nodes, reports, and what is asked for again. */
type ClusterRow = Omit<ArbiterState, 'settings' | 'nodes' | 'reports' | 'memory'>;

/** The newest list of Leases. */
interface LeasesRow {
  readonly takenAtMs: number;
  readonly leases: readonly (readonly [string, LeasePulse])[];
}

/** "I am well" comes every minute with every node in it, and is stored less often: a poll brings what is newer. */
const STORE_WELL_EVERY_MS = 180_000;

/** Two reports of an observer that sees and hears everybody, with no more between them than a little time. */
function saysNothingNew(saved: StoredReport, current: StoredReport): boolean {
  const isWell = ({ report }: StoredReport): boolean =>
    report.blind === undefined &&
    report.nodes.every((node) => node.sight === 'heard' && node.kubelet.state === 'ok');
  return (
    current.receivedAtMs - saved.receivedAtMs < STORE_WELL_EVERY_MS &&
    current.report.nodes.length === saved.report.nodes.length &&
    isWell(saved) &&
    isWell(current)
  );
}

/**
 * The arbiter's rows: one per node, one per observer's newest report, one for the cluster. Only what changed is
 * written, told by object identity: the core makes a new object for every change.
 */
export class ArbiterStore {
  readonly #sql: SqlStorage;
  readonly #nodes = new Map<string, ArbiterNode>();
  readonly #reports = new Map<string, StoredReport>();
  #cluster = '';
  #leases: Memory['leases'] | undefined;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(`
      CREATE TABLE IF NOT EXISTS cluster (id INTEGER PRIMARY KEY CHECK (id = 1), json TEXT NOT NULL) STRICT;
      CREATE TABLE IF NOT EXISTS node (name TEXT PRIMARY KEY, json TEXT NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS leases (id INTEGER PRIMARY KEY CHECK (id = 1), json TEXT NOT NULL) STRICT;
      CREATE TABLE IF NOT EXISTS report (observer TEXT PRIMARY KEY, json TEXT NOT NULL) STRICT, WITHOUT ROWID;
    `);
  }

  load(settings: ArbiterSettings, nowMs: number): ArbiterState {
    const fresh = newArbiter(settings, nowMs);
    const row = this.#sql.exec<{ json: string }>('SELECT json FROM cluster').toArray()[0];
    if (row === undefined) return fresh;
    this.#cluster = row.json;
    for (const { name, json } of this.#sql.exec<{ name: string; json: string }>(
      'SELECT name, json FROM node',
    )) {
      // SAFETY: this class wrote it, and stored shapes only grow by optional fields. The same holds below.
      this.#nodes.set(name, JSON.parse(json) as ArbiterNode);
    }
    for (const { observer, json } of this.#sql.exec<{ observer: string; json: string }>(
      'SELECT observer, json FROM report',
    )) {
      this.#reports.set(observer, JSON.parse(json) as StoredReport);
    }
    this.#loadLeases(fresh.memory);
    return {
      ...fresh,
      ...(JSON.parse(row.json) as ClusterRow),
      nodes: new Map(this.#nodes),
      reports: new Map(this.#reports),
    };
  }

  /** Only of unenrolled nodes is a pulse worth a row: how long a Lease has stood still must outlast our own sleep. */
  #loadLeases(memory: Memory): void {
    const row = this.#sql.exec<{ json: string }>('SELECT json FROM leases').toArray()[0];
    if (row === undefined) return;
    const { takenAtMs, leases } = JSON.parse(row.json) as LeasesRow;
    memory.leasesTakenAtMs = takenAtMs;
    memory.leases = this.#leases = new Map(leases);
  }

  #saveLeases(state: ArbiterState): void {
    const { leases, leasesTakenAtMs: takenAtMs } = state.memory;
    if (leases === this.#leases || leases.size === 0 || !watchesUnenrolled(state)) return;
    const row: LeasesRow = { takenAtMs, leases: [...leases] };
    this.#sql.exec('INSERT OR REPLACE INTO leases (id, json) VALUES (1, ?)', JSON.stringify(row));
    this.#leases = leases;
  }

  /** Writes what differs from the last save. No await inside, so that it is one atomic commit. */
  save(state: ArbiterState): void {
    this.#saveMap('node', 'name', this.#nodes, state.nodes);
    this.#saveMap('report', 'observer', this.#reports, state.reports, saysNothingNew);
    this.#saveLeases(state);
    const { settings: _s, nodes: _n, reports: _r, memory: _m, ...cluster } = state;
    const json = JSON.stringify(cluster satisfies ClusterRow);
    if (json === this.#cluster) return;
    this.#sql.exec('INSERT OR REPLACE INTO cluster (id, json) VALUES (1, ?)', json);
    this.#cluster = json;
  }

  #saveMap<T>(
    table: 'node' | 'report',
    key: string,
    saved: Map<string, T>,
    current: ReadonlyMap<string, T>,
    maySkip: (saved: T, current: T) => boolean = () => false,
  ): void {
    for (const [name, value] of current) {
      const before = saved.get(name);
      if (before === value || (before !== undefined && maySkip(before, value))) continue;
      this.#sql.exec(
        `INSERT OR REPLACE INTO ${table} (${key}, json) VALUES (?, ?)`,
        name,
        JSON.stringify(value),
      );
      saved.set(name, value);
    }
    for (const name of saved.keys()) {
      if (current.has(name)) continue;
      this.#sql.exec(`DELETE FROM ${table} WHERE ${key} = ?`, name);
      saved.delete(name);
    }
  }
}
