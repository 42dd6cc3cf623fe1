import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile, rename, rm } from 'node:fs/promises';
import { createFile } from '../atomic-file.ts';
import type { Signs } from '../beat-maker.ts';
import { firstApiPathState } from '../checks/api-path.ts';
import { firstKubeletState } from '../checks/kubelet.ts';
import { systemClock } from '../clock.ts';
import { enrol, enrolExactly } from '../enrolment.ts';
import { readHost } from '../host.ts';
import { type BeaconKey, loadOrMakeKey } from '../key-file.ts';
import { findKubeconfig, loadKubeconfig } from '../kubeconfig.ts';
import type { Log } from '../log.ts';
import { KubeNodeApi } from '../own-node.ts';
import { makeBeatMaker, makeTransport } from '../run.ts';
import { STATUS_FILE } from '../setting-table.ts';
import type { Settings } from '../settings.ts';
import { BeaconStatus } from '../status/status.ts';
import { whyOf } from '../text.ts';
import { whyNotEnrolled } from './enrol.ts';
import { BROKEN, OK, type Print } from './output.ts';
import { within } from './within.ts';

const UNIT = 'farpulse-beacon.service';
const STEP_TIMEOUT_MS = 20_000;
/** Observers look a stranger up every 10 s; an arbiter that is busy, a little later. */
const KNOWN_WITHIN_MS = 90_000;
const RESTARTED_WITHIN_MS = 60_000;
const ASK_EVERY_MS = 3_000;

/** What keeps a rotation from going on, in words for the person who runs it. */
class RotationError extends Error {
  override readonly name = 'RotationError';
  readonly code = 'rotation-stopped';
}

/**
 * Replaces the key without a missed beat:
 *
 * 1. the new key is made beside the old one, and the Node names both;
 * 2. a beat signed with the new one is recorded by a quorum, so observers know it;
 * 3. it takes the old one's place, and the beacon is restarted;
 * 4. the restarted beacon's beats are recorded; then the Node names the new key alone.
 *
 * Interrupted anywhere, it goes on when it is run again: after step 3 it makes no third key.
 */
export async function rotateKeyCommand(settings: Settings, log: Log, print: Print): Promise<number> {
  const kubeconfig = settings.kubeconfig ?? findKubeconfig();
  if (kubeconfig === undefined) {
    print('no kubeconfig: give --kubeconfig. Without one, an admin annotates both keys by hand');
    return BROKEN;
  }
  const api = new KubeNodeApi(() => loadKubeconfig(kubeconfig, settings.apiUrl));
  const { node, keyFile } = settings;
  const nextFile = `${keyFile}.next`;
  const replacedMark = `${keyFile}.replaced`;
  try {
    const isReplaced = existsSync(replacedMark) && !existsSync(nextFile);
    const current = await loadOrMakeKey(keyFile);
    const next = isReplaced ? current : await loadOrMakeKey(nextFile);
    // Exactly: a third key in the annotation must not push the current one out.
    const outcome = await within(STEP_TIMEOUT_MS, (deadline) =>
      isReplaced
        ? enrol(api, node, next.publicKey, deadline)
        : enrolExactly(api, node, [next.publicKey, current.publicKey], deadline),
    );
    if (outcome.kind !== 'enrolled') throw new RotationError(whyNotEnrolled(outcome, node));
    print(`the Node names the new key ${next.kid} beside the old one`);
    await untilKnown(settings, next, outcome.uid, log);
    print('a quorum of observers knows it');
    if (!isReplaced) {
      // The mark first: a running beacon may hold the old key until its restart, and a third one would push that out.
      await createFile(replacedMark, '');
      await rename(nextFile, keyFile);
    }
    print(`it is ${keyFile} now; ${(await restart()) ? `${UNIT} was restarted` : 'RESTART THE BEACON NOW'}`);
    await untilBeatsWith(settings, next);
    print('the beacon beats with it');
    const last = await within(STEP_TIMEOUT_MS, (deadline) =>
      enrolExactly(api, node, [next.publicKey], deadline),
    );
    if (last.kind !== 'enrolled') throw new RotationError(whyNotEnrolled(last, node));
    await rm(replacedMark, { force: true });
    print('the Node names it alone: the old key is void');
    return OK;
  } catch (error) {
    print(`stopped: ${whyOf(error)}`);
    print('until the last step both keys are good; run it again');
    return BROKEN;
  }
}

async function untilKnown(settings: Settings, key: BeaconKey, uid: string, log: Log): Promise<void> {
  const why = 'asked by rotate-key';
  const signs = (): Signs => ({
    kubelet: { ...firstKubeletState(false).sign, why },
    api: firstApiPathState(why).sign,
  });
  const maker = makeBeatMaker(settings, key, readHost(), signs);
  const transport = makeTransport(settings, log);
  const [endpoint = ''] = settings.endpoints;
  try {
    await until(KNOWN_WITHIN_MS, async () => {
      const beat = await maker.make(uid);
      const result = await within(STEP_TIMEOUT_MS, (deadline) =>
        transport.send(endpoint, beat, [], deadline),
      );
      if (result.kind !== 'acked') {
        if (result.kind === 'refused' && result.highestSeq !== undefined) maker.goOnAbove(result.highestSeq);
        return result.kind === 'refused'
          ? `${result.code}: ${result.why}`
          : `${result.failure}: ${result.why}`;
      }
      const { recordedBy, quorum } = result.ack;
      return recordedBy.length >= quorum ? undefined : `known to ${recordedBy.join(', ')} only`;
    });
  } finally {
    transport.close();
  }
}

/** False where no unit of that name runs: then somebody else has to. */
function restart(): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  execFile('systemctl', ['is-active', '--quiet', UNIT], (inactive) => {
    if (inactive !== null) return resolve(false);
    execFile('systemctl', ['restart', UNIT], (error) => resolve(error === null));
  });
  return promise;
}

async function untilBeatsWith({ statusFile = STATUS_FILE }: Settings, { kid }: BeaconKey): Promise<void> {
  await until(RESTARTED_WITHIN_MS, async () => {
    try {
      const status = BeaconStatus.parse(JSON.parse(await readFile(statusFile, 'utf8')));
      if (status.kid !== kid) return `the running beacon still has the key ${status.kid}`;
      return status.lastAck === undefined ? 'the restarted beacon has no ack yet' : undefined;
    } catch (error) {
      return whyOf(error);
    }
  });
}

/** Looks again and again until nothing is in the way any more. */
async function until(ms: number, look: () => Promise<string | undefined>): Promise<void> {
  const endsAtMs = systemClock.monotonicMs() + ms;
  for (;;) {
    const inTheWay = await look();
    if (inTheWay === undefined) return;
    if (systemClock.monotonicMs() > endsAtMs) throw new RotationError(inTheWay);
    await systemClock.sleep(ASK_EVERY_MS);
  }
}
