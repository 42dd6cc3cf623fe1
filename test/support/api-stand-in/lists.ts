import { badRequest, expired } from './api-error.ts';
import type { Fields, KubeObject } from './objects.ts';
import type { Resource } from './resources.ts';
import { fieldSelector, labelSelector } from './selectors.ts';
import type { Store } from './store.ts';

const MAX_SNAPSHOTS = 50;

interface Rest {
  readonly version: string;
  readonly items: readonly KubeObject[];
}

/** Lists in pages. The later pages are of the moment of the first, as etcd's snapshots make them. */
export class Lists {
  readonly #store: Store;
  readonly #rests = new Map<string, Rest>();
  #count = 0;

  constructor(store: Store) {
    this.#store = store;
  }

  read(resource: Resource, namespace: string | undefined, query: URLSearchParams): Fields {
    const token = query.get('continue') ?? '';
    const { version, items } = token === '' ? this.#first(resource, namespace, query) : this.#rest(token);
    // `0` takes whatever the watch cache holds, all at once (apiserver storage/cacher).
    const unlimited = token === '' && query.get('resourceVersion') === '0';
    const limit = unlimited ? Infinity : limitOf(query);
    const page = items.slice(0, limit);
    const rest = items.slice(limit);
    const selected = (query.get('labelSelector') ?? '') !== '' || (query.get('fieldSelector') ?? '') !== '';
    return {
      kind: `${resource.kind}List`,
      apiVersion: resource.apiVersion,
      metadata: {
        resourceVersion: version,
        ...(rest.length > 0 && {
          continue: this.#keep({ version, items: rest }),
          // Not counted under a selector.
          ...(!selected && { remainingItemCount: rest.length }),
        }),
      },
      items: page.map(({ kind: _kind, apiVersion: _apiVersion, ...item }) => item),
    };
  }

  #first(resource: Resource, namespace: string | undefined, query: URLSearchParams): Rest {
    const byLabel = labelSelector(query.get('labelSelector') ?? '');
    const byField = fieldSelector(query.get('fieldSelector') ?? '', resource);
    const items = this.#store
      .list(resource, namespace)
      .filter((object) => byLabel(object) && byField(object));
    return { version: this.#store.version, items };
  }

  #rest(token: string): Rest {
    if (!/^[\w-]+$/.test(token) || !token.startsWith('c-')) throw badRequest('continue key is not valid');
    const rest = this.#rests.get(token);
    if (rest === undefined) throw expired();
    return rest;
  }

  #keep(rest: Rest): string {
    this.#count += 1;
    const token = `c-${this.#count}`;
    this.#rests.set(token, rest);
    const [oldest] = this.#rests.keys();
    if (this.#rests.size > MAX_SNAPSHOTS && oldest !== undefined) this.#rests.delete(oldest);
    return token;
  }

  /** Forgets all snapshots: from now on continue tokens are too old. */
  compact(): void {
    this.#rests.clear();
  }
}

function limitOf(query: URLSearchParams): number {
  const limit = Number(query.get('limit') ?? 0);
  return Number.isInteger(limit) && limit > 0 ? limit : Infinity;
}
