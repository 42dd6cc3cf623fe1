// `farpulse doctor` against the real API server, under the manifests of `deploy/` and with nothing but their credential.
import { afterAll, beforeAll, expect, test } from 'vitest';

import { doctor } from '../../cli/doctor.ts';
import { DoctorJson } from '../../worker/http/doctor.ts';
import { startControlPlane, type ControlPlane } from './control-plane.ts';
import { Farpulse } from './farpulse.ts';
import { ACCOUNT, applyOverlay, DETECTOR } from './least-privilege.ts';
import { readyCondition } from './objects.ts';

const NAMES = ['node-1', 'node-2'] as const;
const ADMIN_TOKEN = 'admin-token-of-the-test';

let plane: ControlPlane;
let farpulse: Farpulse;

interface Examination {
  readonly code: number;
  readonly rows: ReadonlyMap<
    string,
    { readonly state: string; readonly found: string; readonly todo?: string }
  >;
}

/** As an operator asks for it. */
async function examined(): Promise<Examination> {
  let text = '';
  const code = await doctor(['lab', '--url', farpulse.url, '--json'], {
    env: { FARPULSE_ADMIN_TOKEN: ADMIN_TOKEN },
    out: (more) => (text += more),
    err: (more) => (text += more),
  });
  const { rows } = DoctorJson.parse(JSON.parse(text));
  return {
    code,
    rows: new Map(
      rows.map(({ check, state, found, todo }) => [
        check,
        { state, found, ...(todo !== undefined && { todo }) },
      ]),
    ),
  };
}

/** Until a row says so: policies and permissions take a moment to reach the API server's caches. */
function untilRow(check: string, state: string): Promise<Examination> {
  return plane.waitFor(
    `${check} to be ${state}`,
    async (note) => {
      const examination = await examined();
      note(examination.rows.get(check));
      return examination.rows.get(check)?.state === state ? examination : undefined;
    },
    { timeoutMs: 60_000, intervalMs: 500 },
  );
}

beforeAll(async () => {
  plane = await startControlPlane({ nodeNames: NAMES, auditUsers: [DETECTOR] });
  farpulse = await Farpulse.create(plane);
  await farpulse.startWorker({ mode: 'compat' }, { ADMIN_TOKEN });
  for (const name of NAMES) await farpulse.beacon(await plane.startKubelet(name)).start();
  for (const name of NAMES) await farpulse.waitForPhase(name, 'alive', 120_000);
}, 1_500_000);

afterAll(async () => {
  await farpulse?.stop();
  await plane?.stop();
}, 60_000);

test('under the shipped manifests every row is ok, or cannot be known from here', async () => {
  const { code, rows } = await examined();
  const states = Object.fromEntries([...rows].map(([check, { state }]) => [check, state]));
  expect(states).toEqual({
    name: 'ok',
    tls: 'ok',
    api: 'ok',
    credential: 'ok',
    // The local way to the API has a token of its own, which is no ServiceAccount's.
    'credential-expiry': 'unknown',
    'permission: get nodes': 'ok',
    'permission: list nodes': 'ok',
    'permission: get leases in kube-node-lease': 'ok',
    'permission: list leases in kube-node-lease': 'ok',
    'permission: patch nodes/status': 'ok',
    'permission: create events in default': 'ok',
    'permission: patch leases in farpulse': 'ok',
    'permission: list pods': 'ok',
    'permission: patch pods/status': 'ok',
    'admission-policy': 'ok',
    'dry-run-write': 'ok',
    // The controller manager is no pod here.
    mode: 'unknown',
    grace: 'unknown',
    beacons: 'ok',
    clock: 'ok',
  });
  expect(code).toBe(0);
  expect(rows.get('credential')?.found).toBe(DETECTOR);
  expect(rows.get('admission-policy')?.found).toMatch(/^in force: farpulse-/);
});

test('nothing is written: whatever it patches is a dry run, and the Nodes are as they were', async () => {
  const ready = async () => Promise.all(NAMES.map(async (name) => readyCondition(await plane.node(name))));
  const before = (await ready()).map((condition) => [condition?.status, condition?.lastTransitionTime]);
  await examined();
  expect((await ready()).map((condition) => [condition?.status, condition?.lastTransitionTime])).toEqual(
    before,
  );
  const patches = (await plane.auditLog()).filter(({ verb }) => verb === 'patch');
  expect(patches.length).toBeGreaterThan(0);
  expect(
    patches.filter(
      ({ requestURI, objectRef }) => objectRef?.resource !== 'leases' && !requestURI.includes('dryRun=All'),
    ),
  ).toEqual([]);
});

test('the flags of a controller manager that is a pod are read', async () => {
  const command = ['kube-controller-manager', '--node-monitor-grace-period=20s'];
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'kcm', namespace: 'kube-system', labels: { component: 'kube-controller-manager' } },
    spec: {
      nodeName: 'node-1',
      automountServiceAccountToken: false,
      containers: [{ name: 'kcm', image: 'pause', command }],
    },
  };
  await plane.waitFor(
    'kube-system',
    async () => (await plane.respond('POST', '/api/v1/namespaces/kube-system/pods', pod)).status === 201,
  );
  const { code, rows } = await examined();
  expect(rows.get('mode')).toMatchObject({ state: 'ok' });
  expect(rows.get('grace')).toMatchObject({
    state: 'warn',
    found: "farpulse's deadline is 22 s, the controller's grace 20 s: it may come first",
  });
  expect(code).toBe(0);
});

test('the kill switch shows, with its text', async () => {
  const annotate = (value: string | null) =>
    plane.request(
      'PATCH',
      ACCOUNT,
      { metadata: { annotations: { 'farpulse/disarmed': value } } },
      { 'content-type': 'application/merge-patch+json' },
    );
  await annotate('ask Ada');
  const { code, rows } = await untilRow('dry-run-write', 'warn');
  expect(rows.get('dry-run-write')?.found).toContain('farpulse is disarmed: ask Ada');
  expect(rows.get('admission-policy')?.state).toBe('ok');
  expect(code).toBe(0);
  await annotate(null);
  await untilRow('dry-run-write', 'ok');
});

test('a missing permission is named, with the command that gives it', async () => {
  await plane.kubectl(
    'patch',
    'clusterrole',
    'farpulse-detector',
    '--type=json',
    '-p',
    JSON.stringify([
      { op: 'test', path: '/rules/1/resources/0', value: 'nodes/status' },
      { op: 'remove', path: '/rules/1' },
    ]),
  );
  const { code, rows } = await untilRow('permission: patch nodes/status', 'fail');
  expect(rows.get('permission: patch nodes/status')).toEqual({
    state: 'fail',
    found: 'not allowed',
    todo: 'kubectl apply -k deploy/overlays/compat',
  });
  expect([...rows].filter(([, { state }]) => state === 'fail')).toHaveLength(1);
  expect(rows.get('dry-run-write')?.state).toBe('unknown');
  expect(code).toBe(1);
  // As the row says.
  await applyOverlay(plane, 'compat');
  await untilRow('permission: patch nodes/status', 'ok');
});

test('an account that no policy bounds is found out', async () => {
  await plane.kubectl('delete', 'validatingadmissionpolicybinding', 'farpulse-nodes');
  const { code, rows } = await untilRow('admission-policy', 'fail');
  expect(rows.get('admission-policy')).toMatchObject({
    found: expect.stringContaining('nothing bounds the account') as string,
    todo: expect.stringContaining('kubectl apply -k deploy/overlays/compat') as string,
  });
  expect(code).toBe(1);
  await applyOverlay(plane, 'compat');
  await untilRow('admission-policy', 'ok');
});
