import { audienceOf } from '../protocol/names.ts';
import { BeatMaker, signerWith } from './beat-maker.ts';
import { API_CHECK_PERIOD_MS, ApiPathCheck, firstApiPathState } from './checks/api-path.ts';
import { KubeletCheck } from './checks/kubelet.ts';
import { rhythmFor } from './checks/repeat.ts';
import { systemClock } from './clock.ts';
import { annotateCommand } from './enrolment.ts';
import { readHost, type Host } from './host.ts';
import { Identity } from './identity.ts';
import { loadOrMakeKey, type BeaconKey } from './key-file.ts';
import { findKubeconfig, type KubeAccess, loadKubeconfig } from './kubeconfig.ts';
import { leavingSign } from './leaving.ts';
import type { Log } from './log.ts';
import { BeatLoop } from './loop.ts';
import { Memory } from './memory.ts';
import { KubeNodeApi } from './own-node.ts';
import type { Settings } from './settings.ts';
import { HttpsTransport } from './transport/https.ts';
import { BEACON_NAME } from './version.ts';

/** A setting is missing that only this machine could tell. */
export class MissingSettingError extends Error {
  override readonly name = 'MissingSettingError';
  readonly code = 'setting-missing';
}

type ApiAccess = () => Promise<KubeAccess>;

/** Wires a beacon and runs it until the signal fires, then says goodbye. */
export async function runBeacon(settings: Settings, log: Log, signal: AbortSignal): Promise<void> {
  const key = await loadOrMakeKey(settings.keyFile);
  const memory = await Memory.open(settings.memoryFile, log);
  const host = readHost();
  const kubeconfig = settings.kubeconfig ?? findKubeconfig();
  const access = apiAccess(kubeconfig, settings.apiUrl);
  const { node, cluster, intervalMs, endpoints } = settings;
  log.info('started', {
    beacon: BEACON_NAME,
    node,
    cluster,
    key: key.kid,
    keyMade: key.made,
    boot: host.bootId,
    kubeconfig,
  });

  const identity = makeIdentity(settings, key, memory, kubeconfig === undefined ? undefined : access, log);
  const kubelet = makeKubeletCheck(settings, host, memory, log);
  const api = makeApiCheck(settings, access, log);
  const maker = new BeatMaker({
    audience: audienceOf(settings.deployment, cluster),
    node,
    bootId: host.bootId,
    intervalMs,
    beacon: BEACON_NAME,
    uptimeMs: () => host.uptimeMs(),
    wallMs: () => systemClock.wallMs(),
    signs: () => ({ kubelet: kubelet.sign, api: api.sign }),
    sign: signerWith(key),
  });
  const transport = new HttpsTransport();
  const loop = new BeatLoop({
    intervalMs,
    endpoints,
    maker,
    identity,
    transport,
    clock: systemClock,
    log,
    uptimeMs: () => host.uptimeMs(),
  });

  await Promise.all([loop.run(signal), identity.run(signal), kubelet.run(signal), api.run(signal)]);
  await loop.farewell(await leavingSign(String(signal.reason)));
  transport.close();
}

/** How to reach the API server, if anything tells. */
function apiAccess(kubeconfig: string | undefined, apiUrl: string | undefined): ApiAccess | undefined {
  if (kubeconfig !== undefined) return () => loadKubeconfig(kubeconfig, apiUrl);
  if (apiUrl === undefined) return undefined;
  return async () => ({ server: new URL(apiUrl), trust: {}, identity: {} });
}

function makeIdentity(
  { node, nodeUid }: Settings,
  key: BeaconKey,
  memory: Memory,
  access: ApiAccess | undefined,
  log: Log,
): Identity {
  const { node: remembered } = memory.remembered;
  const firstUid = nodeUid ?? (remembered?.name === node ? remembered.uid : undefined);
  if (access === undefined && firstUid === undefined) {
    throw new MissingSettingError(
      `--node-uid: needed where no kubeconfig is found (see --kubeconfig). An admin enrols this node with\n` +
        `  kubectl get node ${node} -o jsonpath='{.metadata.uid}'\n  ${annotateCommand(node, key.publicKey)}`,
    );
  }
  return new Identity({
    node,
    key: key.publicKey,
    api: access === undefined ? undefined : new KubeNodeApi(access),
    firstUid,
    clock: systemClock,
    log,
    onUid: (uid) => void memory.remember({ node: { name: node, uid } }),
  });
}

function makeKubeletCheck(
  { kubeletHealthz: url, intervalMs }: Settings,
  host: Host,
  memory: Memory,
  log: Log,
): KubeletCheck {
  const { kubeletOk } = memory.remembered;
  const here = { boot: host.bootId, url: url.href };
  return new KubeletCheck({
    url,
    rhythm: rhythmFor(intervalMs),
    clock: systemClock,
    log,
    okThisBoot: kubeletOk?.boot === here.boot && kubeletOk.url === here.url,
    onFirstOk: () => void memory.remember({ kubeletOk: here }),
  });
}

function makeApiCheck(
  { checkApi, intervalMs }: Settings,
  access: ApiAccess | undefined,
  log: Log,
): Pick<ApiPathCheck, 'run' | 'sign'> {
  if (!checkApi || access === undefined) {
    const { sign } = firstApiPathState(
      checkApi ? 'no kubeconfig and no --api-url' : 'not checked: --no-api-check',
    );
    return { sign, run: () => Promise.resolve() };
  }
  return new ApiPathCheck({
    loadAccess: access,
    rhythm: rhythmFor(intervalMs, API_CHECK_PERIOD_MS),
    clock: systemClock,
    log,
  });
}
