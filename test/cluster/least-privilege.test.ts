import { readFile } from 'node:fs/promises';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { markPods } from '../../worker/cluster/mark-pods.ts';
import { createKubernetesCluster } from '../../worker/cluster/kubernetes.ts';
import type { ClusterPort, NodeEvent, UnknownPatch } from '../../worker/core/cluster-port.ts';
import { type ApiClient, type ApiResponse, STRATEGIC_MERGE } from './api-client.ts';
import { startControlPlane } from './control-plane.ts';
import { ALLOWED, isAllowed } from './least-privilege-allowed.ts';
import { FORBIDDEN, policyOf, type Forbidden } from './least-privilege-forbidden.ts';
import {
  ACCOUNT,
  applyOverlay,
  DETECTOR,
  detectorToken,
  manifests,
  messageOf,
  type Overlay,
  respondAlmighty,
} from './least-privilege.ts';
import {
  createNode,
  createPod,
  createTargets,
  LATER,
  NODE,
  notReady,
  OWN_LEASE,
  POD,
  unknown,
} from './least-privilege-targets.ts';
import type { Node, Pod } from './objects.ts';
import type { ControlPlane } from './plane.ts';

/*
 * The manifests of `deploy/` on a real API server, asked with the account's own token. No controllers run until the
 * last chapters, so that nothing writes but the tests. The chapters build on each other.
 */

const KUBELET = 'kubelet-of-others';
const ANNOTATE = ['-n', 'farpulse', 'annotate', 'serviceaccount', 'detector'] as const;

let plane: ControlPlane;
let detector: ApiClient;
let kubelet: ApiClient;
let token: string;
let adapter: ClusterPort;
let made = 0;

async function loginAsDetector(): Promise<void> {
  token = await detectorToken(plane);
  detector = plane.client.as(token);
  adapter = createKubernetesCluster({
    apiUrl: plane.url,
    token,
    fetch,
    nodeSelector: 'test/of=least-privilege',
  });
}

function newName(prefix: string): string {
  made += 1;
  return `${prefix}-${made}`;
}

/** The verdict on a fresh copy, as the arbiter would have it written. */
async function patchOf(name: string): Promise<UnknownPatch> {
  const copy = await adapter.readNode(name);
  if (copy.kind !== 'ok') throw new Error(`${name} cannot be read: ${copy.kind}`);
  const { uid, resourceVersion } = copy.value;
  return {
    node: name,
    uid,
    resourceVersion,
    reason: 'FarpulseHostSilent',
    message: 'no beat for 22 s, seen by weur, enam',
    lastTransitionTime: LATER,
  };
}

function eventOn(node: string): NodeEvent {
  return {
    node,
    uid: 'c0000000-0000-0000-0000-000000000000',
    type: 'Warning',
    reason: 'FarpulseHostSilent',
    message: 'no beat for 22 s',
    atMs: Date.parse(LATER),
  };
}

function expectPolicy(answer: ApiResponse, policy: string, says = ''): void {
  expect(answer).toMatchObject({ status: 403, body: { kind: 'Status', reason: 'Forbidden' } });
  expect(messageOf(answer)).toContain(`ValidatingAdmissionPolicy '${policy}'`);
  expect(messageOf(answer)).toContain(says);
}

function expectRbac(answer: ApiResponse): void {
  expect(answer).toMatchObject({ status: 403, body: { kind: 'Status', reason: 'Forbidden' } });
  expect(messageOf(answer)).toMatch(new RegExp(`User "${DETECTOR}" cannot `));
}

async function objectOf({ path, touches = path }: Forbidden): Promise<unknown> {
  const { status, body } = await plane.respond('GET', touches);
  return status === 404 ? 'absent' : body;
}

function dryRunOnNode(): Promise<ApiResponse> {
  return detector.respond('PATCH', `${NODE}/status?dryRun=All`, unknown(), STRATEGIC_MERGE);
}

function dryRunOnPod(): Promise<ApiResponse> {
  return detector.respond('PATCH', `${POD}/status?dryRun=All`, notReady(), STRATEGIC_MERGE);
}

/** How a kubelet says that its node is well. */
function beatOfKubelet(second: number): Promise<ApiResponse> {
  const lastHeartbeatTime = `2026-01-01T00:02:${String(second).padStart(2, '0')}Z`;
  const conditions = [{ type: 'Ready', status: 'True', lastHeartbeatTime }];
  return kubelet.respond(
    'PATCH',
    `/api/v1/nodes/${KUBELET}/status`,
    { status: { conditions } },
    STRATEGIC_MERGE,
  );
}

beforeAll(async () => {
  plane = await startControlPlane({ kcm: false, nodeNames: [KUBELET] });
  // The global fetch takes no certificate of its own; the adapter gets that very fetch.
  setDefaultCACertificates([...getCACertificates('default'), await readFile(plane.caFile, 'utf8')]);
  kubelet = plane.client.as(plane.tokenOf(`system:node:${KUBELET}`));
  await createNode(plane, KUBELET);
}, 1_500_000);

afterAll(() => plane?.stop());

test('a fresh cluster takes the manifests in one go, and again without a change', async () => {
  const first = await applyOverlay(plane, 'observe');
  const lines = first.trim().split('\n');
  expect(lines.length).toBeGreaterThan(15);
  expect(lines.filter((line) => !line.endsWith(' created'))).toEqual([]);
  const second = await plane.kubectl('apply', '-k', manifests('overlays/observe'));
  expect(
    second
      .trim()
      .split('\n')
      .filter((line) => !line.endsWith(' unchanged')),
  ).toEqual([]);
  await loginAsDetector();
  await createTargets(plane);
});

describe.for<{ overlay: Overlay }>([{ overlay: 'observe' }, { overlay: 'external' }, { overlay: 'compat' }])(
  '$overlay',
  ({ overlay }) => {
    const writesNodes = overlay !== 'observe';
    const writesPods = overlay === 'compat';

    beforeAll(async () => {
      // That one is applied.
      if (overlay !== 'observe') await applyOverlay(plane, overlay);
      await plane.waitFor(`mode ${overlay}`, async () => {
        const [node, pod] = await Promise.all([dryRunOnNode(), dryRunOnPod()]);
        return (node.status === 200) === writesNodes && (pod.status === 200) === writesPods;
      });
    });

    test.for(ALLOWED.filter((row) => isAllowed(row, overlay)))(
      'allowed: $name',
      async ({ method, path, body, headers }) => {
        const answer = await detector.respond(method, path, body, headers);
        expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
      },
    );

    const others = ALLOWED.filter((row) => !isAllowed(row, overlay));
    if (others.length > 0) {
      test.for(others)('not in this overlay: $name', async ({ method, path, body, headers }) => {
        expectRbac(await detector.respond(method, path, body, headers));
      });
    }

    test('the adapter reads Nodes and Leases', async () => {
      const nodes = await adapter.listNodes();
      expect(nodes).toMatchObject({ kind: 'ok' });
      expect(nodes.kind === 'ok' && nodes.value.map(({ name }) => name)).toContain('target');
      expect(await adapter.readNode('target')).toMatchObject({ kind: 'ok', value: { name: 'target' } });
      expect(await adapter.readNode('absent')).toEqual({ kind: 'not-found' });
      expect(await adapter.readLease('target')).toMatchObject({ kind: 'ok', value: { node: 'target' } });
      expect(await adapter.readLease('absent')).toEqual({ kind: 'not-found' });
      expect(await adapter.listLeases()).toMatchObject({ kind: 'ok', value: [{ node: 'target' }] });
    });

    test(`the adapter ${writesNodes ? 'writes' : 'does not write'} Nodes and Events`, async () => {
      const name = newName('node');
      await createNode(plane, name);
      const before = await plane.node(name);
      const patch = await patchOf(name);
      const written = await adapter.patchReadyUnknown(patch);
      const told = await adapter.createEvent(eventOn(name));
      if (!writesNodes) {
        expect(written).toMatchObject({ kind: 'refused', status: 403 });
        expect(told).toMatchObject({ kind: 'refused', status: 403 });
        expect(await plane.node(name)).toEqual(before);
        return;
      }
      const after = await plane.node(name);
      expect(written).toEqual({ kind: 'ok', value: { resourceVersion: after.metadata.resourceVersion } });
      expect(after.status.conditions).toEqual([
        before.status.conditions?.[0],
        {
          ...before.status.conditions?.[1],
          status: 'Unknown',
          reason: patch.reason,
          message: patch.message,
          lastTransitionTime: LATER,
        },
      ]);
      expect(told).toMatchObject({ kind: 'ok' });
      expect(await adapter.createEvent(eventOn(name))).toMatchObject({ kind: 'ok' });
      // Under policies, too, the answers are what the adapter sorts by.
      expect(await adapter.patchReadyUnknown(patch)).toMatchObject({ kind: 'conflict' });
      expect(await adapter.patchReadyUnknown({ ...patch, node: 'absent' })).toEqual({ kind: 'not-found' });
      const stranger = { ...(await patchOf('target')), uid: patch.uid };
      expect(await adapter.patchReadyUnknown(stranger)).toMatchObject({ kind: 'conflict' });
    });

    test(`the adapter ${writesNodes ? 'sees' : 'does not see'} pods and ${writesPods ? 'marks' : 'does not mark'} them`, async () => {
      const name = newName('pod');
      const path = await createPod(plane, name);
      const before = await plane.request<Pod>('GET', path);
      const { uid, resourceVersion } = before.metadata;
      const copy = { namespace: 'default', name, uid, resourceVersion, ready: 'True' } as const;
      const listed = await adapter.listPods('target');
      const marked = await adapter.patchPodNotReady(copy, LATER);
      if (writesNodes) expect(listed.kind === 'ok' && listed.value).toContainEqual(copy);
      else expect(listed).toMatchObject({ kind: 'refused', status: 403 });
      if (!writesPods) {
        expect(marked).toMatchObject({ kind: 'refused', status: 403 });
        expect(await plane.request('GET', path)).toEqual(before);
        return;
      }
      expect(marked).toMatchObject({ kind: 'ok' });
      const after = await plane.request<Pod>('GET', path);
      expect(after.status).toEqual({
        ...before.status,
        conditions: before.status.conditions?.map((one) =>
          one.type === 'Ready' ? { ...one, status: 'False', lastTransitionTime: LATER } : one,
        ),
      });
      expect(await adapter.patchPodNotReady(copy, LATER)).toMatchObject({ kind: 'conflict' });
    });

    test('with a binding too many, it still writes only what the mode allows', async () => {
      const node = await respondAlmighty(
        plane,
        'PATCH',
        `${NODE}/status?dryRun=All`,
        unknown(),
        STRATEGIC_MERGE,
      );
      const pod = await respondAlmighty(
        plane,
        'PATCH',
        `${POD}/status?dryRun=All`,
        notReady(),
        STRATEGIC_MERGE,
      );
      if (writesNodes) expect(node.status).toBe(200);
      else expectPolicy(node, 'farpulse-switch', `may not write nodes in mode ${overlay}`);
      if (writesPods) expect(pod.status).toBe(200);
      else expectPolicy(pod, 'farpulse-switch', `may not write pods in mode ${overlay}`);
    });
  },
);

describe('under compat, forbidden', () => {
  test.for(FORBIDDEN)('$name', async (row) => {
    const { method, path, body, headers, by } = row;
    const before = await objectOf(row);
    const sent: unknown = typeof body === 'function' ? body(before) : body;
    const answer = await detector.respond(method, path, sent, headers);
    if (by === 'RBAC') expectRbac(answer);
    else expectPolicy(answer, policyOf(path), by.says);
    expect(await objectOf(row)).toEqual(before);
  });
});

describe('with a binding too many, forbidden by policy alone', () => {
  test.for(FORBIDDEN.filter(({ unseen }) => unseen !== true))('$name', async (row) => {
    const { method, path, body, headers, by } = row;
    const before = await objectOf(row);
    const sent: unknown = typeof body === 'function' ? body(before) : body;
    const answer = await respondAlmighty(plane, method, path, sent, headers);
    expectPolicy(answer, policyOf(path), by === 'RBAC' ? '' : by.says);
    expect(await objectOf(row)).toEqual(before);
  });
});

test('a change of spec or managedFields that is sent along is dropped by the API server', async () => {
  type Recorded = Node & { readonly metadata: { readonly managedFields: readonly unknown[] } };
  const path = await createNode(plane, newName('node'));
  const before = await plane.request<Recorded>('GET', path);
  const body = {
    ...unknown({ metadata: { managedFields: [{}] } }),
    spec: { unschedulable: true, taints: [{ key: 'k', effect: 'NoExecute' }] },
  };
  expect((await detector.respond('PATCH', `${path}/status`, body, STRATEGIC_MERGE)).status).toBe(200);
  const after = await plane.request<Recorded>('GET', path);
  expect(after.spec).toEqual(before.spec);
  expect(after.metadata.managedFields).toEqual(expect.arrayContaining([...before.metadata.managedFields]));
});

test('a verdict and its pods, in any namespace, as the arbiter has them written', async () => {
  const name = newName('node');
  await createNode(plane, name);
  await plane.request('POST', '/api/v1/namespaces', { metadata: { name: 'team-b' } });
  await plane.request('POST', '/api/v1/namespaces/team-b/serviceaccounts', { metadata: { name: 'default' } });
  const paths: string[] = [];
  for (const namespace of ['default', 'team-b']) {
    paths.push(await createPod(plane, newName('pod'), 'True', namespace, name));
  }
  const patch = await patchOf(name);
  expect(await adapter.patchReadyUnknown(patch)).toMatchObject({ kind: 'ok' });
  const target = { name, uid: patch.uid, lastTransitionTime: patch.lastTransitionTime };
  expect(await markPods(adapter, target)).toEqual({ marked: 2, ok: true });
  expect(await markPods(adapter, target)).toEqual({ marked: 0, ok: true });
  for (const path of paths) {
    const { status } = await plane.request<Pod>('GET', path);
    expect(status.conditions?.find(({ type }) => type === 'Ready')?.status).toBe('False');
  }
});

test('what a verdict needs is queued with the kubelets, everything else is not', async () => {
  const uidOf = async (path: string): Promise<string> =>
    (await plane.request<Node>('GET', `/apis/flowcontrol.apiserver.k8s.io/v1/${path}`)).metadata.uid;
  const ours = await uidOf('flowschemas/farpulse-detector');
  const nodeHigh = await uidOf('prioritylevelconfigurations/node-high');
  const schema = async (answer: Promise<ApiResponse>): Promise<unknown> => {
    const { headers } = await answer;
    return {
      schema: headers['x-kubernetes-pf-flowschema-uid'],
      level: headers['x-kubernetes-pf-prioritylevel-uid'],
    };
  };
  const asked: readonly Promise<ApiResponse>[] = [
    detector.respond('GET', NODE),
    detector.respond('GET', '/api/v1/nodes?limit=1'),
    dryRunOnNode(),
    detector.respond('GET', '/api/v1/pods?fieldSelector=spec.nodeName%3Dtarget'),
    dryRunOnPod(),
    detector.respond('GET', '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?limit=1'),
    detector.respond('GET', OWN_LEASE),
  ];
  for (const answer of asked) expect(await schema(answer)).toEqual({ schema: ours, level: nodeHigh });
  const review = detector.respond('POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', {});
  expect(await schema(review)).not.toMatchObject({ level: nodeHigh });
});

describe('the kill switch', () => {
  const disarmed = async (): Promise<true | undefined> =>
    (await dryRunOnNode()).status === 403 && (await dryRunOnPod()).status === 403 ? true : undefined;
  const armed = async (): Promise<true | undefined> =>
    (await dryRunOnNode()).status === 200 && (await dryRunOnPod()).status === 200 ? true : undefined;

  /** From kubectl's end on. Tenths of a second when nothing else runs. */
  const soon = { timeoutMs: 3_000, intervalMs: 10 };

  test('kubectl disarms all writes to Nodes and pods, and the refusal says why', async () => {
    expect(await armed()).toBe(true);
    await plane.kubectl(...ANNOTATE, 'farpulse/disarmed=false verdicts since 10:40, ask Ada');
    await plane.waitFor('writes to be refused', disarmed, soon);
    const why = 'farpulse is disarmed: false verdicts since 10:40, ask Ada';
    expectPolicy(await dryRunOnNode(), 'farpulse-switch', why);
    expectPolicy(await dryRunOnPod(), 'farpulse-switch', why);
    expectPolicy(
      await respondAlmighty(plane, 'PATCH', `${NODE}/status`, unknown(), STRATEGIC_MERGE),
      'farpulse-switch',
      why,
    );
    const refused = await adapter.patchReadyUnknown(await patchOf('target'));
    expect(refused).toMatchObject({ kind: 'refused', status: 403 });
    expect(refused.kind === 'refused' && refused.why).toContain(why);
  });

  test('the adapter renews our own Lease', async () => {
    const lease = await adapter.readOwnLease();
    if (lease.kind !== 'ok') throw new Error(lease.kind);
    const { resourceVersion } = lease.value;
    const renewal = { resourceVersion, holder: 'test/prod', renewTimeMs: Date.parse(LATER) };
    expect(await adapter.renewOwnLease(renewal)).toMatchObject({ kind: 'ok' });
    expect(await adapter.readOwnLease()).toMatchObject({ kind: 'ok', value: { holder: 'test/prod' } });
  });

  test('a disarmed detector still reads, tells, and renews its Lease', async () => {
    expect(await adapter.readNode('target')).toMatchObject({ kind: 'ok' });
    expect(await adapter.listPods('target')).toMatchObject({ kind: 'ok' });
    expect(await adapter.createEvent(eventOn(newName('disarmed')))).toMatchObject({ kind: 'ok' });
    const renewal = { spec: { renewTime: '2026-01-01T00:00:01.000000Z' } };
    expect((await detector.respond('PATCH', OWN_LEASE, renewal, STRATEGIC_MERGE)).status).toBe(200);
  });

  test('it binds nobody else', async () => {
    expect((await beatOfKubelet(1)).status).toBe(200);
    const label = { metadata: { labels: { 'test/by': 'admin' } } };
    expect((await plane.respond('PATCH', `${NODE}/status`, label, STRATEGIC_MERGE)).status).toBe(200);
  });

  test('applying the manifests again does not arm it', async () => {
    expect(await plane.kubectl('apply', '-k', manifests('overlays/compat'))).toContain('detector unchanged');
    await plane.kubectl('apply', '--server-side', '--force-conflicts', '-k', manifests('overlays/compat'));
    expect(await disarmed()).toBe(true);
  });

  test('kubectl arms it again', async () => {
    await plane.kubectl(...ANNOTATE, 'farpulse/disarmed-');
    await plane.waitFor('writes to be allowed', armed, soon);
  });

  test('it works as well when its policy was deleted and made again', async () => {
    await plane.kubectl('delete', 'validatingadmissionpolicy', 'farpulse-switch');
    await applyOverlay(plane, 'compat');
    await plane.kubectl(...ANNOTATE, 'farpulse/disarmed=again');
    await plane.waitFor('writes to be refused', disarmed);
    await plane.kubectl(...ANNOTATE, 'farpulse/disarmed-');
    await plane.waitFor('writes to be allowed', armed, soon);
  });
});

test('observe applied over compat takes every write away', async () => {
  await applyOverlay(plane, 'observe');
  for (const { name, method, path, body, headers } of ALLOWED.filter((row) => !isAllowed(row, 'observe'))) {
    expect((await detector.respond(method, path, body, headers)).status, name).toBe(403);
  }
  expect(await adapter.listNodes()).toMatchObject({ kind: 'ok' });
});

describe('tokens', () => {
  const isDetector = async (credential: string): Promise<boolean> => {
    const client = plane.client.as(credential);
    const { status } = await client.respond('GET', NODE);
    client.close();
    return status === 200;
  };

  test('one bound to a Secret ends with it', async () => {
    await plane.kubectl('-n', 'farpulse', 'create', 'secret', 'generic', 'detector-handle');
    const create = '-n farpulse create token detector --duration 720h'.split(' ');
    create.push('--bound-object-kind', 'Secret', '--bound-object-name', 'detector-handle');
    const used = (await plane.kubectl(...create)).trim();
    const unused = (await plane.kubectl(...create)).trim();
    expect(await isDetector(used)).toBe(true);
    await plane.kubectl('-n', 'farpulse', 'delete', 'secret', 'detector-handle');
    // One that was used a moment ago is remembered for up to 10 s more.
    await plane.waitFor('the token to be refused', async () => !(await isDetector(unused)));
  });

  test('a long-lived one works until its Secret is deleted', async () => {
    await plane.startControllerManager();
    await plane.kubectl('apply', '-f', manifests('token/long-lived.yaml'));
    const credential = await plane.waitFor('the token', async () => {
      const secret = await plane.request<{ readonly data?: { readonly token?: string } }>(
        'GET',
        '/api/v1/namespaces/farpulse/secrets/detector-token',
      );
      return secret.data?.token;
    });
    expect(await isDetector(Buffer.from(credential, 'base64').toString())).toBe(true);
  });
});

test('removed again, nothing is left, and kubelets have not noticed', async () => {
  const cluster =
    'validatingadmissionpolicy,validatingadmissionpolicybinding,flowschema,clusterrole,clusterrolebinding';
  const left = (): Promise<string> =>
    plane.kubectl('get', cluster, '-l', 'app.kubernetes.io/name=farpulse', '-o', 'name');
  expect((await left()).trim().split('\n')).toHaveLength(11);

  // The account goes first, as when somebody deletes the namespace by hand: policies without their parameter.
  await plane.request('DELETE', ACCOUNT);
  await plane.waitFor(
    'the account to be gone',
    async () => (await plane.respond('GET', ACCOUNT)).status === 404,
  );
  for (let second = 10; second < 30; second += 1) expect((await beatOfKubelet(second)).status).toBe(200);

  await plane.kubectl('delete', '--ignore-not-found', '--wait=false', '-k', manifests('overlays/compat'));
  await plane.waitFor('all of it to be gone', async () => (await left()).trim() === '');
  const namespace = await plane.respond('GET', '/api/v1/namespaces/farpulse');
  if (namespace.status !== 404) expect(namespace.body).toMatchObject({ status: { phase: 'Terminating' } });
  expect((await beatOfKubelet(31)).status).toBe(200);
});
