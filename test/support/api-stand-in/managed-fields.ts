import { isDeepStrictEqual } from 'node:util';
import { type Fields, isFields, type KubeObject, type ManagedFieldsEntry } from './objects.ts';

/*
 * Who owns which field: the part of server-side apply's bookkeeping that also runs for plain updates
 * (apimachinery util/managedfields/internal/managedfieldsupdater.go). A writer takes what it changed and keeps what it
 * had; its time moves whenever it changed anything. A write through the object itself owns nothing of its status, one
 * through the status nothing of its spec. An object is tracked from its creation or, if nothing was owned then, never.
 * The real notation also marks owned list items with `.`.
 */

export interface Writer {
  readonly manager: string;
  readonly subresource?: string;
}

/** A path through FieldsV1, such as `f:status`, `f:conditions`, `k:{"type":"Ready"}`, `f:reason`. */
type Path = readonly string[];

export function managedFieldsAfter(
  before: KubeObject | undefined,
  after: KubeObject,
  writer: Writer,
  now: string,
): readonly ManagedFieldsEntry[] {
  const known = before?.metadata.managedFields ?? [];
  if (before !== undefined && known.length === 0) return [];
  const old = leavesOf(before);
  const current = leavesOf(after);
  const notOwned =
    after.status === undefined || writer.subresource === 'status' ? '["f:spec"' : '["f:status"';
  const changed = [...current]
    .filter(([id]) => !id.startsWith(notOwned))
    .filter(([id, leaf]) => !isDeepStrictEqual(old.get(id)?.value, leaf.value));
  if (changed.length === 0) return known;

  const own = known.find((entry) => isOf(entry, writer));
  const others = known.filter((entry) => entry !== own);
  const taken = new Set(changed.map(([id]) => id));
  const kept = others
    .map((entry) => ({ entry, ids: ownedIds(entry.fieldsV1) }))
    .map(({ entry, ids }) => ({ entry, ids: ids.filter((id) => !taken.has(id) && current.has(id)) }))
    .filter(({ ids }) => ids.length > 0)
    .map(({ entry, ids }) => ({ ...entry, fieldsV1: fieldsV1Of(ids) }));
  const ownIds = new Set([...(own === undefined ? [] : ownedIds(own.fieldsV1)), ...taken]);
  return [
    ...kept,
    {
      manager: writer.manager,
      operation: 'Update',
      apiVersion: after.apiVersion,
      time: now,
      fieldsType: 'FieldsV1',
      fieldsV1: fieldsV1Of([...ownIds].filter((id) => current.has(id))),
      ...(writer.subresource !== undefined && { subresource: writer.subresource }),
    },
  ];
}

function isOf(entry: ManagedFieldsEntry, writer: Writer): boolean {
  return entry.manager === writer.manager && entry.subresource === writer.subresource;
}

function leavesOf(object: KubeObject | undefined): ReadonlyMap<string, { readonly value: unknown }> {
  const leaves = new Map<string, { readonly value: unknown }>();
  if (object === undefined) return leaves;
  // Of the metadata only what people write has owners.
  const { labels, annotations, ownerReferences, finalizers } = object.metadata;
  const { apiVersion: _apiVersion, kind: _kind, ...rest } = object;
  collect({ ...rest, metadata: { labels, annotations, ownerReferences, finalizers } }, [], leaves);
  return leaves;
}

function collect(value: unknown, path: Path, leaves: Map<string, { readonly value: unknown }>): void {
  if (value === undefined) return;
  if (isFields(value)) {
    for (const [field, inner] of Object.entries(value)) collect(inner, [...path, `f:${field}`], leaves);
  } else if (Array.isArray(value) && path.at(-1) === 'f:conditions') {
    for (const item of value) {
      if (isFields(item)) collect(item, [...path, `k:${JSON.stringify({ type: item['type'] })}`], leaves);
    }
  } else {
    leaves.set(JSON.stringify(path), { value });
  }
}

function fieldsV1Of(ids: readonly string[]): Fields {
  const root: Record<string, unknown> = {};
  for (const id of ids) {
    let at = root;
    for (const step of pathOf(id)) {
      const next = at[step] ?? {};
      at[step] = next;
      // SAFETY: made two lines above, here or for another id.
      at = next as Record<string, unknown>;
    }
  }
  return root;
}

function ownedIds(fields: Fields): string[] {
  const walk = (value: unknown, path: Path): string[] => {
    const steps = isFields(value) ? Object.entries(value) : [];
    return steps.length === 0
      ? [JSON.stringify(path)]
      : steps.flatMap(([step, inner]) => walk(inner, [...path, step]));
  };
  return walk(fields, []);
}

function pathOf(id: string): Path {
  // SAFETY: only ids made by `collect` and `ownedIds` come here.
  return JSON.parse(id) as Path;
}
