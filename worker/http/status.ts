import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import { CAUSES, PHASES } from '../core/arbiter/view.ts';
import type { AppDeps } from './ports.ts';
import { problem, type ProblemResponse, problemResponses } from './problem.ts';
import { clusterOf, readableClusters, readerOf } from './readable.ts';
import type { StatusCache } from './status-cache.ts';
import {
  ClusterJson,
  ClusterListJson,
  clusterJson,
  NodeJson,
  NodeListJson,
  nodeJson,
  timeOf,
} from './status-json.ts';

/** What a reader without an arbiter is told to wait. The failure itself is cached for about as long. */
const RETRY_SECONDS = 2;

const tags = ['status'];
/** Documented as optional: a cluster with `readers = "open"` asks for none. */
const security = [{ bearer: [] }, {}];

function oneOf<const T extends readonly [string, ...string[]]>(values: T) {
  return z.union([z.enum(values), z.array(z.enum(values))]).optional();
}

const ClusterParams = z.object({ cluster: z.string() });
const NodeParams = z.object({ cluster: z.string(), node: z.string() });
const Filters = z.object({
  phase: oneOf(PHASES).openapi({ description: 'Only nodes in this phase. May be given several times.' }),
  cause: oneOf(CAUSES).openapi({ description: 'Only nodes with this cause. May be given several times.' }),
});

const listClusters = createRoute({
  method: 'get',
  path: '/v1/clusters',
  summary: 'The clusters that may be read',
  tags,
  security,
  responses: {
    200: { description: 'Their names.', content: { 'application/json': { schema: ClusterListJson } } },
    ...problemResponses('unauthorized', 'misconfigured'),
  },
});

const readCluster = createRoute({
  method: 'get',
  path: '/v1/clusters/{cluster}',
  summary: 'One cluster: whether it is judged, its regions, its alerts',
  tags,
  security,
  request: { params: ClusterParams },
  responses: {
    200: { description: 'The cluster.', content: { 'application/json': { schema: ClusterJson } } },
    ...problemResponses('unauthorized', 'unknown-cluster', 'misconfigured', 'unavailable'),
  },
});

const listNodes = createRoute({
  method: 'get',
  path: '/v1/clusters/{cluster}/nodes',
  summary: 'The nodes of a cluster',
  tags,
  security,
  request: { params: ClusterParams, query: Filters },
  responses: {
    200: { description: 'The nodes.', content: { 'application/json': { schema: NodeListJson } } },
    ...problemResponses('invalid-request', 'unauthorized', 'unknown-cluster', 'misconfigured', 'unavailable'),
  },
});

const readNode = createRoute({
  method: 'get',
  path: '/v1/clusters/{cluster}/nodes/{node}',
  summary: 'One node: phase, cause, last heard per region, its episode and what was written',
  tags,
  security,
  request: { params: NodeParams },
  responses: {
    200: { description: 'The node.', content: { 'application/json': { schema: NodeJson } } },
    ...problemResponses('unauthorized', 'unknown-cluster', 'unknown-node', 'misconfigured', 'unavailable'),
  },
});

function chosen<T extends string>(filter: T | T[] | undefined, value: T | undefined): boolean {
  if (filter === undefined) return true;
  return value !== undefined && (Array.isArray(filter) ? filter.includes(value) : filter === value);
}

/** `GET /v1/clusters...`: the arbiter's view, read-only, out of the cache. Observers are never asked. */
export function status(app: OpenAPIHono, deps: AppDeps, cache: StatusCache): void {
  app.use('/v1/clusters/*', async (c, next) => {
    await next();
    // What a token opens must not stay in a shared cache, and what is a second old is old.
    c.res.headers.set('cache-control', 'no-store');
    c.res.headers.set('x-content-type-options', 'nosniff');
  });

  app.openapi(listClusters, async (c) => {
    const reader = await readerOf(c, deps);
    if (reader instanceof Response) return reader;
    const clusters = readableClusters(reader);
    // An empty list would say "nothing is configured" to who has only forgotten the token.
    if (clusters.length === 0 && reader.config.clusters.size > 0) return problem('unauthorized');
    return c.json({ clusters: clusters.map(({ name, mode }) => ({ name, mode })) }, 200);
  });

  app.openapi(readCluster, async (c) => {
    const reader = await readerOf(c, deps);
    if (reader instanceof Response) return reader;
    const cluster = clusterOf(reader, c.req.valid('param').cluster);
    if (cluster instanceof Response) return cluster;
    const found = await cache.get(c, cluster.name);
    return found.ok ? c.json(clusterJson(found.status), 200) : notThere();
  });

  app.openapi(listNodes, async (c) => {
    const reader = await readerOf(c, deps);
    if (reader instanceof Response) return reader;
    const cluster = clusterOf(reader, c.req.valid('param').cluster);
    if (cluster instanceof Response) return cluster;
    const { phase, cause } = c.req.valid('query');
    const found = await cache.get(c, cluster.name);
    if (!found.ok) return notThere();
    const nodes = found.status.nodes.filter((node) => chosen(phase, node.phase) && chosen(cause, node.cause));
    return c.json({ cluster: cluster.name, at: timeOf(found.status.atMs), nodes: nodes.map(nodeJson) }, 200);
  });

  app.openapi(readNode, async (c) => {
    const reader = await readerOf(c, deps);
    if (reader instanceof Response) return reader;
    const params = c.req.valid('param');
    const cluster = clusterOf(reader, params.cluster);
    if (cluster instanceof Response) return cluster;
    const found = await cache.get(c, cluster.name);
    if (!found.ok) return notThere();
    const node = found.status.nodes.find(({ name }) => name === params.node);
    return node === undefined ? problem('unknown-node') : c.json(nodeJson(node), 200);
  });
}

function notThere(): ProblemResponse<'unavailable'> {
  return problem('unavailable', {
    detail: 'the arbiter of this cluster does not answer',
    retryAfterSeconds: RETRY_SECONDS,
  });
}
