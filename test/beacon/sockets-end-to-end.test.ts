import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { startLocalWorker, type LocalWorker } from '../../cli/local/local-worker.ts';
import { StatusClient } from '../../cli/local/status-client.ts';
import { waitFor } from '../../cli/local/wait.ts';
import { loadOrMakeKey } from '../../node-beacon/key-file.ts';
import { BeaconStatus } from '../../node-beacon/status/status.ts';
import { start, type Beacon } from './support/beacon-process.ts';
import { temporaryFolder } from './support/folder.ts';
import { PickyGateway } from './support/picky-gateway.ts';

/* A real beacon and the production bundle in local workerd, with WebSockets between them. */

vi.setConfig({ testTimeout: 120_000 });

const NODE = 'node-1';
const UID = 'uid-of-node-1';

/** One node of a cluster that is only observed, so that no API server is needed. */
interface Subject {
  readonly folder: string;
  readonly worker: LocalWorker;
  startWorker(port: number): Promise<LocalWorker>;
  startBeacon(endpoint: string, transport: string): Beacon;
  /** The beacon's own view, once it satisfies the condition. */
  status(what: string, isSo: (status: BeaconStatus) => boolean): Promise<BeaconStatus>;
}

async function subject(): Promise<Subject> {
  const folder = await temporaryFolder();
  const keyFile = join(folder, 'beacon.key');
  const statusFile = join(folder, 'status.json');
  const { publicKey } = await loadOrMakeKey(keyFile);
  const cluster = {
    intervalSeconds: 1,
    readers: 'open',
    keys: { [NODE]: { uid: UID, key: publicKey.x } },
  };
  const startWorker = async (port: number): Promise<LocalWorker> => {
    const worker = await startLocalWorker({
      storageFolder: join(folder, 'storage'),
      port,
      vars: { DEPLOYMENT_ID: 'test', CLUSTERS: { lab: cluster } },
    });
    onTestFinished(() => worker.stop());
    return worker;
  };
  let beacon: Beacon | undefined;
  return {
    folder,
    worker: await startWorker(0),
    startWorker,
    startBeacon: (endpoint, transport) => {
      beacon = start(
        ...Object.entries({
          endpoint,
          transport,
          deployment: 'test',
          cluster: 'lab',
          node: NODE,
          'node-uid': UID,
          'key-file': keyFile,
          'status-file': statusFile,
          'interval-seconds': '1',
          'kubelet-healthz': 'http://127.0.0.1:1/healthz',
          'log-level': 'debug',
        }).map(([name, value]) => `--${name}=${value}`),
        '--no-api-check',
      );
      return beacon;
    },
    status: (what, isSo) =>
      waitFor(
        what,
        async (note) => {
          const status = BeaconStatus.parse(JSON.parse(await readFile(statusFile, 'utf8')));
          note({ ...status, said: beacon?.said.err.slice(-2_000) });
          return isSo(status) && status;
        },
        { timeoutMs: 60_000 },
      ),
  };
}

/** Delivered by socket, so many beats further on. */
function bySocket(after: BeaconStatus | undefined, beats: number): (status: BeaconStatus) => boolean {
  return ({ delivered, lastAck }) =>
    lastAck?.transport === 'websocket' && delivered >= (after?.delivered ?? 0) + beats;
}

test('beats go by sockets to every observer, through a restart of the Worker', async () => {
  const it = await subject();
  it.startBeacon(it.worker.url, 'websocket');
  const before = await it.status('three beats by socket', bySocket(undefined, 4));
  expect(Object.keys(before.observers).toSorted()).toEqual(['apac', 'enam', 'weur']);
  const { port } = it.worker;

  await it.worker.stop();
  const cut = await it.status('a beat that is lost', ({ lastBeat }) => lastBeat?.outcome === 'failed');
  await it.startWorker(port);
  await it.status('beats by socket again', bySocket(cut, 3));

  const views = new StatusClient(it.worker.url, 'lab');
  await waitFor('every observer to hear the node', async (note) => {
    const node = await views.node(NODE);
    note(node);
    return node?.lastHeard.length === 3 && node.lastHeard.every(({ sight }) => sight === 'heard');
  });
});

test('auto falls back to HTTPS where upgrades are refused, loses no beat over it, and returns', async () => {
  const it = await subject();
  const gateway = await PickyGateway.start(it.worker.port);
  it.startBeacon(gateway.url, 'auto');
  const before = await it.status('beats by socket', bySocket(undefined, 3));

  gateway.passesUpgrades = false;
  gateway.cut();
  const fallen = await it.status(
    'three beats by HTTPS',
    ({ delivered, lastAck }) => lastAck?.transport === 'https' && delivered >= before.delivered + 3,
  );
  // Counted from the start, so that the first one, which came before the Worker knew the node, is left out.
  expect(fallen.beats - fallen.delivered).toBe(before.beats - before.delivered);

  gateway.passesUpgrades = true;
  const returned = await it.status('beats by socket again', bySocket(fallen, 3));
  expect(returned.beats - returned.delivered).toBe(before.beats - before.delivered);
});
