// Every verb of the adapter, against the same API.
import { expect } from 'vitest';

import type { ClusterResult } from '../../worker/core/cluster-port.ts';
import {
  condition,
  EARLIER,
  LATER,
  LEASES,
  MERGE,
  OWN_LEASES,
  nodeConditions,
  ok,
  PODS,
  type TableContext,
} from './api-table-context.ts';
import type { ApiCase } from './api-table.ts';
import type { Pod } from './objects.ts';

const ABSENT_UID = '00000000-0000-0000-0000-000000000000';
const UNKNOWN = {
  reason: 'FarpulseHostSilent',
  message: 'no beat for 22 s, seen by weur, enam',
  lastTransitionTime: LATER,
};

export const ADAPTER_CASES: readonly ApiCase[] = [
  {
    name: 'listNodes: metadata of the selected nodes',
    async run(c) {
      const group = c.unique('group');
      const { name, uid } = (await c.createNode({ labels: { group } })).metadata;
      await c.createNode();
      await ok(c.admin('PATCH', `/api/v1/nodes/${name}`, { metadata: { annotations: { key: 'x' } } }, MERGE));
      const cluster = c.cluster({ nodeSelector: `group=${group}` });
      // The list comes from the watch cache, which may be a moment behind.
      await expect
        .poll(() => cluster.listNodes(), { timeout: 10_000 })
        .toMatchObject({ kind: 'ok', value: [{ name, uid, labels: { group }, annotations: { key: 'x' } }] });
    },
  },
  {
    name: 'listNodes: a selector that is none is invalid',
    async run(c) {
      const failed = await c.cluster({ nodeSelector: 'a b' }).listNodes();
      expect(failed).toMatchObject({
        kind: 'invalid',
        status: 400,
        why: expect.stringContaining("found 'b'"),
      });
    },
  },
  {
    name: 'readNode: what a verdict needs',
    async run(c) {
      const { name, uid, resourceVersion } = (await c.createNode({ labels: { zone: 'z1' } })).metadata;
      expect(await c.cluster().readNode(name)).toEqual({
        kind: 'ok',
        value: {
          name,
          uid,
          resourceVersion,
          ready: {
            status: 'True',
            reason: 'KubeletReady',
            message: 'ready',
            lastTransitionTime: EARLIER,
            lastHeartbeatTime: EARLIER,
          },
          labels: expect.objectContaining({ zone: 'z1' }),
          annotations: {},
          unschedulable: false,
        },
      });
    },
  },
  {
    name: 'readNode: a node that never had a Ready condition, and is cordoned',
    async run(c) {
      const { name } = (await c.createNode({ conditions: nodeConditions().slice(0, 1) })).metadata;
      await ok(c.admin('PATCH', `/api/v1/nodes/${name}`, { spec: { unschedulable: true } }, MERGE));
      const node = value(await c.cluster().readNode(name));
      expect(node).toMatchObject({ ready: undefined, unschedulable: true });
    },
  },
  {
    name: 'readNode: the server time of the last writer of heartbeats, which our own write does not move',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      const beat = { status: { conditions: [{ type: 'Ready', lastHeartbeatTime: LATER }] } };
      const before = Math.floor(Date.now() / 1000) * 1000;
      await ok(c.patchStatus(name, beat, '?fieldManager=any-name-of-a-kubelet'));
      const { kubeletWroteAtMs, uid, resourceVersion } = value(await c.cluster().readNode(name));
      expect(kubeletWroteAtMs).toBeGreaterThanOrEqual(before);
      expect(kubeletWroteAtMs).toBeLessThanOrEqual(Date.now());
      value(await c.cluster().patchReadyUnknown({ node: name, uid, resourceVersion, ...UNKNOWN }));
      expect(value(await c.cluster().readNode(name)).kubeletWroteAtMs).toBe(kubeletWroteAtMs);
    },
  },
  {
    name: 'readNode and readLease: absent is not found',
    async run(c) {
      expect(await c.cluster().readNode(c.unique())).toEqual({ kind: 'not-found' });
      expect(await c.cluster().readLease(c.unique())).toEqual({ kind: 'not-found' });
    },
  },
  {
    name: 'readLease: the renewal in milliseconds, undefined when never renewed',
    async run(c) {
      const name = c.unique();
      await c.createLease(name, { holderIdentity: name });
      expect(await c.cluster().readLease(name)).toEqual({
        kind: 'ok',
        value: { node: name, renewTimeMs: undefined },
      });
      const spec = { renewTime: '2026-01-01T00:00:00.123456Z' };
      await ok(c.admin('PATCH', `${LEASES}/${name}`, { spec }, MERGE));
      const renewTimeMs = Date.parse('2026-01-01T00:00:00.123Z');
      expect(await c.cluster().readLease(name)).toEqual({ kind: 'ok', value: { node: name, renewTimeMs } });
    },
  },
  {
    name: 'our own Lease: taken when nobody holds it, renewed on exactly the copy that was read',
    async run(c) {
      const name = c.unique('own-lease');
      const cluster = c.cluster({ ownLease: name });
      expect(await cluster.readOwnLease()).toEqual({ kind: 'not-found' });
      const namespace = { metadata: { name: 'farpulse' } };
      await c.admin('POST', '/api/v1/namespaces', namespace);
      await ok(c.admin('POST', OWN_LEASES, { metadata: { name }, spec: {} }));
      const before = value(await cluster.readOwnLease());
      expect(before).toEqual({
        resourceVersion: expect.any(String) as string,
        holder: undefined,
        renewTimeMs: undefined,
      });
      const { resourceVersion } = before;
      const renewal = { resourceVersion, holder: 'test/prod', renewTimeMs: Date.parse(LATER) + 7 };
      const renewed = value(await cluster.renewOwnLease(renewal));
      expect(await cluster.readOwnLease()).toEqual({ kind: 'ok', value: { ...renewal, ...renewed } });
      expect(await cluster.renewOwnLease(renewal)).toMatchObject({ kind: 'conflict' });
      const absent = await c.cluster({ ownLease: c.unique() }).renewOwnLease(renewal);
      expect(absent).toEqual({ kind: 'not-found' });
    },
  },
  {
    name: 'listLeases: all of more than one page',
    async run(c) {
      const made = Array.from({ length: 501 }, () => c.unique('lease'));
      for (let i = 0; i < made.length; i += 20) {
        await Promise.all(made.slice(i, i + 20).map((name) => c.createLease(name, { holderIdentity: name })));
      }
      const listed = new Set(value(await c.cluster().listLeases()).map(({ node }) => node));
      expect(made.filter((name) => !listed.has(name))).toEqual([]);
    },
  },
  {
    name: 'patchReadyUnknown: Ready becomes Unknown, nothing else changes',
    async run(c) {
      const { name, uid, resourceVersion } = (await c.createNode()).metadata;
      const written = await c.cluster().patchReadyUnknown({ node: name, uid, resourceVersion, ...UNKNOWN });
      const node = await c.node(name);
      expect(written).toEqual({ kind: 'ok', value: { resourceVersion: node.metadata.resourceVersion } });
      expect(condition(node, 'Ready')).toEqual({
        type: 'Ready',
        status: 'Unknown',
        ...UNKNOWN,
        lastHeartbeatTime: EARLIER,
      });
      expect(condition(node, 'MemoryPressure')).toEqual(nodeConditions()[0]);
    },
  },
  {
    name: 'patchReadyUnknown: another writer in between is a conflict about the resourceVersion',
    async run(c) {
      const { name, uid, resourceVersion } = (await c.createNode()).metadata;
      await ok(
        c.admin('PATCH', `/api/v1/nodes/${name}`, { metadata: { annotations: { other: 'writer' } } }, MERGE),
      );
      const failed = await c.cluster().patchReadyUnknown({ node: name, uid, resourceVersion, ...UNKNOWN });
      expect(failed).toMatchObject({ kind: 'conflict', why: expect.stringMatching(/^resourceVersion: /) });
    },
  },
  {
    name: 'patchReadyUnknown: another instance of the node is a conflict about the uid',
    async run(c) {
      const { name, resourceVersion } = (await c.createNode()).metadata;
      const failed = await c
        .cluster()
        .patchReadyUnknown({ node: name, uid: ABSENT_UID, resourceVersion, ...UNKNOWN });
      expect(failed).toMatchObject({ kind: 'conflict', why: expect.stringMatching(/^uid: /) });
    },
  },
  {
    name: 'patchReadyUnknown: a deleted node is not found',
    async run(c) {
      const { name, uid, resourceVersion } = (await c.createNode()).metadata;
      await ok(c.admin('DELETE', `/api/v1/nodes/${name}`));
      const failed = await c.cluster().patchReadyUnknown({ node: name, uid, resourceVersion, ...UNKNOWN });
      expect(failed).toEqual({ kind: 'not-found' });
    },
  },
  {
    name: 'listPods: the pods of one node with their readiness',
    async run(c) {
      const [here, there] = [(await c.createNode()).metadata.name, (await c.createNode()).metadata.name];
      const ready = await c.createPod(here, 'True');
      const pending = await c.createPod(here);
      await c.createPod(there, 'True');
      const copies = [copyOf(ready, 'True'), copyOf(pending, undefined)];
      expect(await c.cluster().listPods(here)).toEqual({
        kind: 'ok',
        value: copies.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
      });
    },
  },
  {
    name: 'patchPodNotReady: Ready becomes False, reason and message stay',
    async run(c) {
      const node = (await c.createNode()).metadata.name;
      const pod = await c.createPod(node, 'True');
      expect(await c.cluster().patchPodNotReady(copyOf(pod, 'True'), LATER)).toEqual({
        kind: 'ok',
        value: undefined,
      });
      const after = (await ok(c.admin('GET', `${PODS}/${pod.metadata.name}`))) as Pod;
      expect(condition(after, 'Ready')).toMatchObject({
        status: 'False',
        reason: 'TestReason',
        message: 'test message',
        lastTransitionTime: LATER,
      });
      expect(condition(after, 'ContainersReady')).toMatchObject({
        status: 'True',
        lastTransitionTime: EARLIER,
      });
    },
  },
  {
    name: 'patchPodNotReady: a stale copy, another uid and a deleted pod are told apart',
    async run(c) {
      const node = (await c.createNode()).metadata.name;
      const pod = copyOf(await c.createPod(node, 'True'), 'True');
      const cluster = c.cluster();
      const otherUid = await cluster.patchPodNotReady({ ...pod, uid: ABSENT_UID }, LATER);
      expect(otherUid).toMatchObject({ kind: 'conflict', why: expect.stringMatching(/^uid: /) });
      value(await cluster.patchPodNotReady(pod, LATER));
      const stale = await cluster.patchPodNotReady(pod, LATER);
      expect(stale).toMatchObject({ kind: 'conflict', why: expect.stringMatching(/^resourceVersion: /) });
      await ok(c.admin('DELETE', `${PODS}/${pod.name}?gracePeriodSeconds=0`));
      expect(await cluster.patchPodNotReady(pod, LATER)).toEqual({ kind: 'not-found' });
    },
  },
  {
    name: 'createEvent: found by the uid of the node, once however often it is sent',
    async run(c) {
      const { name, uid } = (await c.createNode()).metadata;
      const event = {
        node: name,
        uid,
        type: 'Warning',
        reason: 'FarpulseHostSilent',
        message: 'no beat for 22 s',
        atMs: Date.parse('2026-01-01T00:01:40.777Z'),
      } as const;
      expect(await c.cluster().createEvent(event)).toEqual({ kind: 'ok', value: undefined });
      expect(await c.cluster().createEvent(event)).toEqual({ kind: 'ok', value: undefined });
      expect(await eventsOf(c, uid)).toMatchObject({
        items: [
          {
            type: 'Warning',
            reason: 'FarpulseHostSilent',
            message: 'no beat for 22 s',
            count: 1,
            firstTimestamp: LATER,
            lastTimestamp: LATER,
            involvedObject: { kind: 'Node', name, uid },
            source: { component: 'farpulse' },
            reportingComponent: 'farpulse',
          },
        ],
      });
    },
  },
  {
    name: 'createEvent: a node with the longest of names',
    async run(c) {
      const { name, uid } = (await c.createNode({ name: `${c.unique()}.${'x'.repeat(253)}`.slice(0, 253) }))
        .metadata;
      const event = {
        node: name,
        uid,
        type: 'Normal',
        reason: 'FarpulseReturned',
        message: 'm',
        atMs: 0,
      } as const;
      expect(await c.cluster().createEvent(event)).toEqual({ kind: 'ok', value: undefined });
      expect(await eventsOf(c, uid)).toMatchObject({ items: [{ involvedObject: { name } }] });
    },
  },
  {
    name: 'a credential that may not is refused with 403, one that nobody knows with 401',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      expect(await c.kubeletCluster().readNode(name)).toMatchObject({ kind: 'refused', status: 403 });
      const stranger = c.cluster({ token: 'no-such-token' });
      expect(await stranger.readNode(name)).toMatchObject({ kind: 'refused', status: 401 });
    },
  },
];

function value<T>(result: ClusterResult<T>): T {
  if (result.kind !== 'ok') throw new Error(`expected ok, got ${JSON.stringify(result)}`);
  return result.value;
}

function copyOf(
  { metadata: { namespace = '', name, uid, resourceVersion } }: Pod,
  ready: 'True' | 'False' | undefined,
) {
  return { namespace, name, uid, resourceVersion, ready };
}

function eventsOf(c: TableContext, uid: string): Promise<unknown> {
  const selector = encodeURIComponent(`involvedObject.kind=Node,involvedObject.uid=${uid}`);
  return ok(c.admin('GET', `/api/v1/namespaces/default/events?fieldSelector=${selector}`));
}
