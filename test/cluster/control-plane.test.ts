// The rig itself: what every other test of this folder stands on.
import { existsSync } from 'node:fs';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { startControlPlane, type ControlPlane, type Kubelet } from './control-plane.ts';
import { lifecycleTaints, readyCondition } from './objects.ts';
import { KEEP_LOGS } from './plane.ts';
import { Timeline } from './timeline.ts';

// Above a kubelet's 10 s between two signs of life, with room for the API server's restart below: less,
// and the controller calls a live node dead.
const GRACE_SECONDS = 18;

describe('a real control plane with a hollow node', () => {
  let plane: ControlPlane;
  let kubelet: Kubelet;

  beforeAll(async () => {
    plane = await startControlPlane({
      nodeMonitorGracePeriodSeconds: GRACE_SECONDS,
      nodeMonitorPeriodSeconds: 1,
      nodeNames: ['node-1', 'node-2'],
      extraTokens: [{ user: 'watcher' }],
      auditUsers: ['watcher'],
    });
    kubelet = await plane.startKubelet('node-1', { zone: 'zone-a' });
  });

  afterAll(async () => {
    await plane?.stop();
  });

  it('registers the node with its zone, and its Lease', async () => {
    const node = await plane.node('node-1');
    expect(node.metadata.labels).toMatchObject({ 'topology.kubernetes.io/zone': 'zone-a' });
    expect(readyCondition(node)).toMatchObject({ status: 'True', reason: 'KubeletReady' });
    const lease = await plane.waitForLease('node-1');
    expect(lease.spec.holderIdentity).toBe('node-1');
  });

  it('runs a pod, and the Service finds it', async () => {
    await plane.createService('web', { app: 'web' });
    await plane.createPod('web-1', 'node-1', { labels: { app: 'web' } });
    const pod = await plane.waitForPod('web-1', 'True');
    expect(pod.status.phase).toBe('Running');
    const ready = await plane.waitFor('the endpoint of web-1', async () => {
      const names = await plane.readyEndpoints('web');
      return names.length > 0 && names;
    });
    expect(ready).toEqual(['web-1']);
  });

  it('lets a kubelet annotate its own Node and no other', async () => {
    await plane.request('POST', '/api/v1/nodes', { metadata: { name: 'node-2' } });
    const client = plane.client.as(plane.tokenOf('system:node:node-1'));
    const patch = { metadata: { annotations: { 'farpulse/beacon-key': 'a' } } };
    const merge = { 'content-type': 'application/merge-patch+json' };
    expect((await client.respond('PATCH', '/api/v1/nodes/node-1', patch, merge)).status).toBe(200);
    expect((await client.respond('PATCH', '/api/v1/nodes/node-2', patch, merge)).status).toBe(403);
    client.close();
    await plane.request('DELETE', '/api/v1/nodes/node-2');
    expect(
      await plane.kubectl(
        'get',
        'node',
        'node-1',
        '-o',
        'jsonpath={.metadata.annotations.farpulse/beacon-key}',
      ),
    ).toBe('a');
  });

  it('tells what an audited account has asked', async () => {
    const client = plane.client.as(plane.tokenOf('watcher'));
    expect((await client.respond('DELETE', '/api/v1/nodes/node-1')).status).toBe(403);
    client.close();
    expect(await plane.auditLog()).toMatchObject([
      { verb: 'delete', objectRef: { resource: 'nodes', name: 'node-1' }, responseStatus: { code: 403 } },
    ]);
  });

  it('comes back on the same port after the API server was ended', async () => {
    await plane.stopApiServer();
    await expect(plane.node('node-1')).rejects.toThrow(/ECONNREFUSED|ECONNRESET|socket hang up/);
    await plane.startApiServer();
    expect((await plane.node('node-1')).metadata.name).toBe('node-1');
  });

  it('writes Unknown some time after a kubelet is killed, and True when it is back', async () => {
    await plane.waitForNode('node-1', 'True');
    const timeline = await Timeline.record(plane.client, { nodeName: 'node-1', service: 'web' });
    try {
      await kubelet.kill();
      expect(await kubelet.isHealthy()).toBe(false);
      const lease = await plane.waitForLease('node-1');
      const unknown = await timeline.until(
        'Unknown',
        ({ what, value }) => what === 'node-ready' && value === 'Unknown',
      );
      expect(unknown.reason).toBe('NodeStatusUnknown');
      const lastRenewedAtMs = Date.parse(lease.spec.renewTime ?? '');
      expect(unknown.atMs - lastRenewedAtMs).toBeGreaterThanOrEqual(GRACE_SECONDS * 1000);
      await timeline.until(
        'web-1 to leave the endpoints',
        ({ what, value }) => what === 'endpoints' && value === '',
      );
      await timeline.until(
        'the taint',
        ({ what, value }) => what === 'node-taints' && value.includes('unreachable'),
      );

      await kubelet.start();
      const node = await plane.waitForNode('node-1', 'True');
      expect(readyCondition(node)?.reason).toBe('KubeletReady');
      await plane.waitFor('the taints to go', async (note) => {
        const taints = lifecycleTaints(await plane.node('node-1'));
        note(taints);
        return taints.length === 0;
      });
      await plane.waitForPod('web-1', 'True');
    } finally {
      await timeline.stop();
    }
  });

  it('ends all it has started and removes its folder', async () => {
    const pids = [
      plane.pidOf('etcd'),
      plane.pidOf('kube-apiserver'),
      plane.pidOf('kube-controller-manager'),
      kubelet.pid,
    ];
    await plane.stop();
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH');
    expect(existsSync(plane.folder)).toBe(KEEP_LOGS);
  });
});
