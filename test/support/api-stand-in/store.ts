import type { KubeObject } from './objects.ts';
import type { Resource } from './resources.ts';

export interface Change {
  readonly resource: Resource;
  readonly object: KubeObject;
  readonly deleted: boolean;
}

/** The objects, in etcd's order, under one counter of resource versions. */
export class Store {
  readonly #objects = new Map<string, KubeObject>();
  readonly #listeners = new Set<(change: Change) => void>();
  #version = 0;

  get version(): string {
    return String(this.#version);
  }

  get(resource: Resource, namespace: string, name: string): KubeObject | undefined {
    return this.#objects.get(keyOf(resource, namespace, name));
  }

  /** In the order of namespace and name, of one namespace or of all. */
  list(resource: Resource, namespace?: string): KubeObject[] {
    const prefix = keyOf(resource, namespace ?? '', '').slice(0, namespace === undefined ? -1 : undefined);
    return [...this.#objects.entries()]
      .filter(([key]) => key.startsWith(prefix))
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([, object]) => object);
  }

  /** Stores it under a new resourceVersion and returns it with that. */
  put(resource: Resource, object: KubeObject): KubeObject {
    this.#version += 1;
    const stored = { ...object, metadata: { ...object.metadata, resourceVersion: this.version } };
    this.#objects.set(keyOf(resource, object.metadata.namespace ?? '', object.metadata.name), stored);
    this.#tell({ resource, object: stored, deleted: false });
    return stored;
  }

  delete(resource: Resource, object: KubeObject): void {
    this.#version += 1;
    this.#objects.delete(keyOf(resource, object.metadata.namespace ?? '', object.metadata.name));
    this.#tell({ resource, object, deleted: true });
  }

  /** Told of every change, right after it. Returns how to stop that. */
  watch(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #tell(change: Change): void {
    for (const listener of this.#listeners) listener(change);
  }
}

function keyOf(resource: Resource, namespace: string, name: string): string {
  return resource.namespaced ? `/${resource.plural}/${namespace}/${name}` : `/${resource.plural}/${name}`;
}
