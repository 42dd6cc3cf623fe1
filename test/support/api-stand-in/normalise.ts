import { type Fields, isFields } from './objects.ts';
import type { Resource } from './resources.ts';

/*
 * What decoding into Go types and encoding again does to an object: times lose their fractions, fields that nobody
 * knows are dropped.
 */

export interface Normalised {
  readonly object: Fields;
  /** Paths of fields that were dropped. */
  readonly unknown: readonly string[];
}

/** Times of conditions, all in whole seconds (metav1.Time). */
const CONDITION_TIMES: ReadonlySet<string> = new Set([
  'lastHeartbeatTime',
  'lastTransitionTime',
  'lastProbeTime',
]);

/** @throws RangeError for a text that is no time */
export function normalise(resource: Resource, object: Fields): Normalised {
  const unknown: string[] = [];
  let result = object;
  for (const path of resource.times) result = mapAt(result, path.split('.'), wholeSeconds);
  for (const path of resource.microTimes) result = mapAt(result, path.split('.'), microseconds);
  if (resource.status === 'none') return { object: result, unknown };
  result = mapAt(result, ['status', 'conditions'], (conditions) => {
    if (!Array.isArray(conditions)) return conditions;
    return conditions.map((condition, index) => normaliseCondition(condition, `status.conditions[${index}]`));
  });
  return { object: result, unknown };

  function normaliseCondition(condition: unknown, path: string): unknown {
    if (!isFields(condition)) return condition;
    const fields = Object.entries(condition).flatMap(([field, value]) => {
      if (resource.conditionFields.includes(field)) {
        return [[field, CONDITION_TIMES.has(field) ? wholeSeconds(value) : value]];
      }
      unknown.push(`${path}.${field}`);
      return [];
    });
    return Object.fromEntries(fields);
  }
}

export function wholeSeconds(time: unknown): unknown {
  return typeof time === 'string' ? new Date(time).toISOString().replace(/\.\d+Z$/, 'Z') : time;
}

/** Exactly six digits, or it is refused (metav1.MicroTime). */
function microseconds(time: unknown): unknown {
  if (typeof time === 'string' && !/\.\d{6}(Z|[+-]\d\d:\d\d)$/.test(time)) {
    throw new RangeError(`parsing time "${time}": not microseconds`);
  }
  return time;
}

function mapAt(
  object: Fields,
  [field, ...rest]: readonly string[],
  change: (value: unknown) => unknown,
): Fields {
  if (field === undefined) return object;
  const value = object[field];
  if (value === undefined) return object;
  if (rest.length === 0) return { ...object, [field]: change(value) };
  return isFields(value) ? { ...object, [field]: mapAt(value, rest, change) } : object;
}
