import { afterAll, beforeAll, expect, test, vi } from 'vitest';

import type { Passing } from './api-door.ts';
import { startControlPlane, type ControlPlane } from './control-plane.ts';
import { readyCondition, type Condition, type Node } from './objects.ts';
import { Stage } from './stage.ts';
import { DEPLOYMENT, type ClusterPlan, type StagedNode } from './staged-cluster.ts';
import { createReadyPod, writeNodeCondition } from './status-writer.ts';

/*
 * KEP-6371's contract, row by row: the production Worker in workerd against a real API server and the real
 * kube-controller-manager. Every row has a small cluster of its own, so that all of them happen at once; what must
 * happen between two requests is done at the cluster's door. The long way of a death is told by story.test.ts.
 */

const WITHOUT_LEASES = { kubelet: { enableNodeLease: false } };
const OUR_LEASE = { lease: 'farpulse-detector' };
const OUR_LEASE_PATH = '/apis/coordination.k8s.io/v1/namespaces/farpulse/leases/farpulse-detector';
const CLUSTERS = {
  dead: { nodes: 3 },
  'from-false': { nodes: 3 },
  'never-ready': { nodes: 3, kubelet: { postsReady: false } },
  stream: { nodes: 3 },
  'true-between': { nodes: 3 },
  'back-at-once': { nodes: 3 },
  'watch-broken-before': { nodes: 3, ...WITHOUT_LEASES },
  'watch-broken-after': { nodes: 3, ...WITHOUT_LEASES },
  deleted: { nodes: 3 },
  recreated: { nodes: 3 },
  'lease-less': { nodes: 3, ...WITHOUT_LEASES },
  contradicted: { nodes: 3 },
  canary: { nodes: 5, ...WITHOUT_LEASES },
  deployment: { nodes: 3, settings: OUR_LEASE },
  'another-deployment': { nodes: 3, nodesOf: 'deployment', settings: OUR_LEASE },
  // Asserted over a controller that listens to kubelets.
  'wrong-mode': { nodes: 5, settings: { mode: 'external' } },
  breaker: { nodes: 6, ...WITHOUT_LEASES, zoneOf: (number) => (number <= 3 ? 'breaker-a' : 'breaker-b') },
} as const satisfies Record<string, ClusterPlan>;

// All of them, and nearly all of their time is waiting.
vi.setConfig({ maxConcurrency: Object.keys(CLUSTERS).length });

let plane: ControlPlane;
let stage: Stage<keyof typeof CLUSTERS>;

beforeAll(async () => {
  plane = await startControlPlane({
    // So that whatever happens to a node here is farpulse's doing.
    nodeMonitorGracePeriodSeconds: 600,
    nodeStartupGracePeriodSeconds: 600,
  });
  stage = await Stage.set({ plane, mode: 'compat', clusters: CLUSTERS });
}, 300_000);

afterAll(async () => {
  await stage?.strike();
  await plane?.stop();
}, 60_000);

function statusOf({ name }: StagedNode): string {
  return `nodes/${name}/status`;
}

async function readyOf({ name }: StagedNode): Promise<Condition | undefined> {
  return readyCondition(await plane.node(name));
}

/** Runs once, at the first write of that Node's status. */
function onFirstWrite(node: StagedNode, run: () => Promise<unknown>): (passing: Passing) => Promise<void> {
  let isFirst = true;
  return async ({ path }) => {
    if (!isFirst || !path.endsWith(statusOf(node))) return;
    isFirst = false;
    await run();
  };
}

/** Several timeouts and the first look after a write: whoever would write again has done so by then. */
async function longEnough(): Promise<void> {
  const startedAtMs = performance.now();
  await plane.waitFor('several timeouts to pass', () => performance.now() - startedAtMs >= 25_000, {
    intervalMs: 250,
  });
}

/** All of a Node but what farpulse's write may change, and what others make of it. */
function restOf({ metadata, status }: Node): object {
  const {
    resourceVersion: _r,
    managedFields: _m,
    ...kept
  } = metadata as Node['metadata'] & {
    readonly managedFields?: unknown;
  };
  const conditions = status.conditions?.filter(({ type }) => type !== 'Ready');
  return { metadata: kept, status: { ...status, conditions } };
}

test.concurrent('a write has a reason, whole seconds and the copy it was made for, and changes nothing else', async () => {
  const cluster = stage.cluster('dead');
  const node = cluster.node(1);
  cluster.killNode(node);
  const before = await plane.node(node.name);
  const after = await plane.waitForNode(node.name, 'Unknown', { timeoutMs: 60_000 });

  const [written] = cluster.door.passed.filter(({ path }) => path.endsWith(statusOf(node)));
  const { lastTransitionTime } = readyCondition(after) ?? {};
  expect(lastTransitionTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  expect(written?.body).toEqual({
    metadata: { uid: before.metadata.uid, resourceVersion: before.metadata.resourceVersion },
    status: {
      conditions: [
        {
          type: 'Ready',
          status: 'Unknown',
          reason: 'FarpulseHostSilent',
          message: expect.stringMatching(/^no beat for [\d.]+ s in /),
          lastTransitionTime,
        },
      ],
    },
  });
  expect(readyCondition(after)?.lastHeartbeatTime).toBe(readyCondition(before)?.lastHeartbeatTime);
  expect(JSON.stringify(restOf(after))).toBe(JSON.stringify(restOf(before)));

  // Silent for ever is written once: the time of the transition stays that of the transition.
  await longEnough();
  expect((await readyOf(node))?.lastTransitionTime).toBe(lastTransitionTime);
  expect(cluster.door.written('nodes/')).toEqual([`PATCH ${statusOf(node)} 200`]);
});

test.concurrent('False becomes Unknown', async () => {
  const cluster = stage.cluster('from-false');
  const node = cluster.node(1);
  await node.kubelet.setReady(false);
  cluster.killNode(node);
  const before = await readyOf(node);
  expect(before?.status).toBe('False');
  const after = readyCondition(await plane.waitForNode(node.name, 'Unknown', { timeoutMs: 60_000 }));
  expect(after?.lastHeartbeatTime).toBe(before?.lastHeartbeatTime);
});

test.concurrent('a node that never had a Ready condition is not written', async () => {
  const cluster = stage.cluster('never-ready');
  const node = cluster.node(1);
  cluster.killNode(node);
  await cluster.untilNode(node, 'taken for starting', ({ why }) =>
    why.includes('never had a Ready condition'),
  );
  await longEnough();
  expect(await readyOf(node)).toBeUndefined();
  expect(cluster.door.written()).toEqual([]);
});

test.concurrent('other writers of the status come first: read and judged again, and theirs is kept', async () => {
  const cluster = stage.cluster('stream');
  const node = cluster.node(1);
  let writers = 0;
  cluster.door.before = async ({ path }) => {
    if (!path.endsWith(statusOf(node)) || writers === 3) return;
    writers += 1;
    const status = 'False';
    await writeNodeCondition(plane.client, node.name, {
      type: 'DiskSlow',
      status,
      message: `look ${writers}`,
    });
  };
  cluster.killNode(node);
  const after = await plane.waitForNode(node.name, 'Unknown', { timeoutMs: 90_000 });
  expect(after.status.conditions).toContainEqual(
    expect.objectContaining({ type: 'DiskSlow', message: 'look 3' }),
  );
  await cluster.untilPhase(node, 'down');
  const patch = `PATCH ${statusOf(node)}`;
  expect(cluster.door.written('nodes/')).toEqual([
    `${patch} 409`,
    `${patch} 409`,
    `${patch} 409`,
    `${patch} 200`,
  ]);
});

test.concurrent('a kubelet that writes True between our read and our write is not overwritten', async () => {
  const cluster = stage.cluster('true-between');
  const node = cluster.node(1);
  cluster.door.before = onFirstWrite(node, () => node.kubelet.start());
  cluster.killNode(node);
  const watched = await cluster.untilPhase(node, 'watched');
  expect(watched.cause).toBe('beacon-lost');
  await longEnough();
  expect((await readyOf(node))?.status).toBe('True');
  expect(cluster.door.written()).toEqual([`PATCH ${statusOf(node)} 409`]);
});

test.concurrent('a kubelet that is back at once keeps its node and its pods', async () => {
  const cluster = stage.cluster('back-at-once');
  const node = cluster.node(1);
  await createReadyPod(plane.client, 'back-at-once', node.name);
  cluster.door.after = onFirstWrite(node, () => node.kubelet.start());
  cluster.killNode(node);
  const watched = await cluster.untilPhase(node, 'watched');
  expect(watched.cause).toBe('contradicted');
  await longEnough();
  expect((await readyOf(node))?.status).toBe('True');
  await plane.waitForPod('back-at-once', 'True');
  expect(cluster.door.written()).toEqual([`PATCH ${statusOf(node)} 200`]);
});

test.concurrent('a kubelet that only moves lastHeartbeatTime is alive: not written', async () => {
  const cluster = stage.cluster('watch-broken-before');
  const node = cluster.node(1);
  await node.kubelet.breakWatch();
  cluster.door.before = onFirstWrite(node, () => node.kubelet.report());
  node.beacon.kill();
  await cluster.untilPhase(node, 'watched');
  await longEnough();
  expect((await readyOf(node))?.status).toBe('True');
  expect(cluster.door.written()).toEqual([`PATCH ${statusOf(node)} 409`]);
});

test.concurrent('a kubelet that only moves lastHeartbeatTime after our write is not written again', async () => {
  const cluster = stage.cluster('watch-broken-after');
  const node = cluster.node(1);
  await node.kubelet.breakWatch();
  const before = await readyOf(node);
  node.beacon.kill();
  await cluster.untilPhase(node, 'down');
  const written = await readyOf(node);
  await node.kubelet.report();
  await longEnough();
  const { lastHeartbeatTime, ...after } = (await readyOf(node)) ?? {};
  expect(written).toEqual({ ...after, lastHeartbeatTime: before?.lastHeartbeatTime });
  expect(lastHeartbeatTime).not.toBe(before?.lastHeartbeatTime);
  expect(cluster.door.written('nodes/')).toEqual([`PATCH ${statusOf(node)} 200`]);
});

test.concurrent('a Node that is deleted meanwhile stays deleted, and is forgotten', async () => {
  const cluster = stage.cluster('deleted');
  const node = cluster.node(1);
  cluster.door.before = onFirstWrite(node, () => plane.request('DELETE', `/api/v1/nodes/${node.name}`));
  cluster.killNode(node);
  await cluster.until('without it', ({ inventory }) => inventory.nodes === cluster.nodes.length - 1);
  expect((await plane.respond('GET', `/api/v1/nodes/${node.name}`)).status).toBe(404);
  expect(cluster.door.written()).toEqual([`PATCH ${statusOf(node)} 404`]);
});

test.concurrent('a Node made anew under the same name is not blamed for the silence of the old one', async () => {
  const cluster = stage.cluster('recreated');
  const node = cluster.node(1);
  const old = (await plane.node(node.name)).metadata.uid;
  cluster.door.before = onFirstWrite(node, async () => {
    await plane.request('DELETE', `/api/v1/nodes/${node.name}`);
    await node.kubelet.start();
    await cluster.annotate(node.name, node.beacon);
  });
  cluster.killNode(node);
  await cluster.untilNode(node, 'another instance', ({ uid }) => uid !== old);
  await longEnough();
  expect((await readyOf(node))?.status).toBe('True');
  expect(cluster.door.written()).toEqual([`PATCH ${statusOf(node)} 409`]);
});

test.concurrent('without Leases: a dead node is written, and comes back by its own kubelet', async () => {
  const cluster = stage.cluster('lease-less');
  const node = cluster.node(1);
  cluster.killNode(node);
  await cluster.untilPhase(node, 'down');
  expect((await readyOf(node))?.status).toBe('Unknown');
  await cluster.startNode(node);
  await cluster.untilPhase(node, 'alive');
  expect((await readyOf(node))?.status).toBe('True');
  expect(cluster.door.written('nodes/')).toEqual([`PATCH ${statusOf(node)} 200`]);
});

test.concurrent('a live kubelet whose Lease and beacon hang takes our Unknown back: no second write', async () => {
  const cluster = stage.cluster('contradicted');
  const node = cluster.node(1);
  node.kubelet.stopRenewing();
  node.beacon.kill();
  const watched = await cluster.untilPhase(node, 'watched', 90_000);
  expect(watched.cause).toBe('contradicted');
  await longEnough();
  expect((await readyOf(node))?.status).toBe('True');
  expect(cluster.door.written('nodes/')).toEqual([`PATCH ${statusOf(node)} 200`]);
});

test.concurrent('without Leases one of a zone is written first, and a contradiction saves the others', async () => {
  const cluster = stage.cluster('canary');
  const silent = [cluster.node(1), cluster.node(2)];
  for (const node of silent) node.beacon.kill();
  const { alerts } = await cluster.until(
    'warned by the canary',
    ({ nodesByPhase }) => nodesByPhase.watched === silent.length,
    120_000,
  );
  expect(alerts.map(({ code }) => code).toSorted()).toEqual(['contradicted', 'edge-path-cut']);
  await longEnough();
  for (const node of silent) expect((await readyOf(node))?.status).toBe('True');
  expect(cluster.door.written('nodes/')).toHaveLength(1);
});

test.concurrent('two contradictions open the breaker, also for a node that is dead', async () => {
  const cluster = stage.cluster('breaker');
  // Canaries of two zones: neither waits for the other.
  for (const node of [cluster.node(1), cluster.node(4)]) node.beacon.kill();
  const { alerts } = await cluster.until(
    'behind a breaker',
    ({ state }) => state === 'breaker-open',
    120_000,
  );
  expect(alerts.map(({ code }) => code)).toContain('breaker-open');
  const dead = cluster.node(2);
  cluster.killNode(dead);
  await cluster.untilNode(dead, 'kept from a verdict', ({ why }) => why.includes('contradicted us twice'));
  await longEnough();
  expect((await readyOf(dead))?.status).toBe('True');
  expect(cluster.door.written('nodes/').toSorted()).toEqual([
    `PATCH ${statusOf(cluster.node(1))} 200`,
    `PATCH ${statusOf(cluster.node(4))} 200`,
  ]);
});

test.concurrent('external mode over a controller in kubelet mode is found by the pods of the first node written', async () => {
  const cluster = stage.cluster('wrong-mode');
  const [first, second] = [cluster.node(1), cluster.node(2)];
  await createReadyPod(plane.client, 'wrong-mode', first.name);
  cluster.killNode(first);
  const { state, hold } = await cluster.until(
    'held for its mode',
    ({ alerts }) => alerts.some(({ code, node }) => code === 'wrong-mode' && node === first.name),
    120_000,
  );
  expect(state).toBe('hold');
  expect(hold).toMatchObject({ kind: 'mode', nodes: [first.name] });
  cluster.killNode(second);
  await cluster.untilNode(second, 'kept from a verdict', ({ why }) => why.includes('did not act on'));
  await longEnough();
  expect((await readyOf(second))?.status).toBe('True');
  expect(cluster.door.written()).toEqual([`PATCH ${statusOf(first)} 200`]);
});

test.concurrent('two deployments by mistake: one holds the Lease and writes, the other stands down and says so', async () => {
  const both = [stage.cluster('deployment'), stage.cluster('another-deployment')] as const;
  const node = both[0].node(1);
  const holder = await plane.waitFor('a holder of our Lease', async () => {
    const lease = await plane.request<{ readonly spec: { readonly holderIdentity?: string } }>(
      'GET',
      OUR_LEASE_PATH,
    );
    return lease.spec.holderIdentity;
  });
  const holds = both.find(({ name }) => holder === `${DEPLOYMENT}/${name}`);
  const standsDown = both.find((cluster) => cluster !== holds);
  if (holds === undefined || standsDown === undefined) throw new Error(`the Lease is ${holder}'s`);
  const { state, why } = await standsDown.until('standing down', ({ alerts }) =>
    alerts.some(({ code }) => code === 'another-detector'),
  );
  expect({ state, why }).toEqual({ state: 'hold', why: expect.stringContaining(holder) as string });

  for (const cluster of both) cluster.killNode(cluster.node(1));
  await holds.untilPhase(holds.node(1), 'down');
  await standsDown.untilNode(standsDown.node(1), 'left to the other', ({ why: said }) =>
    said.includes(holder),
  );
  await longEnough();
  expect(holds.door.written('nodes/')).toEqual([`PATCH ${statusOf(node)} 200`]);
  expect(standsDown.door.written()).toEqual([]);

  const before = holds.door.written();
  for (const cluster of both) await cluster.startNode(cluster.node(1));
  await Promise.all(both.map((cluster) => cluster.untilPhase(cluster.node(1), 'alive')));
  await longEnough();
  expect((await readyOf(node))?.status).toBe('True');
  expect(holds.door.written()).toEqual(before);
});
