import { decodeJwt } from 'jose';
import { z } from 'zod';
import { type ClusterConfig, type Mode, tokenSecretOf } from '../../config.ts';
import { type Ask, type Asked, whyOf } from './ask.ts';
import { type DoctorRow, fail, ok, unknown, warn } from './row.ts';

/** The account of `deploy/`: its admission policies know it by this name. */
const DETECTOR = 'system:serviceaccount:farpulse:detector';
const DAY_MS = 86_400_000;
const EXPIRES_SOON_MS = 7 * DAY_MS;

const Review = z.object({ status: z.object({ userInfo: z.object({ username: z.string() }) }) });

/** Whose credential it is, by the API server's word, and how long it lasts, by its own. */
export async function examineCredential(
  config: ClusterConfig,
  ask: Ask,
  nowMs: number,
): Promise<{ readonly rows: readonly DoctorRow[]; readonly isAccepted: boolean }> {
  const asked = await ask({
    method: 'POST',
    path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
  });
  return {
    rows: [credentialRow(config, asked), expiryRow(config, nowMs)],
    isAccepted: asked.ok || asked.failure.kind !== 'refused' || asked.failure.status !== 401,
  };
}

function renewal({ name }: ClusterConfig): string {
  return `make a new token (deploy/README.md), then: npx wrangler secret put ${tokenSecretOf(name)}`;
}

function credentialRow(config: ClusterConfig, asked: Asked): DoctorRow {
  const check = 'credential';
  if (!asked.ok) {
    const { failure } = asked;
    if (failure.kind === 'refused' && failure.status === 401) {
      return config.apiToken === undefined
        ? fail(
            check,
            `${tokenSecretOf(config.name)} is not set, and nobody is let in without`,
            renewal(config),
          )
        : fail(check, `${whyOf(failure)} (wrong, expired or revoked)`, renewal(config));
    }
    return unknown(check, whyOf(failure), `whose it is: kubectl auth whoami --token "$TOKEN"`);
  }
  const username = Review.safeParse(asked.body).data?.status.userInfo.username;
  if (username === undefined)
    return unknown(check, 'the API server does not say whose it is', 'kubectl auth whoami --token "$TOKEN"');
  if (username === DETECTOR || config.mode === 'observe') return ok(check, username);
  return warn(
    check,
    `${username}: the admission policies of deploy/ bound only ${DETECTOR}`,
    `use the account of deploy/: ${renewal(config)}`,
  );
}

function expiryRow(config: ClusterConfig, nowMs: number): DoctorRow {
  const check = 'credential-expiry';
  const exp = expiryOf(config.apiToken);
  const look = 'whoever issued it knows when it ends';
  if (exp === 'unreadable') return unknown(check, 'the credential does not say', look);
  if (exp === 'never') return ok(check, 'never: a token without an end');
  const leftMs = exp - nowMs;
  const at = new Date(exp).toISOString().replace('.000Z', 'Z');
  if (leftMs <= 0) return fail(check, `ended ${at}`, renewal(config));
  const left =
    leftMs >= 2 * DAY_MS ? `${Math.floor(leftMs / DAY_MS)} days` : `${Math.floor(leftMs / 3_600_000)} hours`;
  return leftMs < EXPIRES_SOON_MS
    ? warn(check, `ends ${at}, in ${left}`, renewal(config))
    : ok(check, `ends ${at}, in ${left}`);
}

/** Epoch ms, out of a ServiceAccount's token (RFC 7519, 4.1.4). Its signature is the API server's to check. */
function expiryOf(token: string | undefined): number | 'never' | 'unreadable' {
  if (token === undefined) return 'unreadable';
  try {
    const { exp } = decodeJwt(token);
    return exp === undefined ? 'never' : exp * 1_000;
  } catch {
    return 'unreadable';
  }
}

interface Permission {
  readonly verb: string;
  readonly group?: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
  /** Without it verdicts go on; something less is missing. */
  readonly lacking?: string;
}

const LEASES = { group: 'coordination.k8s.io', resource: 'leases' };

/** What a mode asks of the account: the same as its overlay in `deploy/` gives. */
export function permissionsFor(mode: Mode, leaseEvidence: boolean): readonly Permission[] {
  const reads: readonly Permission[] = [
    { verb: 'get', resource: 'nodes' },
    { verb: 'list', resource: 'nodes' },
    ...(leaseEvidence
      ? [
          { ...LEASES, verb: 'get', namespace: 'kube-node-lease' },
          { ...LEASES, verb: 'list', namespace: 'kube-node-lease' },
        ]
      : []),
  ];
  const writes: readonly Permission[] = [
    { verb: 'patch', resource: 'nodes', subresource: 'status' },
    {
      verb: 'create',
      resource: 'events',
      namespace: 'default',
      lacking: 'no Events about Nodes',
    },
    {
      ...LEASES,
      verb: 'patch',
      namespace: 'farpulse',
      name: 'farpulse-detector',
      lacking: 'no Lease that shows in the cluster when the detector was last well',
    },
  ];
  const modeCheck: Permission = {
    verb: 'list',
    resource: 'pods',
    lacking: 'whether the controller listens to us cannot be seen after a write',
  };
  const pods: readonly Permission[] = [
    { verb: 'list', resource: 'pods' },
    { verb: 'patch', resource: 'pods', subresource: 'status' },
  ];
  switch (mode) {
    case 'observe':
      return reads;
    case 'external':
      return [...reads, ...writes, modeCheck];
    case 'compat':
      return [...reads, ...writes, ...pods];
  }
}

const AccessReview = z.object({ status: z.object({ allowed: z.boolean() }) });

/** Asks the API server for each permission: any account may ask that of itself (ClusterRole system:basic-user). */
export async function examinePermissions(
  { mode, policy }: ClusterConfig,
  ask: Ask,
): Promise<{ readonly rows: readonly DoctorRow[]; readonly mayPatchNodes: boolean }> {
  const wanted = permissionsFor(mode, policy.leaseEvidence !== 'off');
  const rows = await Promise.all(wanted.map((permission) => permissionRow(permission, mode, ask)));
  const patch = rows.find(({ check }) => check === 'permission: patch nodes/status');
  return { rows, mayPatchNodes: patch?.state === 'ok' };
}

async function permissionRow(permission: Permission, mode: Mode, ask: Ask): Promise<DoctorRow> {
  const { lacking, ...resourceAttributes } = permission;
  const { verb, resource, subresource, namespace } = permission;
  const what = `${verb} ${resource}${subresource === undefined ? '' : `/${subresource}`}`;
  const where = namespace === undefined ? '' : ` in ${namespace}`;
  const check = `permission: ${what}${where}`;
  const asked = await ask({
    method: 'POST',
    path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
    body: {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      spec: { resourceAttributes },
    },
  });
  const allowed = asked.ok ? AccessReview.safeParse(asked.body).data?.status.allowed : undefined;
  if (allowed === true) return ok(check, 'allowed');
  const todo = `kubectl apply -k deploy/overlays/${mode}`;
  if (allowed === undefined) {
    const why = asked.ok ? 'the answer is no access review' : whyOf(asked.failure);
    return unknown(check, why, `kubectl auth can-i ${what}${where.replace(' in', ' -n')} --as ${DETECTOR}`);
  }
  return lacking === undefined
    ? fail(check, 'not allowed', todo)
    : warn(check, `not allowed: ${lacking}`, todo);
}
