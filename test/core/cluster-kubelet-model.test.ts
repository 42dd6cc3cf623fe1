// The stand-in's kubelets, on a clock that is moved by hand.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Api } from '../support/api-stand-in/api.ts';
import {
  ADMIN,
  conditionOf,
  KubeletModel,
  type KubeObject,
  LEASES,
  ManualClock,
  NODES,
  PODS,
} from '../support/api-stand-in/index.ts';

const START = '2026-12-01T00:00:00Z';

let clock: ManualClock;
let api: Api;
let kubelet: KubeletModel;

beforeEach(async () => {
  clock = new ManualClock(Date.parse(START));
  api = new Api(clock);
  kubelet = new KubeletModel({ api, clock, node: 'node-1', labels: { zone: 'z1' } });
  await kubelet.start();
});

afterEach(() => kubelet.kill());

function node(): KubeObject | undefined {
  return api.store.get(NODES, '', 'node-1');
}

function renewTime(): unknown {
  return api.store.get(LEASES, 'kube-node-lease', 'node-1')?.spec?.['renewTime'];
}

function podReady(): unknown {
  return conditionOf(api.store.get(PODS, 'default', 'pod-1'), 'Ready')?.status;
}

function admin(method: string, path: string, body: unknown): void {
  const answer = api.handle({
    method,
    path,
    query: new URLSearchParams(),
    contentType: method === 'PATCH' ? 'application/strategic-merge-patch+json' : 'application/json',
    accept: '',
    body,
    user: ADMIN,
    manager: 'test',
  });
  expect(answer.status).toBeLessThan(300);
}

function writeReady(status: string, reason = 'FarpulseHostSilent'): void {
  const ready = { type: 'Ready', status, reason, lastTransitionTime: new Date(clock.nowMs()).toISOString() };
  admin('PATCH', '/api/v1/nodes/node-1/status', { status: { conditions: [ready] } });
}

function createPod(nodeName: string): void {
  admin('POST', '/api/v1/namespaces/default/pods', { metadata: { name: 'pod-1' }, spec: { nodeName } });
}

describe('a live kubelet', () => {
  test('registers its node Ready, with labels, and has a Lease at once', () => {
    expect(node()?.metadata.labels).toEqual({ 'kubernetes.io/hostname': 'node-1', zone: 'z1' });
    expect(conditionOf(node(), 'Ready')).toEqual({
      type: 'Ready',
      status: 'True',
      reason: 'KubeletReady',
      message: 'kubelet is posting ready status',
      lastHeartbeatTime: START,
      lastTransitionTime: START,
    });
    expect(renewTime()).toBe('2026-12-01T00:00:00.000000Z');
  });

  test('renews its Lease every ten seconds', () => {
    clock.advance(9_999);
    expect(renewTime()).toBe('2026-12-01T00:00:00.000000Z');
    clock.advance(1);
    expect(renewTime()).toBe('2026-12-01T00:00:10.000000Z');
    clock.advance(600_000);
    expect(renewTime()).toBe('2026-12-01T00:10:10.000000Z');
  });

  test('reports an unchanged status every five minutes, with a new heartbeat and the old transition', () => {
    const { resourceVersion } = node()?.metadata ?? {};
    clock.advance(299_999);
    expect(node()?.metadata.resourceVersion).toBe(resourceVersion);
    clock.advance(1);
    expect(conditionOf(node(), 'Ready')).toMatchObject({
      lastHeartbeatTime: '2026-12-01T00:05:00Z',
      lastTransitionTime: START,
    });
  });

  test('says Ready=True again at its next tick when somebody wrote Unknown', () => {
    clock.advance(13_000);
    writeReady('Unknown');
    clock.advance(6_999);
    expect(conditionOf(node(), 'Ready')).toMatchObject({ status: 'Unknown', lastHeartbeatTime: START });
    clock.advance(1);
    expect(conditionOf(node(), 'Ready')).toMatchObject({
      status: 'True',
      reason: 'KubeletReady',
      lastHeartbeatTime: '2026-12-01T00:00:20Z',
      lastTransitionTime: '2026-12-01T00:00:20Z',
    });
  });

  test('takes its own reason back, and calls that no transition', () => {
    writeReady('True', 'SomebodyElse');
    clock.advance(10_000);
    expect(conditionOf(node(), 'Ready')).toMatchObject({ reason: 'KubeletReady', lastTransitionTime: START });
  });

  test('makes its pods Ready, and Ready again', () => {
    createPod('node-1');
    expect(podReady()).toBeUndefined();
    clock.advance(300);
    expect(podReady()).toBe('True');
    const conditions = [{ type: 'Ready', status: 'False' }];
    admin('PATCH', '/api/v1/namespaces/default/pods/pod-1/status', { status: { conditions } });
    expect(podReady()).toBe('False');
    clock.advance(300);
    expect(podReady()).toBe('True');
  });

  test('leaves the pods of others alone', () => {
    createPod('node-2');
    clock.advance(60_000);
    expect(podReady()).toBeUndefined();
  });

  test('answers /healthz', async () => {
    const response = await fetch(kubelet.healthzUrl);
    expect([response.status, await response.text()]).toEqual([200, 'ok']);
  });
});

describe('a killed kubelet', () => {
  beforeEach(async () => {
    createPod('node-1');
    clock.advance(5_000);
    await kubelet.kill();
  });

  test('is silent, whatever happens to its node and pods', () => {
    writeReady('Unknown');
    const conditions = [{ type: 'Ready', status: 'False' }];
    admin('PATCH', '/api/v1/namespaces/default/pods/pod-1/status', { status: { conditions } });
    const { version } = api.store;
    clock.advance(3_600_000);
    expect(api.store.version).toBe(version);
    expect(renewTime()).toBe('2026-12-01T00:00:00.000000Z');
  });

  test('refuses connections', async () => {
    await expect(fetch(kubelet.healthzUrl)).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } });
  });

  test('is Ready at once when started again, on the same node and port', async () => {
    const url = kubelet.healthzUrl;
    const uid = node()?.metadata.uid;
    writeReady('Unknown');
    clock.advance(60_000);
    await kubelet.start();
    expect(kubelet.healthzUrl).toBe(url);
    expect((await fetch(url)).status).toBe(200);
    expect(node()?.metadata.uid).toBe(uid);
    expect(conditionOf(node(), 'Ready')).toMatchObject({
      status: 'True',
      lastTransitionTime: '2026-12-01T00:01:05Z',
    });
    expect(renewTime()).toBe('2026-12-01T00:01:05.000000Z');
  });
});
