import type { Beat } from '../../../protocol/beat.ts';
import type { Report, ReportedNode } from '../../../protocol/report.ts';
import { learn } from '../../../worker/core/arbiter/inventory.ts';
import {
  newArbiter,
  type ArbiterNode,
  type ArbiterSettings,
  type ArbiterState,
  type FreshRead,
} from '../../../worker/core/arbiter/state.ts';
import type { NodeCopy } from '../../../worker/core/cluster-port.ts';
import { newObserver, type HeardNode, type ObserverState } from '../../../worker/core/observer/state.ts';
import { stepObserver, type ObserverStep } from '../../../worker/core/observer/step.ts';
import { toRfc3339Seconds } from '../../../worker/core/rfc3339.ts';
import { PRESETS } from './simulation.ts';

/*
 * Small situations for the tests of single rules. Times are milliseconds of a test's own clock, which begins at 0 or
 * wherever the test likes.
 */

export const REGIONS = ['weur', 'enam', 'apac'] as const;

export function keyOf(name: string): string {
  return name.padStart(43, 'k');
}

export function aBeat(node: string, seq: number, over: Partial<Beat> = {}): Beat {
  return {
    v: 1,
    aud: 'test/cluster',
    node,
    uid: `uid-${node}`,
    boot: 'boot-0001',
    seq,
    intervalMs: 10_000,
    sentAtMs: seq,
    kubelet: { state: 'ok', okThisBoot: true },
    api: { state: 'ok' },
    beacon: 'test',
    ...over,
  };
}

/** An observer that knows the keys of these nodes and has heard none of them. */
export function anObserver(names: readonly string[], nowMs: number): ObserverState {
  const identity = { observer: 'weur', region: 'weur', shard: 0 };
  const state = newObserver(identity, PRESETS.steady, nowMs);
  const nodes = names.map((name) => ({
    name,
    uid: `uid-${name}`,
    keys: [{ kty: 'OKP' as const, crv: 'Ed25519' as const, x: keyOf(name) }],
  }));
  stepObserver(state, { kind: 'registry', registry: { version: 1, nodes } }, nowMs);
  return state;
}

/** The observer hears one beat. Sequences are taken from the clock, as on a node. */
export function hears(
  state: ObserverState,
  node: string,
  nowMs: number,
  over: Partial<Beat> = {},
): ObserverStep {
  const beat = aBeat(node, nowMs, over);
  const jws = `${beat.boot}:${beat.seq}`;
  return stepObserver(state, { kind: 'beat', beat, jws, digest: jws }, nowMs);
}

export function heardNode(state: ObserverState, name: string): HeardNode {
  const node = state.nodes.get(name);
  if (node === undefined) throw new Error(`${name} was not heard`);
  return node;
}

/** One node in one report: heard a second ago, unless said otherwise. */
export function reported(name: string, over: Partial<ReportedNode> = {}): ReportedNode {
  return {
    name,
    uid: `uid-${name}`,
    boot: 'boot-0001',
    seq: 1,
    sentAtMs: 0,
    sight: 'heard',
    heardAgoMs: 1_000,
    intervalMs: 10_000,
    timeoutMs: 22_000,
    kubelet: { state: 'ok', okThisBoot: true },
    api: { state: 'ok' },
    ...over,
  };
}

export function silent(name: string, forMs: number, over: Partial<ReportedNode> = {}): ReportedNode {
  return reported(name, { sight: 'silent', heardAgoMs: forMs, ...over });
}

export function aReport(region: string, nodes: readonly ReportedNode[], over: Partial<Report> = {}): Report {
  return {
    observer: region,
    region,
    shard: 0,
    listeningForMs: 3_600_000,
    nodes,
    strangers: [],
    registryVersion: 1,
    ...over,
  };
}

/** An arbiter that has listed these nodes, and polled just now. */
export function anArbiter(
  names: readonly string[],
  nowMs: number,
  over: Partial<ArbiterSettings> = {},
): ArbiterState {
  const settings: ArbiterSettings = {
    cluster: 'test',
    mode: 'external',
    regions: REGIONS,
    shards: 1,
    quorum: 2,
    policy: PRESETS.steady,
    hasApi: true,
    ...over,
  };
  const state = newArbiter(settings, nowMs);
  for (const name of names) {
    const annotations = { 'farpulse/beacon-key': keyOf(name) };
    learn(state, { name, uid: `uid-${name}`, labels: {}, annotations }, nowMs);
  }
  state.memory.pollBegunAtMs = nowMs - 100;
  state.memory.polledAtMs = nowMs;
  return state;
}

/** All regions report the same. */
export function allReport(state: ArbiterState, nodes: readonly ReportedNode[], nowMs: number): void {
  for (const region of REGIONS) reports(state, region, nodes, nowMs);
}

export function reports(
  state: ArbiterState,
  region: string,
  nodes: readonly ReportedNode[],
  nowMs: number,
  over: Partial<Report> = {},
): void {
  state.reports.set(region, { report: aReport(region, nodes, over), receivedAtMs: nowMs });
}

/** Changes a node of the arbiter in place, and returns it. */
export function amend(state: ArbiterState, name: string, over: Partial<ArbiterNode>): ArbiterNode {
  const node = { ...nodeOf(state, name), ...over };
  state.nodes.set(name, node);
  return node;
}

export function nodeOf(state: ArbiterState, name: string): ArbiterNode {
  const node = state.nodes.get(name);
  if (node === undefined) throw new Error(`the arbiter does not know ${name}`);
  return node;
}

export function aCopy(name: string, over: Partial<NodeCopy> = {}): NodeCopy {
  return {
    name,
    uid: `uid-${name}`,
    resourceVersion: '7',
    ready: {
      status: 'True',
      reason: 'KubeletReady',
      message: '',
      lastTransitionTime: toRfc3339Seconds(0),
      lastHeartbeatTime: toRfc3339Seconds(0),
    },
    labels: {},
    annotations: { 'farpulse/beacon-key': keyOf(name) },
    unschedulable: false,
    ...over,
  };
}

/** A read of a Node and its Lease, by the node's clock. */
export function aRead(
  name: string,
  atMs: number,
  renewTimeMs: number | undefined,
  over: Partial<NodeCopy> = {},
): FreshRead {
  return {
    atMs,
    node: { kind: 'ok', value: aCopy(name, over) },
    lease:
      renewTimeMs === undefined ? { kind: 'not-found' } : { kind: 'ok', value: { node: name, renewTimeMs } },
  };
}
