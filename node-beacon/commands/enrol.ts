import { annotateCommand, enrol, type Enrolment } from '../enrolment.ts';
import { type EnrolmentRecord, readEnrolment, writeEnrolment } from '../enrolment-file.ts';
import { loadOrMakeKey } from '../key-file.ts';
import { findKubeconfig, KUBELET_KUBECONFIGS, type KubeAccess, loadKubeconfig } from '../kubeconfig.ts';
import { KubeNodeApi } from '../own-node.ts';
import type { LocalSettings } from '../settings.ts';
import { BROKEN, OK, type Print } from './output.ts';
import { within } from './within.ts';

const TIMEOUT_MS = 20_000;

/** One pass of enrolment, with the kubelet's credential; what came of it is left for the beacon, which has none. */
export async function enrolCommand(settings: LocalSettings, print: Print): Promise<number> {
  const { node, nodeUid, keyFile, enrolmentFile, apiUrl } = settings;
  const { publicKey } = await loadOrMakeKey(keyFile);
  const admin = `An admin enrols this node with\n  ${annotateCommand(node, publicKey)}`;
  const kubeconfig = settings.kubeconfig ?? findKubeconfig();
  if (kubeconfig === undefined && nodeUid !== undefined) {
    print(`nothing to do here: there is no kubeconfig, and the uid is given. ${admin}`);
    return OK;
  }
  if (kubeconfig === undefined) {
    print(`no kubeconfig (yet): give --kubeconfig, or --node-uid. ${admin}`);
    print(`looked for ${KUBELET_KUBECONFIGS.join(', ')}`);
    return BROKEN; // a node that has not joined its cluster yet gets one when it does
  }
  const access = (): Promise<KubeAccess> => loadKubeconfig(kubeconfig, apiUrl);
  const outcome = await within(TIMEOUT_MS, (deadline) =>
    enrol(new KubeNodeApi(access), node, publicKey, deadline),
  );
  if (enrolmentFile !== undefined) await leave(enrolmentFile, node, outcome, access);
  if (outcome.kind === 'enrolled') {
    print(
      `enrolled: the Node ${node} (${outcome.uid}) ${outcome.annotated ? 'now names' : 'names'} this key`,
    );
    return OK;
  }
  print(`not enrolled: ${whyNotEnrolled(outcome, node)}`);
  if (outcome.kind === 'denied' || outcome.kind === 'not-annotated') print(admin);
  return BROKEN;
}

/** One line for a pass that did not enrol. */
export function whyNotEnrolled(outcome: Exclude<Enrolment, { kind: 'enrolled' }>, node: string): string {
  switch (outcome.kind) {
    case 'absent':
      return `there is no Node ${node} (yet): is that its name? See --node`;
    case 'denied':
      return `this credential may not read the Node ${node}: ${outcome.why}`;
    case 'not-annotated':
      return `this credential may not annotate the Node ${node}: ${outcome.why}`;
    case 'unreachable':
      return `the API server does not answer: ${outcome.why}`;
    case 'unusable':
      return outcome.why;
  }
}

async function leave(
  path: string,
  node: string,
  outcome: Enrolment,
  access: () => Promise<KubeAccess>,
): Promise<void> {
  const before = await readEnrolment(path);
  const known = before.kind === 'read' && before.record.node === node ? before.record : undefined;
  const uid = 'uid' in outcome ? outcome.uid : known?.uid;
  const api = await publicPartOf(access).catch(() => known?.api);
  await writeEnrolment(path, {
    node,
    ...(uid === undefined ? {} : { uid }),
    outcome: outcome.kind,
    ...('why' in outcome ? { why: outcome.why } : {}),
    ...(api === undefined ? {} : { api }),
  });
}

async function publicPartOf(access: () => Promise<KubeAccess>): Promise<EnrolmentRecord['api']> {
  const { server, trust } = await access();
  const { ca, servername, rejectUnauthorized } = trust;
  return {
    server: server.href,
    ...(ca === undefined ? {} : { ca: String(ca) }),
    ...(servername === undefined ? {} : { servername }),
    ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
  };
}
