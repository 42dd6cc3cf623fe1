import type { OpenAPIHono } from '@hono/zod-openapi';
import { base64url } from 'jose';
import { BEAT_CONTENT_TYPE } from '../../../protocol/ack.ts';
import type { BeatAnswer } from '../../../protocol/report.ts';
import type { DoctorRow } from '../../../worker/cluster/doctor/row.ts';
import { parseConfig } from '../../../worker/config.ts';
import type { ClusterStatus } from '../../../worker/core/arbiter/view.ts';
import { createApp } from '../../../worker/http/app.ts';
import { type Counters, createCounters } from '../../../worker/http/counters.ts';
import { ManualTimers } from './manual-timers.ts';

export const ADMIN_TOKEN = 'admin-token-of-the-test';
export const READ_TOKEN = 'read-token-of-the-test';

/** What an observer says to a beat; rejecting and never answering are possible too. */
export type ObserverScript = (jws: string) => BeatAnswer | Promise<BeatAnswer>;

export interface Setup {
  readonly env?: Readonly<Record<string, unknown>>;
  readonly clusters?: Readonly<Record<string, unknown>>;
  /** By region. Regions without a script record everything. */
  readonly observers?: Readonly<Record<string, ObserverScript>>;
  /** What any observer answers to a socket's handshake. */
  readonly sockets?: (handshake: Request) => Response | Promise<Response>;
  readonly status?: (cluster: string) => Promise<ClusterStatus>;
  readonly release?: (cluster: string, hold: string) => Promise<{ released: boolean; why: string }>;
  readonly doctor?: (cluster: string) => Promise<readonly DoctorRow[]>;
}

export interface Subject {
  readonly app: OpenAPIHono;
  readonly counters: Counters;
  readonly timers: ManualTimers;
  /** `cluster/region/shard` of every observer that was asked, in order. */
  readonly asked: string[];
  /** Clusters whose arbiter was asked for its status, in order. */
  readonly statusReads: string[];
  readonly releases: string[];
  readonly clock: { nowMs: number };
}

export const START_MS = Date.parse('2026-12-01T12:00:00Z');

/** The app with everything around it played by the test. */
export function subject(setup: Setup = {}): Subject {
  const env = {
    DEPLOYMENT_ID: 'farpulse',
    CLUSTERS: setup.clusters ?? { prod: { apiUrl: 'https://kube.example.com' } },
    ADMIN_TOKEN,
    READ_TOKEN,
    ...setup.env,
  };
  const config = parseConfig(env);
  const clock = { nowMs: START_MS };
  const timers = new ManualTimers();
  const counters = createCounters();
  const asked: string[] = [];
  const statusReads: string[] = [];
  const releases: string[] = [];
  const app = createApp({
    config: () => config,
    adminToken: () => env.ADMIN_TOKEN,
    observer: (cluster, region, shard) => ({
      beat: async (jws) => {
        asked.push(`${cluster}/${region}/${shard}`);
        const script = setup.observers?.[region];
        return script === undefined ? { kind: 'recorded', observer: region } : script(jws);
      },
      fetch: async (handshake) => {
        asked.push(`${cluster}/${region}/${shard}`);
        if (setup.sockets === undefined) throw new Error('no handshake was expected');
        return setup.sockets(handshake);
      },
    }),
    arbiter: (cluster) => ({
      status: async () => {
        statusReads.push(cluster);
        return (setup.status ?? (async (name) => clusterStatus({ cluster: name })))(cluster);
      },
      release: async (hold) => {
        releases.push(`${cluster}/${hold}`);
        return (setup.release ?? (async () => ({ released: true, why: 'released' })))(cluster, hold);
      },
      doctor: async () => (setup.doctor ?? (async () => []))(cluster),
    }),
    now: () => clock.nowMs,
    withTimeout: timers.withTimeout,
    counters,
  });
  return { app, counters, timers, asked, statusReads, releases, clock };
}

export function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` };
}

/** A payload; fields may be wrong on purpose, or left out as undefined. */
export function beatOf(fields: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return {
    v: 1,
    aud: 'farpulse/prod',
    node: 'node-1',
    uid: 'uid-1',
    boot: 'boot-0001',
    seq: 1000,
    intervalMs: 10_000,
    sentAtMs: START_MS,
    kubelet: { state: 'ok', okThisBoot: true },
    api: { state: 'ok' },
    beacon: 'test',
    ...fields,
  };
}

function encode(value: unknown): string {
  return base64url.encode(new TextEncoder().encode(JSON.stringify(value)));
}

/** A compact JWS by its shape. Nobody signed it: the router does not verify, and the observers here are scripts. */
export function jwsOf(payload: unknown = beatOf(), header: unknown = { alg: 'EdDSA', kid: 'kid-1' }): string {
  return `${encode(header)}.${encode(payload)}.${encode('signature')}`;
}

export async function post(
  app: OpenAPIHono,
  body: BodyInit,
  headers: Record<string, string> = {},
): Promise<Response> {
  const init: RequestInit = {
    method: 'POST',
    body,
    headers: { 'content-type': BEAT_CONTENT_TYPE, ...headers },
  };
  // Node insists on `duplex` for a stream; workerd and the types do not know it.
  return app.request(
    '/v1/beats',
    body instanceof ReadableStream ? Object.assign(init, { duplex: 'half' }) : init,
  );
}

/** A JSON answer, as loosely as tests look at it. */
export async function json(response: Response): Promise<Record<string, unknown>> {
  return response.json<Record<string, unknown>>();
}

export function clusterStatus(fields: Partial<ClusterStatus> = {}): ClusterStatus {
  return {
    cluster: 'prod',
    mode: 'observe',
    atMs: START_MS,
    state: 'judging',
    why: 'all regions see',
    regions: [{ region: 'weur', nodesHeard: 2, reportedAgoMs: 4_200 }],
    api: { state: 'ok', sinceMs: START_MS - 60_000 },
    inventory: { nodes: 2, enrolled: 2, listedAgoMs: 30_000 },
    alerts: [],
    nodes: [],
    ...fields,
  };
}
