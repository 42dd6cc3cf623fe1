import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';

import { startControlPlane, type ControlPlane } from './control-plane.ts';
import { lifecycleTaints, nodeLeasePath, readyCondition, type Pod } from './objects.ts';
import { SmallKubelet, type SmallKubeletOptions } from './small-kubelet.ts';
import { Stage } from './stage.ts';
import {
  createReadyPod,
  nodeNotReadyEvents,
  nowInSeconds,
  writeReady,
  writeUnknown,
} from './status-writer.ts';

/*
 * KEP-6371's own test list, bullet by bullet, on a real API server: the detector's contract with farpulse, the
 * controller's external mode with the stand-in of `external-controller/`, its kubelet mode with the real
 * kube-controller-manager. Each test has a node in a zone of its own, so that they can all happen at once.
 */

const MONITOR_PERIOD_SECONDS = 1;
/** Of the controller in kubelet mode: above a kubelet's 10 s between two signs of life. */
const GRACE_SECONDS = 20;
const STARTUP_GRACE_SECONDS = 8;
const UNREACHABLE = ['node.kubernetes.io/unreachable:NoExecute', 'node.kubernetes.io/unreachable:NoSchedule'];

vi.setConfig({ maxConcurrency: 20 });

let plane: ControlPlane;
let stage: Stage<'d1' | 'd2' | 'd3'>;
const kubelets: SmallKubelet[] = [];

beforeAll(async () => {
  plane = await startControlPlane({
    nodeLivenessSource: 'external',
    nodeMonitorPeriodSeconds: MONITOR_PERIOD_SECONDS,
    nodeMonitorGracePeriodSeconds: GRACE_SECONDS,
    nodeStartupGracePeriodSeconds: STARTUP_GRACE_SECONDS,
    nodeNames: ['hollow-1'],
    extraTokens: [{ user: 'nobody' }],
  });
  // Somebody is always Ready: with all nodes gone the controller takes no node for lost.
  await startNode('anchor');
  stage = await Stage.set({
    plane,
    mode: 'external',
    clusters: { d1: { nodes: 3 }, d2: { nodes: 3 }, d3: { nodes: 3 } },
  });
}, 300_000);

afterAll(async () => {
  for (const kubelet of kubelets) kubelet.kill();
  await stage?.strike();
  await plane?.stop();
}, 60_000);

/** A small kubelet with its Node, in a zone of its own. */
async function startNode(name: string, options: Partial<SmallKubeletOptions> = {}): Promise<SmallKubelet> {
  const labels = { 'topology.kubernetes.io/zone': name };
  const kubelet = new SmallKubelet({ client: plane.client, name, labels, ...options });
  kubelets.push(kubelet);
  await kubelet.start();
  return kubelet;
}

/** The controller has seen it True; then its kubelet said `last` and died. One pod is Ready on it. */
async function startDeadNode(name: string, last: 'True' | 'False' = 'True'): Promise<void> {
  const kubelet = await startNode(name);
  await createReadyPod(plane.client, `pod-${name}`, name);
  await severalPasses();
  if (last === 'False') await kubelet.setReady(false);
  kubelet.kill();
}

async function podReady(name: string): Promise<string | undefined> {
  return readyCondition(await plane.request<Pod>('GET', `/api/v1/namespaces/default/pods/${name}`))?.status;
}

async function untilTaints(name: string, wanted: readonly string[]): Promise<void> {
  await plane.waitFor(`${name} to have the taints [${wanted.join(', ')}]`, async (note) => {
    const taints = lifecycleTaints(await plane.node(name));
    note(taints);
    return JSON.stringify(taints) === JSON.stringify(wanted);
  });
}

/** Long enough for the controller to look at every node again, whatever the machine is busy with. */
async function severalPasses(): Promise<void> {
  await passOf(4 * MONITOR_PERIOD_SECONDS * 1000);
}

async function passOf(ms: number): Promise<void> {
  const startedAtMs = performance.now();
  await plane.waitFor(`${ms / 1000} s to pass`, () => performance.now() - startedAtMs >= ms, {
    timeoutMs: ms + 30_000,
    intervalMs: 250,
  });
}

describe.concurrent('detector', () => {
  test('D1: writes after the failure signal has lasted, and only after a live look at Node and Lease', async () => {
    const cluster = stage.cluster('d1');
    const node = cluster.node(1);
    cluster.killNode(node);
    const down = await cluster.untilPhase(node, 'down');
    const { lastBeatAt = '', write } = down.episode ?? {};
    expect(Date.parse(write?.at ?? '') - Date.parse(lastBeatAt)).toBeGreaterThanOrEqual(5_000);
    const asked = cluster.door.passed.map(({ method, path }) => `${method} ${path}`);
    const writtenAt = asked.indexOf(`PATCH /api/v1/nodes/${node.name}/status`);
    const lookedAt = asked.slice(0, writtenAt);
    expect(lookedAt).toContain(`GET /api/v1/nodes/${node.name}`);
    expect(lookedAt).toContain(`GET ${nodeLeasePath(node.name)}`);
  });

  test('D2: sets Unknown with a reason of its own and lastTransitionTime, and leaves lastHeartbeatTime', async () => {
    const cluster = stage.cluster('d2');
    const node = cluster.node(1);
    const before = readyCondition(await plane.node(node.name));
    cluster.killNode(node);
    const after = readyCondition(await plane.waitForNode(node.name, 'Unknown', { timeoutMs: 60_000 }));
    expect(after?.reason).toBe('FarpulseHostSilent');
    expect(after?.lastHeartbeatTime).toBe(before?.lastHeartbeatTime);
    expect(after?.lastTransitionTime).not.toBe(before?.lastTransitionTime);
  });

  test('D3: does not overwrite the True of a kubelet that came back, though its beacon did not', async () => {
    const cluster = stage.cluster('d3');
    const node = cluster.node(1);
    cluster.killNode(node);
    await plane.waitForNode(node.name, 'Unknown', { timeoutMs: 60_000 });
    await node.kubelet.start();
    await cluster.untilNode(node, 'taken back', ({ phase }) => phase === 'watched' || phase === 'alive');
    // Two timeouts more than a new absence would need.
    await passOf(15_000);
    expect(readyCondition(await plane.node(node.name))?.status).toBe('True');
    expect(cluster.door.written(node.name)).toEqual([`PATCH nodes/${node.name}/status 200`]);
  });

  test('D4: needs, and has, the permission to write nodes/status', async () => {
    const path = `/api/v1/nodes/anchor/status?dryRun=All`;
    const body = {
      status: { conditions: [{ type: 'Ready', status: 'Unknown', reason: 'FarpulseHostSilent' }] },
    };
    const patch = { 'content-type': 'application/strategic-merge-patch+json' };
    const nobody = plane.client.as(plane.tokenOf('nobody'));
    expect((await nobody.respond('PATCH', path, body, patch)).status).toBe(403);
    nobody.close();
    const review = await plane.request<{ readonly status: { readonly allowed: boolean } }>(
      'POST',
      '/apis/authorization.k8s.io/v1/subjectaccessreviews',
      {
        spec: {
          user: 'system:serviceaccount:farpulse:detector',
          resourceAttributes: { verb: 'patch', resource: 'nodes', subresource: 'status' },
        },
      },
    );
    expect(review.status.allowed).toBe(true);
  });
});

describe.concurrent('controller with an external source', () => {
  test('C1: a node that stops heartbeating is not marked', { timeout: 150_000 }, async () => {
    await startDeadNode('c1');
    // The default grace period of kubelet mode, and then some.
    await passOf(60_000);
    expect(readyCondition(await plane.node('c1'))?.status).toBe('True');
    expect(lifecycleTaints(await plane.node('c1'))).toEqual([]);
    expect(await podReady('pod-c1')).toBe('True');
  });

  test.for([
    { was: 'True', heartbeat: 'unchanged' },
    { was: 'True', heartbeat: 'changed' },
    { was: 'False', heartbeat: 'unchanged' },
    { was: 'False', heartbeat: 'changed' },
  ] as const)(
    'C2: Ready becoming Unknown from $was, heartbeat time $heartbeat, marks the pods and is one NodeNotReady event',
    async ({ was, heartbeat }) => {
      const name = `c2-${was.toLowerCase()}-${heartbeat}`;
      await startDeadNode(name, was);
      await severalPasses();
      expect(await podReady(`pod-${name}`)).toBe('True');
      const lastHeartbeatTime = nowInSeconds();
      const node = await writeUnknown(
        plane.client,
        name,
        heartbeat === 'changed' ? { lastHeartbeatTime } : {},
      );
      await plane.waitForPod(`pod-${name}`, 'False');
      await severalPasses();
      expect(await nodeNotReadyEvents(plane.client, node)).toBe(1);
    },
  );

  test('C3: Ready becoming False marks nothing', async () => {
    await startDeadNode('c3', 'False');
    await untilTaints('c3', [
      'node.kubernetes.io/not-ready:NoExecute',
      'node.kubernetes.io/not-ready:NoSchedule',
    ]);
    await severalPasses();
    expect(await podReady('pod-c3')).toBe('True');
    expect(await nodeNotReadyEvents(plane.client, await plane.node('c3'))).toBe(0);
  });

  test('C4: Ready becoming True again is a recovery', async () => {
    await startDeadNode('c4');
    await writeUnknown(plane.client, 'c4');
    await untilTaints('c4', UNREACHABLE);
    await writeReady(plane.client, 'c4', {
      status: 'True',
      reason: 'KubeletReady',
      lastHeartbeatTime: nowInSeconds(),
    });
    await untilTaints('c4', []);
  });

  test('C6: a node that never reported Ready is marked Unknown after the startup grace period', async () => {
    await plane.request('POST', '/api/v1/nodes', { metadata: { name: 'c6' } });
    const ready = readyCondition(await plane.waitForNode('c6', 'Unknown', { timeoutMs: 60_000 }));
    expect(ready?.reason).toBe('NodeStatusNeverUpdated');
  });

  test('C8: the gauge names the source', async () => {
    expect(await plane.externalControllerMetrics()).toContain(
      'node_collector_liveness_source{source="external"} 1',
    );
  });

  test('I1, I2: Unknown takes one node out of service and its True brings it back, with one event in all', async () => {
    const kubelet = await plane.startKubelet('hollow-1', { zone: 'hollow-1' });
    await plane.createService('web', { app: 'web' });
    await plane.createPod('web-1', 'hollow-1', { labels: { app: 'web' } });
    await plane.waitForPod('web-1', 'True');
    await severalPasses();
    kubelet.pause();
    const node = await writeUnknown(plane.client, 'hollow-1');
    await plane.waitForPod('web-1', 'False');
    await untilTaints('hollow-1', UNREACHABLE);
    await plane.waitFor(
      'its endpoint to be gone',
      async () => (await plane.readyEndpoints('web')).length === 0,
    );
    expect(readyCondition(await plane.node('anchor'))?.status).toBe('True');
    expect(lifecycleTaints(await plane.node('anchor'))).toEqual([]);

    kubelet.resume();
    await plane.waitForNode('hollow-1', 'True');
    await plane.waitForPod('web-1', 'True');
    await untilTaints('hollow-1', []);
    expect(await nodeNotReadyEvents(plane.client, node)).toBe(1);
  });
});

describe('controller with an external source, restarted', () => {
  test('C5: after a restart the pods of every node that is not Ready are marked', async () => {
    await Promise.all([startDeadNode('c5-unknown'), startDeadNode('c5-false'), startDeadNode('c5-true')]);
    await plane.stopControllerManager();
    const unknown = await writeUnknown(plane.client, 'c5-unknown');
    await writeReady(plane.client, 'c5-false', { status: 'False', reason: 'KubeletNotReady' });
    await plane.startControllerManager();
    await plane.waitForPod('pod-c5-unknown', 'False');
    await plane.waitForPod('pod-c5-false', 'False');
    await severalPasses();
    expect(await podReady('pod-c5-true')).toBe('True');
    // It was not seen to happen, so there is no event of it.
    expect(await nodeNotReadyEvents(plane.client, unknown)).toBe(0);
  });
});

describe('controller with kubelets as the source', () => {
  beforeAll(async () => {
    await plane.restartControllerManager('kubelet');
  });

  describe.concurrent('C7: unchanged', () => {
    test('a node that stops heartbeating is marked, its pods too, with one event', async () => {
      await startDeadNode('c7-silent');
      const node = await plane.waitForNode('c7-silent', 'Unknown', { timeoutMs: 90_000 });
      expect(readyCondition(node)?.reason).toBe('NodeStatusUnknown');
      await plane.waitForPod('pod-c7-silent', 'False');
      await severalPasses();
      expect(await nodeNotReadyEvents(plane.client, node)).toBe(1);
    });

    test('an Unknown by somebody else taints the node and leaves its pods Ready', async () => {
      await startDeadNode('c7-written');
      const node = await writeUnknown(plane.client, 'c7-written');
      await untilTaints('c7-written', UNREACHABLE);
      // Past its own grace period too: that somebody else was first keeps it from marking them.
      await passOf(2 * GRACE_SECONDS * 1000);
      expect(await podReady('pod-c7-written')).toBe('True');
      expect(await nodeNotReadyEvents(plane.client, node)).toBe(0);
    });
  });

  describe.concurrent('kubelets without Leases', () => {
    test('I3: with the controller still in kubelet mode, a live node flaps', async () => {
      await startNode('i3', { enableNodeLease: false });
      for (let times = 0; times < 2; times++) {
        const unknown = await plane.waitForNode('i3', 'Unknown', { timeoutMs: 90_000 });
        expect(readyCondition(unknown)?.reason).toBe('NodeStatusUnknown');
        await plane.waitForNode('i3', 'True');
      }
    });

    test('K1: no Lease is made or renewed, and the status is reported as ever', async () => {
      await startNode('k1', { enableNodeLease: false, statusReportMs: 5_000 });
      const first = readyCondition(await plane.node('k1'));
      await plane.waitFor('its next report', async () => {
        const now = readyCondition(await plane.node('k1'));
        return now?.status === 'True' && now.lastHeartbeatTime !== first?.lastHeartbeatTime;
      });
      await writeUnknown(plane.client, 'k1');
      await plane.waitForNode('k1', 'True');
      expect((await plane.respond('GET', nodeLeasePath('k1'))).status).toBe(404);
    });
  });
});
