import { readFile } from 'node:fs/promises';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';

import { createKubernetesCluster } from '../../worker/cluster/kubernetes.ts';
import { markPods } from '../../worker/cluster/mark-pods.ts';
import { startControlPlane, type ControlPlane } from './control-plane.ts';
import { DETECTOR, detectorToken } from './least-privilege.ts';
import { readyCondition, type List, type Pod } from './objects.ts';
import { Stage } from './stage.ts';
import type { StagedNode } from './staged-cluster.ts';
import { createReadyPod, nowInSeconds, writeUnknown } from './status-writer.ts';
import { createPod } from './workloads.ts';

/*
 * Pods in compat mode, against a real API server and under the shipped manifests: which are marked, what of them
 * changes, and that a crash at any point leaves nothing undone. How they come back with their kubelet: story.test.ts.
 */

const CLUSTERS = { many: { nodes: 3 }, 'node-written': { nodes: 3 }, 'half-marked': { nodes: 3 } };
/** More than one page of 500. */
const MANY = 510;

vi.setConfig({ maxConcurrency: 20 });

let plane: ControlPlane;
let stage: Stage<keyof typeof CLUSTERS>;

beforeAll(async () => {
  plane = await startControlPlane({
    nodeMonitorGracePeriodSeconds: 600,
    auditUsers: [DETECTOR],
  });
  // The global fetch takes no certificate of its own; the adapter gets that very fetch.
  setDefaultCACertificates([...getCACertificates('default'), await readFile(plane.caFile, 'utf8')]);
  stage = await Stage.set({ plane, mode: 'compat', clusters: CLUSTERS });
}, 300_000);

afterAll(async () => {
  await stage?.strike();
  await plane?.stop();
}, 60_000);

async function podsOf(node: string): Promise<readonly Pod[]> {
  const path = `/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName%3D${node}`;
  return (await plane.request<List<Pod>>('GET', path)).items;
}

async function createReadyPods(node: string, count: number): Promise<void> {
  const names = Array.from({ length: count }, (_, index) => `${node}-pod-${index}`);
  const worker = async (): Promise<void> => {
    for (let name = names.pop(); name !== undefined; name = names.pop()) {
      await createReadyPod(plane.client, name, node);
    }
  };
  await Promise.all(Array.from({ length: 10 }, worker));
}

/** Name and readiness of those whose readiness is not `ready`. */
function others(pods: readonly Pod[], ready: string): string[] {
  return pods
    .filter((pod) => readyCondition(pod)?.status !== ready)
    .map((pod) => `${pod.metadata.name} ${readyCondition(pod)?.status}`);
}

/** A pod's fields without the ones that marking it moves. */
function restOf({ metadata, spec, status }: Pod): object {
  const {
    resourceVersion: _r,
    managedFields: _m,
    ...kept
  } = metadata as Pod['metadata'] & {
    readonly managedFields?: unknown;
  };
  const ready = readyCondition({ metadata, spec, status });
  const conditions = status.conditions?.filter((condition) => condition !== ready);
  const { status: _s, lastTransitionTime: _t, ...same } = ready ?? { status: 'True' };
  return { metadata: kept, spec, status: { ...status, conditions }, ready: same };
}

describe.concurrent('by the Worker', () => {
  test('all Ready pods of more than one page, and one bound later; nothing else of them', async () => {
    const cluster = stage.cluster('many');
    const node = cluster.node(1);
    await createReadyPods(node.name, MANY);
    await createPod(plane.client, 'not-started', node.name);
    await createReadyPods(cluster.node(2).name, 1);
    const before = await podsOf(node.name);
    cluster.killNode(node);
    await cluster.untilNode(
      node,
      'done with its pods',
      ({ episode }) => episode?.write?.podsMarked === MANY,
      120_000,
    );
    const after = await podsOf(node.name);
    expect(others(after, 'False')).toEqual(['not-started undefined']);
    expect(after.map((pod) => restOf(pod))).toEqual(before.map((pod) => restOf(pod)));

    await createReadyPod(plane.client, 'bound-later', node.name);
    await plane.waitForPod('bound-later', 'False', { timeoutMs: 90_000 });
    await cluster.untilNode(node, 'done', ({ episode }) => episode?.write?.podsMarked === MANY + 1);
    expect(others(await podsOf(cluster.node(2).name), 'True')).toEqual([]);
    const perPod = cluster.door.written('pods/');
    expect(perPod).toHaveLength(MANY + 1);
    expect(new Set(perPod).size).toBe(MANY + 1);
  });
});

describe('after a crash of the Worker', () => {
  /** Stops it in the middle of that request: applied, and its answer never heard. */
  function crashAt(node: StagedNode, pathPart: string, nth: number): Promise<void> {
    const { door } = stage.cluster(node.name.replace(/-\d+$/, '') as keyof typeof CLUSTERS);
    return new Promise((resolve, reject) => {
      let count = 0;
      door.after = ({ path }) => {
        if (!path.includes(pathPart)) return;
        count += 1;
        if (count < nth) return;
        door.after = undefined;
        stage.stopWorker().then(resolve, reject);
        throw new Error('the Worker is gone');
      };
    });
  }

  test.for([
    { when: 'once the Node is written', cluster: 'node-written', pathPart: '/nodes/', nth: 1 },
    { when: 'with some pods marked', cluster: 'half-marked', pathPart: '/pods/', nth: 7 },
  ] as const)('$when: the rest is marked by the next one', { timeout: 240_000 }, async (row) => {
    const cluster = stage.cluster(row.cluster);
    const node = cluster.node(1);
    await createReadyPods(node.name, 20);
    const crashed = crashAt(node, row.pathPart, row.nth);
    cluster.killNode(node);
    await crashed;
    expect(others(await podsOf(node.name), 'False')).not.toEqual([]);
    await stage.startWorker();
    await plane.waitFor(
      'all its pods to be marked',
      async (note) => {
        const left = others(await podsOf(node.name), 'False');
        const { phase, cause, why, episode } = (await cluster.status.node(node.name)) ?? {};
        note({ left, phase, cause, why, write: episode?.write, passed: cluster.door.passed.length });
        return left.length === 0;
      },
      { timeoutMs: 120_000, intervalMs: 500 },
    );
    expect(cluster.door.written('nodes/')).toEqual([`PATCH nodes/${node.name}/status 200`]);
  });
});

describe.concurrent('by the adapter, which is cut off', () => {
  const PODS = 5;
  const POINTS = Array.from({ length: PODS }, (_, after) => after).flatMap((after) => [
    { after, how: 'before the next write' },
    { after, how: 'before the answer to the next write' },
  ]);

  test.for(POINTS)('after $after writes, $how: the next pass marks the rest', async ({ after, how }) => {
    const node = `cut-${after}-${how === 'before the next write' ? 'unsent' : 'unheard'}`;
    await plane.request('POST', '/api/v1/nodes', { metadata: { name: node } });
    await createReadyPods(node, PODS);
    const lastTransitionTime = nowInSeconds();
    const { uid } = (await writeUnknown(plane.client, node, { lastTransitionTime })).metadata;
    const before = await podsOf(node);

    let left = after;
    const cutOff: typeof fetch = async (input, init) => {
      if (init?.method !== 'PATCH') return fetch(input, init);
      left -= 1;
      if (left >= 0) return fetch(input, init);
      if (how === 'before the answer to the next write') await fetch(input, init);
      throw new TypeError('cut off');
    };
    const options = { apiUrl: plane.url, token: await detectorToken(plane), nodeSelector: '' };
    const target = { name: node, uid, lastTransitionTime };
    const first = await markPods(createKubernetesCluster({ ...options, fetch: cutOff }), target);
    expect(first).toEqual({ marked: after, ok: false });
    const second = await markPods(createKubernetesCluster({ ...options, fetch }), target);
    expect(second.ok).toBe(true);

    const pods = await podsOf(node);
    expect(others(pods, 'False')).toEqual([]);
    expect(pods.map((pod) => readyCondition(pod)?.lastTransitionTime)).toEqual(
      pods.map(() => lastTransitionTime),
    );
    expect(pods.map((pod) => restOf(pod))).toEqual(before.map((pod) => restOf(pod)));
  });
});
