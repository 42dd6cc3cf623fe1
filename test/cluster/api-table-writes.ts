// Writing Nodes, Pods, Leases and Events.
import { expect } from 'vitest';

import {
  condition,
  EARLIER,
  expectRefusal,
  LATER,
  LEASES,
  MERGE,
  nodeConditions,
  ok,
  PODS,
  SMP,
  unknownPatch,
} from './api-table-context.ts';
import type { ApiCase } from './api-table.ts';
import type { Node, Pod } from './objects.ts';

const ABSENT_UID = '00000000-0000-0000-0000-000000000000';

export const WRITE_CASES: readonly ApiCase[] = [
  {
    name: 'a status patch with a stale resourceVersion is a conflict and changes nothing',
    async run(c) {
      const node = await c.createNode();
      const { name, resourceVersion } = node.metadata;
      await ok(
        c.admin('PATCH', `/api/v1/nodes/${name}`, { metadata: { annotations: { other: 'writer' } } }, MERGE),
      );
      await expectRefusal(c.patchStatus(name, unknownPatch({ resourceVersion })), 409, 'Conflict');
      expect(condition(await c.node(name), 'Ready')).toMatchObject({ status: 'True' });
    },
  },
  {
    name: 'a status patch with another uid is invalid and blames metadata.uid',
    async run(c) {
      const { name, resourceVersion } = (await c.createNode()).metadata;
      const refusal = await expectRefusal(
        c.patchStatus(name, unknownPatch({ uid: ABSENT_UID, resourceVersion })),
        422,
        'Invalid',
      );
      expect(refusal.details?.causes?.map(({ field }) => field)).toContain('metadata.uid');
    },
  },
  {
    name: 'with a stale resourceVersion and another uid the conflict comes first',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      await expectRefusal(
        c.patchStatus(name, unknownPatch({ uid: ABSENT_UID, resourceVersion: '1' })),
        409,
        'Conflict',
      );
    },
  },
  {
    name: 'a status patch of an absent node is not found, whatever uid it names',
    async run(c) {
      await expectRefusal(c.patchStatus(c.unique(), unknownPatch({ uid: ABSENT_UID })), 404, 'NotFound');
    },
  },
  {
    name: 'a status patch with the right uid and resourceVersion is taken and moves the resourceVersion',
    async run(c) {
      const { name, uid, resourceVersion } = (await c.createNode()).metadata;
      const patched = (await ok(c.patchStatus(name, unknownPatch({ uid, resourceVersion })))) as Node;
      expect(patched.metadata.resourceVersion).not.toBe(resourceVersion);
      expect(await c.node(name)).toEqual(patched);
    },
  },
  {
    name: 'a strategic merge keeps lastHeartbeatTime and all other conditions',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      await ok(c.patchStatus(name, unknownPatch()));
      const node = await c.node(name);
      expect(condition(node, 'MemoryPressure')).toEqual(nodeConditions()[0]);
      expect(condition(node, 'Ready')).toEqual({
        type: 'Ready',
        status: 'Unknown',
        reason: 'Farpulse',
        message: 'silent',
        lastHeartbeatTime: EARLIER,
        lastTransitionTime: LATER,
      });
    },
  },
  {
    name: 'a merge patch replaces the list of conditions',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      await ok(c.patchStatus(name, unknownPatch(), '', MERGE));
      expect((await c.node(name)).status.conditions?.map(({ type }) => type)).toEqual(['Ready']);
    },
  },
  {
    name: 'a strategic merge puts a condition that was not there to the front',
    async run(c) {
      const { name } = (await c.createNode({ conditions: nodeConditions().slice(0, 1) })).metadata;
      await ok(c.patchStatus(name, unknownPatch()));
      expect((await c.node(name)).status.conditions?.map(({ type }) => type)).toEqual([
        'Ready',
        'MemoryPressure',
      ]);
    },
  },
  {
    name: 'the same content again keeps the resourceVersion',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      const first = (await ok(c.patchStatus(name, unknownPatch()))) as Node;
      const { resourceVersion } = first.metadata;
      expect(await ok(c.patchStatus(name, unknownPatch({ resourceVersion })))).toEqual(first);
    },
  },
  {
    name: 'a lost answer repeated with the old resourceVersion is a conflict',
    async run(c) {
      const { name, resourceVersion } = (await c.createNode()).metadata;
      await ok(c.patchStatus(name, unknownPatch({ resourceVersion })));
      await expectRefusal(c.patchStatus(name, unknownPatch({ resourceVersion })), 409, 'Conflict');
    },
  },
  ...['0', ''].map((resourceVersion) => ({
    name: `resourceVersion "${resourceVersion}" makes a patch unconditional`,
    async run(c: Parameters<ApiCase['run']>[0]) {
      const { name } = (await c.createNode()).metadata;
      await ok(c.patchStatus(name, unknownPatch({ resourceVersion })));
      expect(condition(await c.node(name), 'Ready')).toMatchObject({ status: 'Unknown' });
    },
  })),
  {
    name: "a resourceVersion that is no number is the server's error",
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      expect(await c.patchStatus(name, unknownPatch({ resourceVersion: 'new' }))).toMatchObject({
        status: 500,
      });
    },
  },
  {
    name: 'another metadata.name is a bad request',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      await expectRefusal(c.patchStatus(name, unknownPatch({ name: 'other' })), 400, 'BadRequest');
    },
  },
  {
    name: 'an unknown field of a condition is refused under fieldValidation=Strict',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      const body = unknownPatch({}, { raeson: 'typo' });
      await expectRefusal(c.patchStatus(name, body, '?fieldValidation=Strict'), 422, 'Invalid');
    },
  },
  {
    name: 'an unknown field of a condition is dropped otherwise',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      await ok(c.patchStatus(name, unknownPatch({}, { raeson: 'typo' })));
      expect(condition(await c.node(name), 'Ready')).not.toHaveProperty('raeson');
    },
  },
  {
    name: 'a time that is none is invalid',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      await expectRefusal(
        c.patchStatus(name, unknownPatch({}, { lastTransitionTime: 'now' })),
        422,
        'Invalid',
      );
    },
  },
  {
    name: 'a change of spec through the status is dropped',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      await ok(c.patchStatus(name, { ...unknownPatch(), spec: { unschedulable: true } }));
      const node = await c.node(name);
      expect(node.spec).not.toHaveProperty('unschedulable');
      expect(condition(node, 'Ready')).toMatchObject({ status: 'Unknown' });
    },
  },
  {
    name: 'a change of annotations through the status is taken',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      await ok(c.patchStatus(name, { metadata: { annotations: { a: 'b' } } }));
      expect((await c.node(name)).metadata.annotations).toMatchObject({ a: 'b' });
    },
  },
  {
    name: 'a change of status through the node itself is dropped',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      await ok(
        c.admin('PATCH', `/api/v1/nodes/${name}`, { ...unknownPatch(), spec: { unschedulable: true } }, SMP),
      );
      const node = await c.node(name);
      expect(node.spec).toMatchObject({ unschedulable: true });
      expect(condition(node, 'Ready')).toMatchObject({ status: 'True' });
    },
  },
  {
    name: 'a fraction of a second is cut from lastTransitionTime',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      await ok(c.patchStatus(name, unknownPatch({}, { lastTransitionTime: '2026-01-01T00:00:09.987Z' })));
      expect(condition(await c.node(name), 'Ready')).toMatchObject({
        lastTransitionTime: '2026-01-01T00:00:09Z',
      });
    },
  },
  {
    name: 'a lastTransitionTime left out stays what it was',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      await ok(c.patchStatus(name, { status: { conditions: [{ type: 'Ready', status: 'Unknown' }] } }));
      expect(condition(await c.node(name), 'Ready')).toMatchObject({
        status: 'Unknown',
        lastTransitionTime: EARLIER,
      });
    },
  },
  {
    name: 'dryRun=All answers as if and writes nothing',
    async run(c) {
      const node = await c.createNode();
      const { name } = node.metadata;
      const dry = (await ok(c.patchStatus(name, unknownPatch(), '?dryRun=All'))) as Node;
      expect(condition(dry, 'Ready')).toMatchObject({ status: 'Unknown' });
      expect(await c.node(name)).toEqual(node);
    },
  },
  {
    name: 'another type of patch is unsupported',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      const answer = c.patchStatus(name, unknownPatch(), '', { 'content-type': 'application/json' });
      await expectRefusal(answer, 415, 'UnsupportedMediaType');
    },
  },
  {
    name: 'a writer owns the fields that it changed, and the heartbeat stays with its own writer',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      const beat = { status: { conditions: [{ type: 'Ready', lastHeartbeatTime: LATER }] } };
      await ok(c.patchStatus(name, beat, '?fieldManager=kubelet'));
      await ok(c.patchStatus(name, unknownPatch(), '?fieldManager=farpulse'));
      const owned = new Map(
        ((await c.node(name)).metadata as unknown as { managedFields: ManagedFields[] }).managedFields
          .filter(({ subresource }) => subresource === 'status')
          .map(({ manager, fieldsV1 }) => [
            manager,
            fieldsV1['f:status']['f:conditions']['k:{"type":"Ready"}'],
          ]),
      );
      expect(owned.get('kubelet')).toEqual({ 'f:lastHeartbeatTime': {} });
      expect(owned.get('farpulse')).toEqual({
        'f:lastTransitionTime': {},
        'f:message': {},
        'f:reason': {},
        'f:status': {},
      });
    },
  },
  {
    name: 'a node that was created with nothing but a status has no owners, then or later',
    async run(c) {
      const name = c.unique();
      const made = await ok(
        c.admin('POST', '/api/v1/nodes', { metadata: { name }, status: { conditions: nodeConditions() } }),
      );
      expect(made).not.toHaveProperty('metadata.managedFields');
      await ok(c.patchStatus(name, unknownPatch()));
      expect(await c.node(name)).not.toHaveProperty('metadata.managedFields');
    },
  },
  {
    name: 'a merge patch sets one annotation, keeps the others and removes with null',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      const annotate = async (annotations: object): Promise<unknown> =>
        ok(c.admin('PATCH', `/api/v1/nodes/${name}`, { metadata: { annotations } }, MERGE));
      await annotate({ one: '1', two: '2' });
      await annotate({ two: '22', one: null });
      const { annotations = {} } = (await c.node(name)).metadata;
      expect(annotations).toMatchObject({ two: '22' });
      expect(annotations).not.toHaveProperty('one');
    },
  },
  {
    name: 'a node is created with its status, a pod without',
    async run(c) {
      const node = await c.createNode();
      expect(condition(node, 'Ready')).toMatchObject({ status: 'True' });
      const conditions = [{ type: 'Ready', status: 'True' }];
      const made = await c.admin('POST', PODS, {
        metadata: { name: c.unique('pod') },
        spec: {
          nodeName: node.metadata.name,
          automountServiceAccountToken: false,
          containers: [{ name: 'main', image: 'pause' }],
        },
        status: { phase: 'Running', conditions },
      });
      const pod = (await ok(Promise.resolve(made))) as Pod;
      expect(pod.status.phase).toBe('Pending');
      expect(condition(pod, 'Ready')).toBeUndefined();
    },
  },
  {
    name: 'the same name twice already exists, and none at all is invalid',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      await expectRefusal(c.admin('POST', '/api/v1/nodes', { metadata: { name } }), 409, 'AlreadyExists');
      await expectRefusal(c.admin('POST', '/api/v1/nodes', { metadata: {} }), 422, 'Invalid');
    },
  },
  {
    name: 'a deleted node is gone, and comes back with another uid',
    async run(c) {
      const { name, uid } = (await c.createNode()).metadata;
      await ok(c.admin('DELETE', `/api/v1/nodes/${name}`));
      await expectRefusal(c.admin('GET', `/api/v1/nodes/${name}`), 404, 'NotFound');
      expect((await c.createNode({ name })).metadata.uid).not.toBe(uid);
    },
  },
  {
    name: 'a pod status patch with another uid is refused',
    async run(c) {
      const node = await c.createNode();
      const { name } = (await c.createPod(node.metadata.name, 'True')).metadata;
      const body = {
        metadata: { uid: ABSENT_UID },
        status: { conditions: [{ type: 'Ready', status: 'False' }] },
      };
      const refusal = await expectRefusal(
        c.admin('PATCH', `${PODS}/${name}/status`, body, SMP),
        422,
        'Invalid',
      );
      expect(refusal.details?.causes?.map(({ field }) => field)).toContain('metadata.uid');
    },
  },
  {
    name: 'a lease keeps microseconds, and takes nothing but six digits',
    async run(c) {
      const name = c.unique();
      const lease = await c.createLease(name, {
        holderIdentity: name,
        renewTime: '2026-01-01T00:00:00.123456Z',
      });
      expect(lease.spec.renewTime).toBe('2026-01-01T00:00:00.123456Z');
      const spec = { renewTime: '2026-01-01T00:00:10.5Z' };
      await expectRefusal(c.admin('PATCH', `${LEASES}/${name}`, { spec }, MERGE), 422, 'Invalid');
    },
  },
];

interface ManagedFields {
  readonly manager: string;
  readonly subresource?: string;
  readonly fieldsV1: Record<'f:status', Record<'f:conditions', Record<string, object>>>;
}
