import { audienceOf } from '../protocol/names.ts';
import { BeatMaker, signerWith, type Signs } from './beat-maker.ts';
import { API_CHECK_PERIOD_MS, ApiPathCheck, firstApiPathState } from './checks/api-path.ts';
import { KubeletCheck } from './checks/kubelet.ts';
import { NamedChecks } from './checks/named-checks.ts';
import { rhythmFor } from './checks/repeat.ts';
import { type Clock, systemClock } from './clock.ts';
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
import { RecordedIdentity } from './recorded-identity.ts';
import type { Settings } from './settings.ts';
import { StatusKeeper } from './status/keeper.ts';
import { Connector } from './transport/connector.ts';
import { HttpsTransport } from './transport/https.ts';
import { recallAddresses, systemResolver } from './transport/lookup.ts';
import { ObserverSockets } from './transport/observer-sockets.ts';
import { SocketsFirst } from './transport/sockets-first.ts';
import type { Transport } from './transport/transport.ts';
import { Trust } from './transport/trust.ts';
import { BEACON_NAME } from './version.ts';
import { feedWatchdog } from './watchdog.ts';

/** A setting is missing that only this machine could tell. */
export class MissingSettingError extends Error {
  override readonly name = 'MissingSettingError';
  readonly code = 'setting-missing';
}

type ApiAccess = () => Promise<KubeAccess>;
type PathAccess = () => Promise<Pick<KubeAccess, 'server' | 'trust'>>;

/** A loop that did not turn for so long hangs; what waits between two beats turns four times an interval. */
const HANGS_AFTER_INTERVALS = 3;

/** Wires a beacon and runs it until the signal fires, then says goodbye. */
export async function runBeacon(
  settings: Settings,
  log: Log,
  signal: AbortSignal,
  clock: Clock = systemClock,
): Promise<void> {
  const key = await loadOrMakeKey(settings.keyFile);
  const memory = await Memory.open(settings.memoryFile, log);
  const host = readHost();
  const { node, deployment, cluster, intervalMs, endpoints } = settings;
  const kubeconfig =
    settings.enrolmentFile === undefined ? (settings.kubeconfig ?? findKubeconfig()) : undefined;
  log.info('started', {
    beacon: BEACON_NAME,
    node,
    cluster,
    key: key.kid,
    keyMade: key.made,
    boot: host.bootId,
    kubeconfig,
    enrolment: settings.enrolmentFile,
    proxy: settings.proxy?.name,
  });

  const names = new Set([...endpoints, settings.proxy?.url ?? []].flat().map((url) => new URL(url).hostname));
  recallAddresses(systemResolver, names, memory.remembered.addresses ?? {}, (addresses) => {
    void memory.remember({ addresses });
  });
  const { identity, access } = await makeIdentity(settings, key, memory, kubeconfig, clock, log);
  const kubelet = makeKubeletCheck(settings, host, memory, clock, log, () => loop.hurry());
  const api = makeApiCheck(settings, access, clock, log);
  const checks = new NamedChecks({ settings: settings.checks, clock, log });
  const uptimeMs = (): number => host.uptimeMs();
  const signs = (): Signs => ({ kubelet: kubelet.sign, api: api.sign, checks: checks.results });
  const maker = makeBeatMaker(settings, key, host, signs);
  const transport = makeTransport(settings, log, clock);
  const keeper = new StatusKeeper({
    constant: { beacon: BEACON_NAME, deployment, cluster, node, kid: key.kid, boot: host.bootId, intervalMs },
    uid: () => identity.uid,
    signs,
    transport: () => transport.used ?? 'https',
    statusFile: settings.statusFile,
    metricsFile: settings.metricsFile,
    clock,
    uptimeMs,
    log,
  });
  const loop = new BeatLoop({
    intervalMs,
    endpoints,
    maker,
    identity,
    transport,
    clock,
    log,
    uptimeMs,
    onDelivery: (seq, delivery) => void keeper.note(seq, delivery),
  });
  const watchdog = {
    env: process.env,
    pid: process.pid,
    clock,
    log,
    isTurning: () => loop.idleMs < HANGS_AFTER_INTERVALS * intervalMs,
  };

  void keeper.write();
  await Promise.all([
    loop.run(signal),
    identity.run(signal),
    kubelet.run(signal),
    api.run(signal),
    checks.run(signal),
    feedWatchdog(watchdog, signal),
  ]);
  await loop.farewell(await leavingSign(String(signal.reason)));
  transport.close();
}

/** The beats of this boot, signed with this key. */
export function makeBeatMaker(settings: Settings, key: BeaconKey, host: Host, signs: () => Signs): BeatMaker {
  return new BeatMaker({
    audience: audienceOf(settings.deployment, settings.cluster),
    node: settings.node,
    bootId: host.bootId,
    intervalMs: settings.intervalMs,
    beacon: BEACON_NAME,
    uptimeMs: () => host.uptimeMs(),
    wallMs: () => systemClock.wallMs(),
    signs,
    sign: signerWith(key),
  });
}

/** The way to the observers. */
export function makeTransport(settings: Settings, log: Log, clock: Clock = systemClock): Transport {
  const { transport, intervalMs } = settings;
  const connector = makeConnector(settings, log);
  const https = new HttpsTransport(connector);
  if (transport === 'https') return https;
  const holdsBack = transport === 'auto';
  const sockets = new ObserverSockets({ connector, clock, intervalMs, holdsBack, log });
  return new SocketsFirst({ sockets, https, clock, intervalMs });
}

/** What waits for something slow waits less at a short interval, whose tries are short too. */
export function makeConnector({ intervalMs, proxy, caFile }: Settings, log: Log): Connector {
  const patienceMs = Math.min(250, intervalMs / 40);
  return new Connector({
    resolve: (hostname) => systemResolver.addresses(hostname, patienceMs),
    trust: new Trust({ caFile, log }),
    proxy,
    staggerMs: patienceMs,
  });
}

/** How to reach the API server, if anything tells. */
export function apiAccess(kubeconfig: string | undefined, apiUrl: string | undefined): ApiAccess | undefined {
  if (kubeconfig !== undefined) return () => loadKubeconfig(kubeconfig, apiUrl);
  if (apiUrl === undefined) return undefined;
  return async () => ({ server: new URL(apiUrl), trust: {}, identity: {} });
}

/** Who this is, and how the API server is reached, by what this process may read: a kubeconfig, or only a record. */
async function makeIdentity(
  settings: Settings,
  key: BeaconKey,
  memory: Memory,
  kubeconfig: string | undefined,
  clock: Clock,
  log: Log,
): Promise<{ identity: Identity | RecordedIdentity; access: PathAccess | undefined }> {
  const { node, nodeUid, apiUrl, enrolmentFile, enrolWantedFile } = settings;
  const { node: remembered } = memory.remembered;
  const firstUid = nodeUid ?? (remembered?.name === node ? remembered.uid : undefined);
  const common = { node, firstUid, clock, log };
  const access = apiAccess(kubeconfig, apiUrl);
  if (enrolmentFile !== undefined) {
    const recorded = new RecordedIdentity({ ...common, enrolmentFile, enrolWantedFile });
    await recorded.read();
    return { identity: recorded, access: access ?? recorded.access };
  }
  if (kubeconfig === undefined && firstUid === undefined) {
    throw new MissingSettingError(
      `--node-uid: needed where no kubeconfig is found (see --kubeconfig). An admin enrols this node with\n` +
        `  kubectl get node ${node} -o jsonpath='{.metadata.uid}'\n  ${annotateCommand(node, key.publicKey)}`,
    );
  }
  const identity = new Identity({
    ...common,
    key: key.publicKey,
    api: kubeconfig === undefined ? undefined : new KubeNodeApi(() => loadKubeconfig(kubeconfig, apiUrl)),
    onUid: (uid) => void memory.remember({ node: { name: node, uid } }),
  });
  return { identity, access };
}

function makeKubeletCheck(
  { kubeletHealthz: url, intervalMs }: Settings,
  host: Host,
  memory: Memory,
  clock: Clock,
  log: Log,
  onChange: () => void,
): KubeletCheck {
  const { kubeletOk } = memory.remembered;
  const here = { boot: host.bootId, url: url.href };
  return new KubeletCheck({
    url,
    rhythm: rhythmFor(intervalMs),
    clock,
    log,
    okThisBoot: kubeletOk?.boot === here.boot && kubeletOk.url === here.url,
    onFirstOk: () => void memory.remember({ kubeletOk: here }),
    onChange,
  });
}

function makeApiCheck(
  { checkApi, intervalMs }: Settings,
  access: PathAccess | undefined,
  clock: Clock,
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
    clock,
    log,
  });
}
