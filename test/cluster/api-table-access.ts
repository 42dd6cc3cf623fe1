// Who may do what: above all what a kubelet's credential, which beacons borrow, can and cannot do.
import { expect } from 'vitest';

import { expectRefusal, LEASES, MERGE, ok, OWN_NODE, SMP, unknownPatch } from './api-table-context.ts';
import type { ApiCase } from './api-table.ts';

const KEY = { metadata: { annotations: { 'farpulse/beacon-key': 'x' } } };

export const ACCESS_CASES: readonly ApiCase[] = [
  {
    name: 'a kubelet reads and annotates its own node',
    async run(c) {
      await c.ownNode();
      await ok(c.kubelet('PATCH', `/api/v1/nodes/${OWN_NODE}`, KEY, MERGE));
      expect(await ok(c.kubelet('GET', `/api/v1/nodes/${OWN_NODE}`))).toMatchObject(KEY);
    },
  },
  {
    name: 'a kubelet neither reads nor annotates another node',
    async run(c) {
      const { name } = (await c.createNode()).metadata;
      await expectRefusal(c.kubelet('PATCH', `/api/v1/nodes/${name}`, KEY, MERGE), 403, 'Forbidden');
      await expectRefusal(c.kubelet('GET', `/api/v1/nodes/${name}`), 403, 'Forbidden');
      await expectRefusal(
        c.kubelet('PATCH', `/api/v1/nodes/${name}/status`, unknownPatch(), SMP),
        403,
        'Forbidden',
      );
    },
  },
  {
    name: 'a kubelet patches the status of its own node',
    async run(c) {
      await c.ownNode();
      await ok(c.kubelet('PATCH', `/api/v1/nodes/${OWN_NODE}/status`, unknownPatch(), SMP));
    },
  },
  {
    name: 'a kubelet does not change taints, not even its own',
    async run(c) {
      await c.ownNode();
      const body = { spec: { taints: [{ key: 'k', effect: 'NoSchedule' }] } };
      await expectRefusal(c.kubelet('PATCH', `/api/v1/nodes/${OWN_NODE}`, body, SMP), 403, 'Forbidden');
    },
  },
  {
    name: 'a kubelet lists only its own node',
    async run(c) {
      await c.ownNode();
      await expectRefusal(c.kubelet('GET', '/api/v1/nodes'), 403, 'Forbidden');
      const own = c.kubelet('GET', `/api/v1/nodes?fieldSelector=metadata.name%3D${OWN_NODE}`);
      expect(await ok(own)).toMatchObject({ items: [{ metadata: { name: OWN_NODE } }] });
    },
  },
  {
    name: 'a kubelet does not delete its node',
    async run(c) {
      await c.ownNode();
      await expectRefusal(c.kubelet('DELETE', `/api/v1/nodes/${OWN_NODE}`), 403, 'Forbidden');
    },
  },
  {
    name: 'a kubelet makes and renews its own lease',
    async run(c) {
      await c.admin('DELETE', `${LEASES}/${OWN_NODE}`);
      const spec = { holderIdentity: OWN_NODE, renewTime: '2026-01-01T00:00:00.000000Z' };
      const lease = await ok(c.kubelet('POST', LEASES, { metadata: { name: OWN_NODE }, spec }));
      const renewed = { ...(lease as object), spec: { ...spec, renewTime: '2026-01-01T00:00:10.000000Z' } };
      expect(await ok(c.kubelet('PUT', `${LEASES}/${OWN_NODE}`, renewed))).toMatchObject({
        spec: renewed.spec,
      });
    },
  },
  {
    name: 'a kubelet does not touch the lease of another node',
    async run(c) {
      const name = c.unique();
      const { spec } = await c.createLease(name, { holderIdentity: name });
      await expectRefusal(c.kubelet('PATCH', `${LEASES}/${name}`, { spec }, MERGE), 403, 'Forbidden');
      await expectRefusal(c.kubelet('GET', `${LEASES}/${name}`), 403, 'Forbidden');
    },
  },
  {
    name: 'a token that nobody gave out is unauthorized',
    async run(c) {
      await expectRefusal(c.stranger('GET', '/api/v1/nodes'), 401, 'Unauthorized');
    },
  },
  {
    name: 'without a token only health and version can be read',
    async run(c) {
      await expectRefusal(c.anonymous('GET', '/api/v1/nodes'), 403, 'Forbidden');
      expect(await c.anonymous('GET', '/readyz')).toEqual({ status: 200, body: 'ok' });
      expect(await c.anonymous('GET', '/livez')).toEqual({ status: 200, body: 'ok' });
      expect(await c.anonymous('GET', '/version')).toMatchObject({ status: 200, body: { major: '1' } });
    },
  },
];
