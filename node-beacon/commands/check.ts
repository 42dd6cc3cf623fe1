import type { Signs } from '../beat-maker.ts';
import { firstApiPathState } from '../checks/api-path.ts';
import { firstKubeletState, judgeKubelet } from '../checks/kubelet.ts';
import { lookAt } from '../checks/named-checks.ts';
import { systemClock } from '../clock.ts';
import { annotateCommand, enrol } from '../enrolment.ts';
import { readEnrolment } from '../enrolment-file.ts';
import { readHost } from '../host.ts';
import { type BeaconKey, loadOrMakeKey } from '../key-file.ts';
import { findKubeconfig, loadKubeconfig } from '../kubeconfig.ts';
import type { Log } from '../log.ts';
import { KubeNodeApi } from '../own-node.ts';
import { makeBeatMaker, makeConnector, makeTransport } from '../run.ts';
import type { Settings } from '../settings.ts';
import { whyOf } from '../text.ts';
import { exchange } from '../transport/exchange.ts';
import type { SignedBeat, Transport, TryResult } from '../transport/transport.ts';
import { whyNotEnrolled } from './enrol.ts';
import { BROKEN, OK, type Print } from './output.ts';
import { adviceOn } from './refusal-advice.ts';
import { within } from './within.ts';

const STEP_TIMEOUT_MS = 5_000;

/** Tells what a step came to; answers whether it went well. */
type Tell = (step: string, well: boolean | 'note', what: string) => void;

/**
 * Sends one beat and explains every step. It works beside a running beacon: a beat more does no harm.
 *
 * @returns 0 when a quorum of observers has recorded the beat by some endpoint, else 1
 */
export async function checkCommand(settings: Settings, log: Log, print: Print): Promise<number> {
  const tell: Tell = (step, well, what) => {
    const mark = well === 'note' ? '  ' : well ? 'ok' : 'NO';
    print(`${mark}  ${step.padEnd(12)} ${what}`);
  };
  const { node, cluster, deployment, intervalMs } = settings;
  tell(
    'settings',
    'note',
    `node ${node} of cluster ${cluster}, deployment ${deployment}, every ${intervalMs / 1000} s`,
  );

  const key = await checkKey(settings, tell);
  if (key === undefined) return BROKEN;
  const uid = await checkEnrolment(settings, key, tell);
  const kubelet = await checkKubelet(settings, tell);
  for (const setting of settings.checks) {
    const { state, why } = await within(STEP_TIMEOUT_MS, (deadline) => lookAt(setting, deadline));
    tell(
      'check',
      state === 'ok' ? true : 'note',
      `${setting.name}: ${state}${why === undefined ? '' : `: ${why}`}`,
    );
  }
  for (const endpoint of settings.endpoints) await checkPath(settings, endpoint, log, tell);
  if (uid === undefined) {
    tell('beat', false, 'not sent: the uid of the Node is not known, see above (or give --node-uid)');
    return BROKEN;
  }

  const signs = (): Signs => ({ kubelet, api: firstApiPathState('not looked at by `check`').sign });
  const maker = makeBeatMaker(settings, key, readHost(), signs);
  const transport = makeTransport(settings, log);
  let arrived = false;
  for (const endpoint of settings.endpoints) {
    const beat = await maker.make(uid); // each its own: a beat that is known already would be acked unread
    arrived = (await sendOne(transport, endpoint, beat, settings, key, tell)) || arrived;
  }
  transport.close();
  return arrived ? OK : BROKEN;
}

async function checkKey({ keyFile }: Settings, tell: Tell): Promise<BeaconKey | undefined> {
  try {
    const key = await loadOrMakeKey(keyFile);
    tell('key', true, `${keyFile}${key.made ? ', made now' : ''}, thumbprint ${key.kid}`);
    return key;
  } catch (error) {
    tell('key', false, `${whyOf(error)} (this command is meant to be run as root)`);
    return undefined;
  }
}

/** By the kubeconfig; without one by what `enrol` has left, or by what was given. */
async function checkEnrolment(settings: Settings, key: BeaconKey, tell: Tell): Promise<string | undefined> {
  const { node, nodeUid, apiUrl, enrolmentFile } = settings;
  const recorded = enrolmentFile === undefined ? undefined : await readEnrolment(enrolmentFile);
  const recordedUid = recorded?.kind === 'read' ? recorded.record.uid : undefined;
  const kubeconfig = settings.kubeconfig ?? findKubeconfig();
  if (kubeconfig === undefined) {
    tell('kubeconfig', 'note', `none found: an admin runs ${annotateCommand(node, key.publicKey)}`);
    return nodeUid ?? recordedUid;
  }
  tell('kubeconfig', 'note', kubeconfig);
  const outcome = await within(STEP_TIMEOUT_MS, (deadline) =>
    enrol(new KubeNodeApi(() => loadKubeconfig(kubeconfig, apiUrl)), node, key.publicKey, deadline),
  );
  if (outcome.kind === 'enrolled') {
    const { uid, annotated } = outcome;
    tell(
      'enrolment',
      true,
      `the Node ${node} (${uid}) ${annotated ? 'was annotated with' : 'names'} this key`,
    );
    return uid;
  }
  tell('enrolment', false, whyNotEnrolled(outcome, node));
  const isForAdmin = outcome.kind === 'denied' || outcome.kind === 'not-annotated';
  if (isForAdmin) tell('', 'note', `an admin runs ${annotateCommand(node, key.publicKey)}`);
  return ('uid' in outcome ? outcome.uid : undefined) ?? nodeUid ?? recordedUid;
}

async function checkKubelet({ kubeletHealthz: url }: Settings, tell: Tell): Promise<Signs['kubelet']> {
  const look = await within(STEP_TIMEOUT_MS, (deadline) =>
    exchange({ url, method: 'GET', maxAnswerBytes: 1_024 }, deadline),
  );
  // As if it had failed before: the person wants to know what it is now.
  const { sign } = judgeKubelet({ ...firstKubeletState(false), failures: 1 }, look);
  const why = sign.why === undefined ? '' : `: ${sign.why}`;
  tell('kubelet', sign.state === 'ok' ? true : 'note', `${url.href} says ${sign.state}${why}`);
  return sign;
}

async function checkPath(settings: Settings, endpoint: string, log: Log, tell: Tell): Promise<void> {
  const url = new URL(endpoint);
  const { proxy } = settings;
  const way = proxy?.serves(url) === true ? ` through the proxy ${proxy.name}` : '';
  const startedAtMs = systemClock.monotonicMs();
  const connected = await within(STEP_TIMEOUT_MS, (deadline) =>
    makeConnector(settings, log).connect(url, deadline),
  );
  const tookMs = Math.round(systemClock.monotonicMs() - startedAtMs);
  if (connected.kind === 'failed') {
    tell('connection', false, `${endpoint}${way}: ${connected.failure}: ${connected.why}`);
    return;
  }
  const { remoteAddress } = connected.socket;
  const address = remoteAddress === undefined ? '' : `, ${remoteAddress}`;
  const layers = url.protocol === 'https:' ? 'name, TCP and TLS' : 'name and TCP';
  tell('connection', true, `${endpoint}${way}${address}: ${layers} in ${tookMs} ms`);
  connected.socket.destroy();
}

async function sendOne(
  transport: Transport,
  endpoint: string,
  beat: SignedBeat,
  settings: Settings,
  key: BeaconKey,
  tell: Tell,
): Promise<boolean> {
  const startedAtMs = systemClock.monotonicMs();
  const result = await within(STEP_TIMEOUT_MS, (deadline) => transport.send(endpoint, beat, [], deadline));
  const tookMs = Math.round(systemClock.monotonicMs() - startedAtMs);
  const { well, what, advice } = explainResult(result, settings, key, tookMs);
  tell('beat', well, what);
  for (const line of advice) tell('', 'note', line);
  return well;
}

function explainResult(
  result: TryResult,
  settings: Settings,
  key: BeaconKey,
  tookMs: number,
): { well: boolean; what: string; advice: readonly string[] } {
  const advise = (codes: readonly string[]): string[] =>
    [...new Set(codes)].flatMap((code) => adviceOn(code, settings, key.publicKey) ?? []);
  switch (result.kind) {
    case 'acked': {
      const { recordedBy, missing, quorum } = result.ack;
      const lacking = missing.map(({ observer, code }) => `${observer} (${code})`).join(', ');
      const what =
        `recorded by ${recordedBy.join(', ')}; a quorum is ${quorum}; ${tookMs} ms` +
        (lacking === '' ? '' : `; not by ${lacking}`);
      return { well: recordedBy.length >= quorum, what, advice: advise(missing.map(({ code }) => code)) };
    }
    case 'refused':
      return { well: false, what: `refused: ${result.code}: ${result.why}`, advice: advise([result.code]) };
    case 'failed':
      return { well: false, what: `${result.failure}: ${result.why}`, advice: [] };
  }
}
