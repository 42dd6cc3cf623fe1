import { type Fields, isFields } from './objects.ts';

/** Lists that a strategic merge joins item by item, with the field that tells items apart (api/core/v1/types.go). */
const MERGE_KEYS: Readonly<Record<string, string>> = {
  'status.conditions': 'type',
  'status.addresses': 'type',
  'metadata.ownerReferences': 'uid',
};

/** JSON merge patch (RFC 7386): null removes, a list is replaced as a whole. */
export function mergePatch(target: Fields, patch: Fields): Fields {
  return merge(target, patch, '', {});
}

/** Kubernetes' strategic merge patch, as far as kubelets and farpulse use it: no `$patch` directives. */
export function strategicMergePatch(target: Fields, patch: Fields): Fields {
  return merge(target, patch, '', MERGE_KEYS);
}

function merge(
  target: Fields,
  patch: Fields,
  path: string,
  mergeKeys: Readonly<Record<string, string>>,
): Fields {
  const result: Record<string, unknown> = { ...target };
  for (const [field, value] of Object.entries(patch)) {
    // A hint about the order of list items, sent by kubelets. Order means nothing here.
    if (field.startsWith('$setElementOrder/')) continue;
    const at = path === '' ? field : `${path}.${field}`;
    const old = result[field];
    const key = mergeKeys[at];
    if (value === null) delete result[field];
    else if (isFields(value)) result[field] = merge(isFields(old) ? old : {}, value, at, mergeKeys);
    else if (Array.isArray(value) && key !== undefined) {
      result[field] = mergeList(Array.isArray(old) ? old : [], value, key);
    } else result[field] = value;
  }
  return result;
}

/** New items come to the front, as the real server puts them when the patch says nothing about order. */
function mergeList(old: readonly unknown[], patch: readonly unknown[], key: string): unknown[] {
  const result = [...old];
  const added: unknown[] = [];
  for (const item of patch) {
    if (!isFields(item)) continue;
    const at = result.findIndex((known) => isFields(known) && known[key] === item[key]);
    const known = result[at];
    if (isFields(known)) result[at] = merge(known, item, '', {});
    else added.push(merge({}, item, '', {}));
  }
  return [...added, ...result];
}
