import { z } from 'zod';
import type { ClusterConfig } from '../../config.ts';
import { toRfc3339Seconds } from '../../core/rfc3339.ts';
import { type Ask, type Asked, whyOf } from './ask.ts';
import { type DoctorRow, fail, ok, unknown, warn } from './row.ts';

/*
 * Two writes that are never carried out (`dryRun=All`): the one that farpulse exists for must be taken, and one that it
 * must never do must be refused by our admission policy. The dry run is a word in the query, so it is first made sure
 * that the query arrives: were it dropped on the way, the first would be a wrong verdict on a healthy Node.
 */

/** A dry run is given up after so many Nodes that cannot be used, and after so many conflicts. */
const MAX_TRIES = 3;

const Node = z.object({
  kind: z.literal('Node'),
  metadata: z.object({
    uid: z.string().min(1),
    resourceVersion: z.string().min(1),
    annotations: z.record(z.string(), z.string()).nullish(),
  }),
  status: z.object({
    conditions: z.array(z.looseObject({ type: z.string(), status: z.string() })).nullish(),
  }),
});
type Node = z.infer<typeof Node>;

const NodeList = z.object({ kind: z.literal('NodeList'), items: z.array(z.unknown()).nullable() });

interface Subject {
  readonly name: string;
  readonly node: Node;
}

/** The admission policies, and the write itself, tried on one Node of the inventory. */
export async function examineWrites(
  config: ClusterConfig,
  ask: Ask,
  mayPatchNodes: boolean,
  names: readonly string[],
  now: () => number,
): Promise<readonly DoctorRow[]> {
  const neither = (found: string, todo: string): readonly DoctorRow[] => [
    unknown('admission-policy', found, todo),
    unknown('dry-run-write', found, todo),
  ];
  if (config.mode === 'observe') {
    return neither(
      'not tried: in mode observe the account may write nothing at all',
      'kubectl get validatingadmissionpolicies',
    );
  }
  if (!mayPatchNodes)
    return neither('not tried: the permission to patch nodes/status is missing or not known', 'see its row');
  const arrives = await queryArrives(ask);
  if (arrives !== true) {
    return neither(
      `not tried, because a dry run might be taken for a write: ${arrives}`,
      'whatever stands before the API server must pass on the query of a URL',
    );
  }
  const subject = await findSubject(ask, names);
  if (subject === undefined) {
    return neither(
      'not tried: no Node of the inventory has Ready=True or False and is not ignored',
      'run it again once there is one',
    );
  }
  const forbidden = await dryRun(ask, subject, 'True', now);
  const wanted = await dryRun(ask, subject, 'Unknown', now);
  return [policyRow(config, subject, forbidden), writeRow(config, subject, wanted)];
}

/** A list of the Nodes with a name that none has: empty, unless the query was lost. */
async function queryArrives(ask: Ask): Promise<true | string> {
  const asked = await ask({ path: '/api/v1/nodes?fieldSelector=metadata.name%3Dno.such.node.farpulse' });
  if (!asked.ok) return whyOf(asked.failure);
  const list = NodeList.safeParse(asked.body).data;
  if (list === undefined) return 'the answer is no list of Nodes';
  return (list.items ?? []).length === 0 || 'the query of a URL does not arrive';
}

async function findSubject(ask: Ask, names: readonly string[]): Promise<Subject | undefined> {
  for (const name of names.slice(0, MAX_TRIES)) {
    const asked = await ask({ path: `/api/v1/nodes/${encodeURIComponent(name)}` });
    const node = asked.ok ? Node.safeParse(asked.body).data : undefined;
    if (node === undefined || node.metadata.annotations?.['farpulse/ignore'] === 'true') continue;
    const ready = node.status.conditions?.find(({ type }) => type === 'Ready');
    if (ready?.status === 'True' || ready?.status === 'False') return { name, node };
  }
  return undefined;
}

async function dryRun(
  ask: Ask,
  subject: Subject,
  status: 'True' | 'Unknown',
  now: () => number,
): Promise<Asked> {
  let { node } = subject;
  for (let tries = 1; ; tries += 1) {
    const { uid, resourceVersion } = node.metadata;
    const ready = {
      type: 'Ready',
      status,
      reason: 'FarpulseDoctor',
      message: 'a dry run',
      lastTransitionTime: toRfc3339Seconds(now()),
    };
    const asked = await ask({
      method: 'PATCH',
      path: `/api/v1/nodes/${encodeURIComponent(subject.name)}/status?dryRun=All&fieldManager=farpulse&fieldValidation=Strict`,
      body: { metadata: { uid, resourceVersion }, status: { conditions: [ready] } },
    });
    if (asked.ok || asked.failure.kind !== 'conflict' || tries === MAX_TRIES) return asked;
    // Somebody else wrote in between, as kubelets do.
    const again = await ask({ path: `/api/v1/nodes/${encodeURIComponent(subject.name)}` });
    const read = again.ok ? Node.safeParse(again.body).data : undefined;
    if (read === undefined) return again;
    node = read;
  }
}

/** The policy of ours that refused, by the API server's words. */
function policyIn(why: string): string | undefined {
  return /ValidatingAdmissionPolicy '(farpulse-[a-z-]+)'/.exec(why)?.[1];
}

function policyRow({ mode }: ClusterConfig, { name }: Subject, asked: Asked): DoctorRow {
  const check = 'admission-policy';
  const todo = `kubectl apply -k deploy/overlays/${mode}, and use the account of deploy/, which its policies know by name`;
  if (asked.ok)
    return fail(check, `Ready=True on ${name} was not refused (dry run): nothing bounds the account`, todo);
  const why = whyOf(asked.failure);
  const policy = policyIn(why);
  if (policy !== undefined) return ok(check, `in force: ${policy} refuses Ready=True on ${name} (dry run)`);
  if (asked.failure.kind === 'refused')
    return fail(check, `refused, but not by a policy of ours: ${why}`, todo);
  return unknown(check, why, 'run it again');
}

function writeRow({ mode }: ClusterConfig, { name }: Subject, asked: Asked): DoctorRow {
  const check = 'dry-run-write';
  if (asked.ok) {
    const ready = Node.safeParse(asked.body).data?.status.conditions?.find(({ type }) => type === 'Ready');
    return ready?.status === 'Unknown'
      ? ok(check, `Ready=Unknown on ${name} would be taken (dry run)`)
      : fail(
          check,
          `Ready=Unknown on ${name} would be changed on the way (dry run)`,
          'which webhook or policy mutates Nodes? kubectl get mutatingwebhookconfigurations',
        );
  }
  const why = whyOf(asked.failure);
  if (asked.failure.kind !== 'refused' && asked.failure.kind !== 'invalid')
    return unknown(check, why, 'run it again');
  if (/farpulse is disarmed/.test(why)) {
    return warn(
      check,
      why,
      'to arm it: kubectl -n farpulse annotate serviceaccount detector farpulse/disarmed-',
    );
  }
  return fail(
    check,
    why,
    policyIn(why) === undefined
      ? 'let whatever refuses it (RBAC, a webhook, a policy of yours) except the account of farpulse'
      : `kubectl apply -k deploy/overlays/${mode}`,
  );
}
