import { z } from '@hono/zod-openapi';
import type { z as Zod } from 'zod';
import { ApiPathSign, CheckResult, KubeletSign } from '../../protocol/beat.ts';
import {
  CAUSES,
  type ClusterStatus,
  type EpisodeStatus,
  type NodeStatus,
  PHASES,
} from '../core/arbiter/view.ts';

/*
 * The status as JSON. One schema an answer, from which both the OpenAPI document and the types of the converters
 * come, so that they cannot differ. Fields are only ever added. Points in time are RFC 3339 in UTC, by the arbiter's
 * clock; ages are seconds, counted back from `at`, and carry their unit in the name.
 */

const Time = z.iso.datetime().openapi({ example: '2026-12-01T12:00:00.000Z' });
const Seconds = z.number().nonnegative();

const WriteJson = z
  .object({
    outcome: z.enum(['written', 'would-write', 'failed']),
    at: Time,
    reason: z.string(),
    message: z.string(),
    podsMarked: z.int().optional(),
    error: z.string().optional(),
  })
  .openapi('Write', {
    description: 'What was written to the cluster, and what came of it. `would-write`: observe mode.',
  });

const EpisodeJson = z
  .object({
    id: z.string(),
    node: z.string(),
    uid: z.string(),
    cause: z.enum(CAUSES),
    lastBeatAt: Time,
    suspectAt: Time,
    verdictAt: Time.optional(),
    write: WriteJson.optional(),
    returnedAt: Time.optional(),
  })
  .openapi('Episode', { description: 'One continuous absence of one node instance.' });

const RegionSightJson = z
  .object({
    region: z.string(),
    sight: z.enum(['heard', 'late', 'silent', 'listening']),
    heardAgoSeconds: Seconds,
  })
  .openapi('RegionSight');

export const NodeJson = z
  .object({
    name: z.string(),
    uid: z.string(),
    zone: z.string(),
    phase: z.enum(PHASES),
    since: Time,
    cause: z.enum(CAUSES).optional(),
    why: z.string(),
    lastHeard: z.array(RegionSightJson),
    kubelet: z.object({ ...KubeletSign.shape, why: z.string().optional() }).optional(),
    api: z.object({ ...ApiPathSign.shape, why: z.string().optional() }).optional(),
    beacon: z.string().optional(),
    checks: z
      .array(z.object({ ...CheckResult.shape, name: z.string(), why: z.string().optional() }))
      .optional()
      .openapi({ description: "What the operator's own checks of the node came to." }),
    features: z
      .array(z.string())
      .optional()
      .openapi({ description: 'What the beacon of the node says it can do.' }),
    episode: EpisodeJson.optional().openapi({ description: 'The running episode, or else the last one.' }),
  })
  .openapi('Node');

export const ClusterJson = z
  .object({
    cluster: z.string(),
    mode: z.enum(['observe', 'external', 'compat']),
    at: Time.openapi({ description: 'When this was so, by the arbiter.' }),
    state: z.enum(['judging', 'hold', 'cool-down', 'cannot-see', 'breaker-open']),
    why: z.string(),
    hold: z
      .object({
        id: z.string(),
        since: Time,
        nodes: z.array(z.string()),
        share: z.number(),
        kind: z.enum(['share', 'mode']).optional(),
      })
      .optional()
      .openapi({
        description:
          '`mode`: a controller did not act on what was written of the named node. Otherwise too many nodes are missing.',
      }),
    regions: z.array(
      z.object({
        region: z.string(),
        reportedAgoSeconds: Seconds.optional(),
        nodesHeard: z.int(),
        blind: z.string().optional(),
      }),
    ),
    api: z.object({
      state: z.enum(['ok', 'unreachable', 'unknown']),
      since: Time,
      why: z.string().optional(),
    }),
    inventory: z.object({ nodes: z.int(), enrolled: z.int(), listedAgoSeconds: Seconds.optional() }),
    nodesByPhase: z.partialRecord(z.enum(PHASES), z.int()),
    alerts: z.array(
      z.object({ code: z.string(), since: Time, message: z.string(), node: z.string().optional() }),
    ),
  })
  .openapi('Cluster');

export const NodeListJson = z
  .object({ cluster: z.string(), at: Time, nodes: z.array(NodeJson) })
  .openapi('NodeList');

export const ClusterListJson = z
  .object({
    clusters: z.array(z.object({ name: z.string(), mode: z.enum(['observe', 'external', 'compat']) })),
  })
  .openapi('ClusterList');

export const ReleaseJson = z.object({ released: z.literal(true), why: z.string() }).openapi('Release');

/** RFC 3339, UTC. */
export function timeOf(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** Tenths are all that a clock which moves at I/O can mean. */
export function secondsOf(ms: number): number {
  return Math.max(0, Math.round(ms / 100) / 10);
}

/** Drops the fields that are undefined: with exactOptionalPropertyTypes an absent field is not an undefined one. */
function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

function episodeJson(episode: EpisodeStatus): Zod.infer<typeof EpisodeJson> {
  const { id, node, uid, cause, lastBeatAtMs, suspectAtMs, verdictAtMs, write, returnedAtMs } = episode;
  return {
    id,
    node,
    uid,
    cause,
    lastBeatAt: timeOf(lastBeatAtMs),
    suspectAt: timeOf(suspectAtMs),
    ...(verdictAtMs !== undefined && { verdictAt: timeOf(verdictAtMs) }),
    ...(write !== undefined && {
      write: {
        outcome: write.outcome,
        at: timeOf(write.atMs),
        reason: write.reason,
        message: write.message,
        ...defined({ podsMarked: write.podsMarked, error: write.error }),
      },
    }),
    ...(returnedAtMs !== undefined && { returnedAt: timeOf(returnedAtMs) }),
  };
}

/** One node as the API shows it. */
export function nodeJson(node: NodeStatus): Zod.infer<typeof NodeJson> {
  const {
    name,
    uid,
    zone,
    phase,
    sinceMs,
    cause,
    why,
    lastHeard,
    kubelet,
    api,
    beacon,
    checks,
    features,
    episode,
  } = node;
  return {
    name,
    uid,
    zone,
    phase,
    since: timeOf(sinceMs),
    why,
    lastHeard: lastHeard.map(({ region, sight, heardAgoMs }) => ({
      region,
      sight,
      heardAgoSeconds: secondsOf(heardAgoMs),
    })),
    ...defined({ cause, kubelet, api, beacon }),
    ...(checks !== undefined && { checks: [...checks] }),
    ...(features !== undefined && { features: [...features] }),
    ...(episode !== undefined && { episode: episodeJson(episode) }),
  };
}

/** One cluster as the API shows it, without its nodes: they have an address of their own. */
export function clusterJson(status: ClusterStatus): Zod.infer<typeof ClusterJson> {
  const { cluster, mode, atMs, state, why, hold, regions, api, inventory, alerts, nodes } = status;
  const nodesByPhase: Zod.infer<typeof ClusterJson>['nodesByPhase'] = {};
  for (const { phase } of nodes) nodesByPhase[phase] = (nodesByPhase[phase] ?? 0) + 1;
  return {
    cluster,
    mode,
    at: timeOf(atMs),
    state,
    why,
    ...(hold !== undefined && {
      hold: {
        id: hold.id,
        since: timeOf(hold.sinceMs),
        nodes: [...hold.nodes],
        share: hold.share,
        ...defined({ kind: hold.kind }),
      },
    }),
    regions: regions.map(({ region, reportedAgoMs, nodesHeard, blind }) => ({
      region,
      nodesHeard,
      ...(reportedAgoMs !== undefined && { reportedAgoSeconds: secondsOf(reportedAgoMs) }),
      ...defined({ blind }),
    })),
    api: { state: api.state, since: timeOf(api.sinceMs), ...defined({ why: api.why }) },
    inventory: {
      nodes: inventory.nodes,
      enrolled: inventory.enrolled,
      ...(inventory.listedAgoMs !== undefined && { listedAgoSeconds: secondsOf(inventory.listedAgoMs) }),
    },
    nodesByPhase,
    alerts: alerts.map(({ code, sinceMs, message, node }) => ({
      code,
      since: timeOf(sinceMs),
      message,
      ...defined({ node }),
    })),
  };
}
