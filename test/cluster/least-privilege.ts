// The manifests of `deploy/` on a control plane, and the credential they give to farpulse.
import { fileURLToPath } from 'node:url';

import { ApiClient, type ApiResponse, type Method } from './api-client.ts';
import type { ControlPlane } from './plane.ts';

export type Overlay = 'observe' | 'external' | 'compat';

export const DETECTOR = 'system:serviceaccount:farpulse:detector';
export const ACCOUNT = '/api/v1/namespaces/farpulse/serviceaccounts/detector';

interface Permission {
  readonly verb: string;
  readonly group?: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
}

/** The permissions by which the overlays differ, and who has them. */
const DIFFERENCES: readonly (Permission & { readonly overlays: readonly Overlay[] })[] = [
  { verb: 'patch', resource: 'nodes', subresource: 'status', overlays: ['external', 'compat'] },
  { verb: 'create', resource: 'events', namespace: 'default', overlays: ['external', 'compat'] },
  {
    verb: 'patch',
    group: 'coordination.k8s.io',
    resource: 'leases',
    namespace: 'farpulse',
    name: 'farpulse-detector',
    overlays: ['external', 'compat'],
  },
  { verb: 'list', resource: 'pods', overlays: ['external', 'compat'] },
  { verb: 'patch', resource: 'pods', subresource: 'status', overlays: ['compat'] },
];

/** A file or folder of `deploy/`. */
export function manifests(path: string): string {
  return fileURLToPath(new URL(`../../deploy/${path}`, import.meta.url));
}

/** Applies an overlay as an operator would; returns when it is in force, with what kubectl said. */
export async function applyOverlay(plane: ControlPlane, overlay: Overlay): Promise<string> {
  const said = await plane.kubectl('apply', '-k', manifests(`overlays/${overlay}`));
  await untilInForce(plane, overlay);
  return said;
}

/** A token of the account for an hour. Use it only once the account exists. */
export async function detectorToken(plane: ControlPlane): Promise<string> {
  const { status } = await plane.request<{ readonly status: { readonly token: string } }>(
    'POST',
    `${ACCOUNT}/token`,
    { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 3600 } },
  );
  return status.token;
}

/**
 * As the account, with permission for everything: what is refused now, a policy refuses. It is what a binding too
 * many would make of it.
 */
export function respondAlmighty(
  plane: ControlPlane,
  method: Method,
  path: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<ApiResponse> {
  const impersonation = { 'impersonate-user': DETECTOR, 'impersonate-group': 'system:masters' };
  return plane.respond(method, path, body, { ...headers, ...impersonation });
}

/** Policies and permissions take a moment to reach the API server's caches. */
async function untilInForce(plane: ControlPlane, overlay: Overlay): Promise<void> {
  const container = { name: 'main', image: 'pause' };
  const probes: readonly (readonly [policy: string, path: string, body: object])[] = [
    ['farpulse-nodes', '/api/v1/nodes', { metadata: { name: 'probe' } }],
    [
      'farpulse-pods',
      '/api/v1/namespaces/default/pods',
      { metadata: { name: 'probe' }, spec: { containers: [container], automountServiceAccountToken: false } },
    ],
    ['farpulse-everything-else', '/api/v1/namespaces/default/configmaps', { metadata: { name: 'probe' } }],
  ];
  for (const [policy, path, body] of probes) {
    await plane.waitFor(`${policy} to be in force`, async (note) => {
      const answer = await respondAlmighty(plane, 'POST', `${path}?dryRun=All`, body);
      note(answer.body);
      return messageOf(answer).includes(`ValidatingAdmissionPolicy '${policy}'`);
    });
  }
  const detector = new ApiClient({ url: plane.url, ca: plane.ca, token: await detectorToken(plane) });
  for (const { overlays, ...permission } of DIFFERENCES) {
    const wanted = overlays.includes(overlay);
    const what = `${permission.verb} ${permission.resource}/${permission.subresource ?? ''}`;
    await plane.waitFor(
      `${what} to be ${wanted ? 'permitted' : 'refused'}`,
      async () => (await may(detector, permission)) === wanted,
    );
  }
  detector.close();
}

async function may(client: ApiClient, permission: Permission): Promise<boolean> {
  const { status } = await client.request<{ readonly status: { readonly allowed: boolean } }>(
    'POST',
    '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
    { spec: { resourceAttributes: permission } },
  );
  return status.allowed;
}

/** The text of a refusal. */
export function messageOf({ body }: ApiResponse): string {
  return typeof body === 'object' && body !== null && 'message' in body ? String(body.message) : '';
}
