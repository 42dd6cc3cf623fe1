// Reading and listing.
import { expect } from 'vitest';

import { expectRefusal, LEASES, names, ok, type TableContext } from './api-table-context.ts';
import type { ApiCase } from './api-table.ts';
import type { List, Node } from './objects.ts';

const METADATA_LIST = { accept: 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1' };
/** The watch cache may be a moment behind what was written. */
const PATIENCE = { timeout: 10_000 };
const METADATA = { accept: 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1' };

export const LIST_CASES: readonly ApiCase[] = [
  {
    name: 'label selectors select by equality, sets and existence',
    async run(c) {
      const group = c.unique('group');
      const [a, b, none] = [c.unique('a'), c.unique('b'), c.unique('none')];
      await c.createNode({ name: a, labels: { group, tier: 'a' } });
      await c.createNode({ name: b, labels: { group, tier: 'b' } });
      await c.createNode({ name: none, labels: { group } });
      const selected = async (selector: string): Promise<string[]> =>
        names(await list(c, `group=${group},${selector}`)).map((name) => name.split('-')[0] ?? '');
      expect(await selected('tier=a')).toEqual(['a']);
      expect(await selected('tier==b')).toEqual(['b']);
      expect(await selected('tier!=a')).toEqual(['b', 'none']);
      expect(await selected('tier in (a, b)')).toEqual(['a', 'b']);
      expect(await selected('tier notin (a)')).toEqual(['b', 'none']);
      expect(await selected('tier')).toEqual(['a', 'b']);
      expect(await selected('!tier')).toEqual(['none']);
    },
  },
  {
    name: 'a label selector that is none is a bad request',
    async run(c) {
      const answer = c.admin('GET', `/api/v1/nodes?labelSelector=${encodeURIComponent('a b')}`);
      await expectRefusal(answer, 400, 'BadRequest');
    },
  },
  {
    name: 'items of a list have no kind of their own',
    async run(c) {
      const group = c.unique('group');
      await c.createNode({ labels: { group } });
      const nodes = await list(c, `group=${group}`);
      expect(nodes).toMatchObject({ kind: 'NodeList', apiVersion: 'v1' });
      expect(nodes.items[0]).not.toHaveProperty('kind');
      expect(nodes.items[0]).toHaveProperty('status');
    },
  },
  {
    name: 'a metadata-only list leaves spec and status out',
    async run(c) {
      const group = c.unique('group');
      const node = await c.createNode({ labels: { group } });
      const nodes = await list(c, `group=${group}`, '', METADATA_LIST);
      expect(nodes).toMatchObject({ kind: 'PartialObjectMetadataList', apiVersion: 'meta.k8s.io/v1' });
      expect(nodes.items).toEqual([
        { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: node.metadata },
      ]);
    },
  },
  {
    name: 'a single object comes as metadata only as well',
    async run(c) {
      const { metadata } = await c.createNode();
      expect(await ok(c.admin('GET', `/api/v1/nodes/${metadata.name}`, undefined, METADATA))).toEqual({
        kind: 'PartialObjectMetadata',
        apiVersion: 'meta.k8s.io/v1',
        metadata,
      });
    },
  },
  {
    name: 'pages follow each other in the order of names, without gaps or repeats',
    async run(c) {
      const { group, made } = await fiveNodes(c);
      const pages = await allPages(c, group);
      expect(pages.map((page) => page.length)).toEqual([2, 2, 1]);
      expect(pages.flat()).toEqual(made.toSorted());
    },
  },
  {
    name: 'later pages are of the moment of the first',
    async run(c) {
      const { group, made } = await fiveNodes(c);
      const last = made.toSorted().at(-1) ?? '';
      const pages = await allPages(c, group, async () => {
        await ok(c.admin('DELETE', `/api/v1/nodes/${last}`));
      });
      expect(pages.flat()).toEqual(made.toSorted());
    },
  },
  {
    name: 'resourceVersion=0 lists everything at once, whatever the limit',
    async run(c) {
      const { group, made } = await fiveNodes(c);
      await expect
        .poll(async () => {
          const nodes = await list(c, `group=${group}`, '&limit=2&resourceVersion=0');
          return [names(nodes), nodes.metadata.continue ?? ''];
        }, PATIENCE)
        .toEqual([made.toSorted(), '']);
    },
  },
  {
    name: 'a continue token that is none is a bad request',
    async run(c) {
      await expectRefusal(c.admin('GET', '/api/v1/nodes?limit=2&continue=%21'), 400, 'BadRequest');
    },
  },
  {
    name: 'pods are selected by their node over all namespaces',
    async run(c) {
      const [here, there] = [await c.createNode(), await c.createNode()];
      const pods = [
        (await c.createPod(here.metadata.name)).metadata.name,
        (await c.createPod(here.metadata.name)).metadata.name,
      ];
      await c.createPod(there.metadata.name);
      const found = await ok(
        c.admin('GET', `/api/v1/pods?fieldSelector=spec.nodeName%3D${here.metadata.name}`),
      );
      expect(names(found)).toEqual(pods.toSorted());
    },
  },
  {
    name: 'a field that cannot be selected by is a bad request',
    async run(c) {
      await expectRefusal(c.admin('GET', '/api/v1/pods?fieldSelector=spec.image%3Dpause'), 400, 'BadRequest');
    },
  },
  {
    name: 'an absent node, pod or lease is not found',
    async run(c) {
      for (const collection of ['/api/v1/nodes', '/api/v1/namespaces/default/pods', LEASES]) {
        await expectRefusal(c.admin('GET', `${collection}/${c.unique()}`), 404, 'NotFound');
      }
    },
  },
  {
    name: 'a path that the API does not have is 404 and names no object',
    async run(c) {
      const refusal = await expectRefusal(c.admin('GET', '/api/v1/nonsense'), 404, 'NotFound');
      expect(refusal.details).toEqual({});
      expect(await c.admin('GET', '/nonsense')).toEqual({ status: 404, body: '404 page not found\n' });
    },
  },
];

async function list(
  c: TableContext,
  labelSelector: string,
  more = '',
  headers: Readonly<Record<string, string>> = {},
): Promise<List<Node>> {
  const path = `/api/v1/nodes?labelSelector=${encodeURIComponent(labelSelector)}${more}`;
  return (await ok(c.admin('GET', path, undefined, headers))) as List<Node>;
}

async function fiveNodes(
  c: TableContext,
): Promise<{ readonly group: string; readonly made: readonly string[] }> {
  const group = c.unique('group');
  const made: string[] = [];
  for (let i = 0; i < 5; i += 1) made.push((await c.createNode({ labels: { group } })).metadata.name);
  return { group, made };
}

/** Names in pages of two. */
async function allPages(
  c: TableContext,
  group: string,
  afterFirst?: () => Promise<void>,
): Promise<string[][]> {
  const pages: string[][] = [];
  let position = '';
  do {
    const page = await list(c, `group=${group}`, `&limit=2&continue=${encodeURIComponent(position)}`);
    pages.push(names(page));
    position = page.metadata.continue ?? '';
    if (pages.length === 1) await afterFirst?.();
  } while (position !== '');
  return pages;
}
