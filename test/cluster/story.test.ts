import { afterAll, beforeAll, expect, test } from 'vitest';

import { startControlPlane, type ControlPlane, type Kubelet } from './control-plane.ts';
import { Farpulse } from './farpulse.ts';
import { DETECTOR } from './least-privilege.ts';
import { readyCondition } from './objects.ts';
import { Stage } from './stage.ts';

/*
 * The story of the README against the real thing: etcd, kube-apiserver, kube-controller-manager, four hollow
 * kubelets, four beacon processes, the Worker in workerd. KCM's own patience is ten minutes, so that whatever happens
 * to a node within seconds is farpulse's doing. The tests are chapters: each begins where the one before it ended.
 */

const NAMES = ['node-1', 'node-2', 'node-3', 'node-4'] as const;
/** All nodes but those of the second cluster. */
const SELECTED = { nodeSelector: '!test/cluster' };
const COMPAT = { mode: 'compat', ...SELECTED };

/** A second cluster for what is to be seen without Lease evidence too: same beats, smaller kubelets. */
const WITHOUT_LEASES = {
  nodes: 4,
  kubelet: { enableNodeLease: false },
  settings: { intervalSeconds: 10, marginSeconds: 2, leaseEvidence: 'off' },
};

/** Silent 22 s after the last beat; a verdict that comes later than this has no excuse. */
const NOTICE_MS = 45_000;

let plane: ControlPlane;
let farpulse: Farpulse;
let stage: Stage<'without-leases'>;
const kubelets = new Map<string, Kubelet>();

function kubelet(name: string): Kubelet {
  const found = kubelets.get(name);
  if (found === undefined) throw new Error(`no kubelet ${name}`);
  return found;
}

/** kill -9 of everything on a node that speaks. */
async function killNode(name: string): Promise<void> {
  await Promise.all([kubelet(name).kill(), farpulse.beacon(kubelet(name)).kill()]);
}

async function startNode(name: string): Promise<void> {
  if (!kubelet(name).running) await kubelet(name).start();
  await farpulse.beacon(kubelet(name)).start();
}

async function allWell(): Promise<void> {
  await farpulse.waitForCluster(
    'judging, with every node alive',
    ({ state, nodesByPhase }) => state === 'judging' && nodesByPhase.alive === NAMES.length,
    240_000,
  );
}

async function taintsOf(name: string): Promise<string[]> {
  const { spec } = await plane.node(name);
  return (spec?.taints ?? []).map(({ key, effect }) => `${key}:${effect}`).toSorted();
}

beforeAll(async () => {
  plane = await startControlPlane({
    nodeMonitorGracePeriodSeconds: 600,
    nodeNames: NAMES,
    auditUsers: [DETECTOR],
  });
  farpulse = await Farpulse.create(plane);
  await farpulse.startWorker(COMPAT);
  for (const name of NAMES) kubelets.set(name, await plane.startKubelet(name, { zone: 'zone-a' }));
  await plane.createService('web', { app: 'web' });
  for (const name of NAMES) {
    await plane.createPod(`web-${name}`, name, { labels: { app: 'web' } });
    await plane.waitForLease(name);
    await farpulse.beacon(kubelet(name)).start();
  }
  await plane.waitFor(
    'an endpoint on every node',
    async () => (await plane.readyEndpoints('web')).length === NAMES.length,
  );
  await allWell();
  stage = await Stage.set({ plane, mode: 'compat', clusters: { 'without-leases': WITHOUT_LEASES } });
}, 1_500_000);

afterAll(async () => {
  await stage?.strike();
  await farpulse?.stop();
  await plane?.stop();
}, 60_000);

test('a dead node is written Unknown, its pods and endpoints go, it is tainted, and nobody else is touched', async () => {
  const before = readyCondition(await plane.node('node-2'));
  await killNode('node-2');

  const after = readyCondition(await plane.waitForNode('node-2', 'Unknown', { timeoutMs: NOTICE_MS }));
  expect(after?.reason).toBe('FarpulseHostSilent');
  expect(after?.message).toContain('no beat for');
  expect(after?.lastHeartbeatTime).toBe(before?.lastHeartbeatTime);
  await plane.waitForPod('web-node-2', 'False');
  await plane.waitFor(
    'its endpoint to be gone',
    async () => !(await plane.readyEndpoints('web')).includes('web-node-2'),
  );
  await plane.waitFor('both taints', async (note) => {
    const taints = await taintsOf('node-2');
    note(taints);
    return taints.length === 2;
  });
  expect(await taintsOf('node-2')).toEqual([
    'node.kubernetes.io/unreachable:NoExecute',
    'node.kubernetes.io/unreachable:NoSchedule',
  ]);
  const down = await farpulse.waitForPhase('node-2', 'down');
  expect(down.episode?.write).toMatchObject({ outcome: 'written', reason: 'FarpulseHostSilent' });
  await farpulse.waitForNode('node-2', 'done with its pods', (node) => node.episode?.write?.podsMarked === 1);

  for (const name of NAMES.filter((other) => other !== 'node-2')) {
    expect(readyCondition(await plane.node(name))?.status).toBe('True');
    expect(await taintsOf(name)).toEqual([]);
  }
  expect(await farpulse.writes()).toEqual(['patch nodes/status node-2', 'patch pods/status web-node-2']);
});

test('started again, it comes back by its own kubelet, and farpulse writes nothing', async () => {
  const written = await farpulse.writes();
  await startNode('node-2');
  await plane.waitForNode('node-2', 'True');
  await plane.waitForPod('web-node-2', 'True');
  await plane.waitFor('its endpoint', async () => (await plane.readyEndpoints('web')).includes('web-node-2'));
  await plane.waitFor('its taints to go', async () => (await taintsOf('node-2')).length === 0);
  const back = await farpulse.waitForPhase('node-2', 'alive');
  expect(back.episode?.returnedAt).toBeDefined();
  expect(await farpulse.writes()).toEqual(written);
});

test('a node whose beacon alone is gone is watched, not written', async () => {
  const written = await farpulse.writes();
  await farpulse.beacon(kubelet('node-3')).kill();
  const watched = await farpulse.waitForPhase('node-3', 'watched');
  expect(watched.cause).toBe('beacon-lost');
  const { alerts } = await farpulse.status.cluster();
  expect(alerts).toContainEqual(expect.objectContaining({ code: 'beacon-lost', node: 'node-3' }));
  // Its second pulse is compared for longer than the silence that would count: it must stay watched.
  const stillWatched = await farpulse.waitForNode(
    'node-3',
    'watched for 100 s',
    ({ phase, lastHeard }) =>
      phase !== 'watched' || lastHeard.every(({ heardAgoSeconds }) => heardAgoSeconds > 120),
    180_000,
  );
  expect(stillWatched.phase).toBe('watched');
  expect(stillWatched.lastHeard).toHaveLength(3);
  expect(readyCondition(await plane.node('node-3'))?.status).toBe('True');
  expect(await farpulse.writes()).toEqual(written);

  await startNode('node-3');
  await farpulse.waitForPhase('node-3', 'alive');
});

test('a node whose kubelet alone is gone is written as kubelet-down', async () => {
  await kubelet('node-4').kill();
  const after = readyCondition(
    await plane.waitForNode('node-4', 'Unknown', { timeoutMs: NOTICE_MS + 20_000 }),
  );
  expect(after?.reason).toBe('FarpulseKubeletDown');
  const down = await farpulse.waitForPhase('node-4', 'down');
  expect(down.cause).toBe('kubelet-down');
  await plane.waitForPod('web-node-4', 'False');

  await startNode('node-4');
  await plane.waitForNode('node-4', 'True');
  await farpulse.waitForPhase('node-4', 'alive');
});

test(
  'a Worker that was away for two minutes writes nothing when it is back, with Lease evidence and without',
  { timeout: 600_000 },
  async () => {
    const written = await farpulse.writes();
    const { door } = stage.cluster('without-leases');
    const goneAtMs = Date.now();
    await Promise.all([farpulse.stopWorker(), stage.stopWorker()]);
    await plane.waitFor('two minutes to pass', () => Date.now() - goneAtMs >= 120_000, {
      timeoutMs: 130_000,
      intervalMs: 500,
    });
    await Promise.all([farpulse.startWorker(COMPAT), stage.startWorker()]);
    const bothWell = (): Promise<unknown> =>
      Promise.all([allWell(), stage.cluster('without-leases').untilAlive(240_000)]);
    await bothWell();
    // Every node was judged on fresh beats since; one full deadline more, and whoever was wrongly suspected would be written.
    const wellAtMs = Date.now();
    await plane.waitFor('a full deadline to pass', () => Date.now() - wellAtMs >= 25_000, {
      intervalMs: 500,
    });
    await bothWell();
    expect(await farpulse.writes()).toEqual(written);
    expect(door.written()).toEqual([]);
  },
);

test(
  'when nobody is heard any more, nothing is written, and the cluster is held and says so',
  { timeout: 600_000 },
  async () => {
    const written = await farpulse.writes();
    const direct = farpulse.cutBeacons();
    const held = await farpulse.waitForCluster('held', ({ state }) => state === 'hold', 60_000, direct);
    expect(held.hold?.nodes.length).toBeGreaterThan(0);
    expect(held.alerts.map(({ code }) => code)).toContain('hold');
    await farpulse.waitForNode(
      'node-1',
      'silent for 60 s',
      ({ lastHeard }) => lastHeard.every(({ heardAgoSeconds }) => heardAgoSeconds > 60),
      180_000,
      direct,
    );
    expect((await direct.cluster()).state).toBe('hold');
    for (const name of NAMES) expect(readyCondition(await plane.node(name))?.status).toBe('True');
    expect(await farpulse.writes()).toEqual(written);

    farpulse.mendBeacons();
    await farpulse.waitForCluster('out of its hold', ({ state }) => state !== 'hold', 180_000);
    expect(await farpulse.writes()).toEqual(written);
  },
);

test(
  'observe mode: the same death writes nothing and shows what would have been written',
  { timeout: 600_000 },
  async () => {
    const written = await farpulse.writes();
    await farpulse.restartWorker({ mode: 'observe', ...SELECTED });
    await allWell();
    await killNode('node-2');
    const down = await farpulse.waitForPhase('node-2', 'down', NOTICE_MS);
    expect(down.episode?.write).toMatchObject({ outcome: 'would-write', reason: 'FarpulseHostSilent' });
    expect(readyCondition(await plane.node('node-2'))?.status).toBe('True');
    expect(await farpulse.writes()).toEqual(written);
  },
);
