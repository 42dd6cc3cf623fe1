import { newMemory, type ArbiterState } from './state.ts';

/** A clock set back by less is not worth a thing: timers run that much late, once. */
const SET_BACK_MS = 5_000;

/** Every time by the arbiter's own clock is named like this; a node's own clock (`sentAtMs`) never is moved. */
const OWN_TIME = /(^a|A)tMs$|(^s|S)inceMs$|(^u|U)ntilMs$/;

/** Not by the arbiter's clock: an operator's time of day, and what a node or another object said. */
const NOT_OWN: ReadonlySet<string> = new Set(['sentAtMs', 'paused', 'report', 'keys', 'signs']);

/**
 * Moves all known times when the object's clock was set back (it may wake up on another machine). Left where they are
 * they would lie in the future: a look taken "in an hour" would count as fresh until then, and nothing would fall due.
 * Set forward, everything falls due at once, which is an own outage.
 */
export function followClock(state: ArbiterState, nowMs: number): void {
  const byMs = nowMs - state.lastRanAtMs;
  if (byMs > -SET_BACK_MS) return;
  const { settings: _s, nodes, reports, memory, ...cluster } = state;
  Object.assign(state, movedBy(cluster, byMs));
  for (const [name, node] of nodes) nodes.set(name, movedBy(node, byMs));
  for (const [id, stored] of reports) reports.set(id, movedBy(stored, byMs));
  // What was found out lately is asked for again; what is under way is still awaited.
  const { pollBegunAtMs, polledAtMs, leasesListedAtMs } = newMemory();
  Object.assign(memory, { pollBegunAtMs, polledAtMs, leasesListedAtMs });
  memory.leasesTakenAtMs += byMs;
  memory.leases = new Map([...memory.leases].map(([name, pulse]) => [name, movedBy(pulse, byMs)]));
  memory.reads.clear();
}

function movedBy<T>(value: T, byMs: number): T {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    // SAFETY: each entry keeps its type.
    return value.map((entry: unknown) => movedBy(entry, byMs)) as T;
  }
  const entries = Object.entries(value).map(([key, field]: [string, unknown]) => [
    key,
    movedField(key, field, byMs),
  ]);
  // SAFETY: the same fields, each of its type.
  return Object.fromEntries(entries) as T;
}

function movedField(key: string, field: unknown, byMs: number): unknown {
  if (NOT_OWN.has(key)) return field;
  if (!OWN_TIME.test(key)) return movedBy(field, byMs);
  if (typeof field === 'number') return field + byMs;
  return Array.isArray(field)
    ? field.map((atMs: unknown) => (typeof atMs === 'number' ? atMs + byMs : atMs))
    : field;
}
