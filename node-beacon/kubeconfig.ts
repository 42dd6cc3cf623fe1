import { X509Certificate } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { z } from 'zod';
import { isLoopback } from './loopback.ts';
import { whyOf } from './text.ts';
import type { TlsTrust } from './transport/exchange.ts';

/** Where kubelets keep their kubeconfig, by distribution. The first that exists is used. */
export const KUBELET_KUBECONFIGS: readonly string[] = [
  '/etc/kubernetes/kubelet.conf', // kubeadm, Kubespray, minikube, kind
  '/var/lib/rancher/k3s/agent/kubelet.kubeconfig', // k3s
  '/var/lib/rancher/rke2/agent/kubelet.kubeconfig', // RKE2
  '/var/snap/microk8s/current/credentials/kubelet.config', // MicroK8s
  '/etc/kubernetes/kubeconfig-kubelet', // Talos
  '/var/lib/k0s/kubelet.conf', // k0s
  '/var/lib/kubelet/kubeconfig-real', // Gardener
  '/var/lib/kubelet/kubeconfig', // kOps, OpenShift
];

export function findKubeconfig(exists: (path: string) => boolean = existsSync): string | undefined {
  return KUBELET_KUBECONFIGS.find((path) => exists(path));
}

/** How to reach an API server, and as whom. */
export interface KubeAccess {
  readonly server: URL;
  /** How to recognise the server. */
  readonly trust: TlsTrust;
  /** How to be recognised: a client certificate, a token, or neither. */
  readonly identity: Pick<TlsTrust, 'cert' | 'key'>;
  readonly token?: string;
  /** The Node that the client certificate is for (`CN=system:node:NAME`), where there is one to tell. */
  readonly nodeName?: string;
}

/** The kubeconfig cannot be used; the message names the field. */
export class KubeconfigError extends Error {
  override readonly name = 'KubeconfigError';
  readonly code = 'kubeconfig-unusable';
}

const OptionalText = z.string().min(1).optional();
const Cluster = z.object({
  server: z.string(),
  'certificate-authority': OptionalText,
  'certificate-authority-data': OptionalText,
  'tls-server-name': OptionalText,
  'insecure-skip-tls-verify': z.boolean().optional(),
});
const User = z.object({
  token: OptionalText,
  tokenFile: OptionalText,
  'client-certificate': OptionalText,
  'client-certificate-data': OptionalText,
  'client-key': OptionalText,
  'client-key-data': OptionalText,
  exec: z.unknown().optional(),
});
const Kubeconfig = z.object({
  'current-context': z.string().optional(),
  contexts: z.array(
    z.object({ name: z.string(), context: z.object({ cluster: z.string(), user: z.string() }) }),
  ),
  clusters: z.array(z.object({ name: z.string(), cluster: Cluster })),
  users: z.array(z.object({ name: z.string(), user: User.nullish() })),
});
type Kubeconfig = z.infer<typeof Kubeconfig>;

/**
 * Reads a kubeconfig (YAML or JSON) and the files it names. Read anew for each use: tokens and client certificates
 * rotate under it.
 *
 * @param serverOverride another address of the same API server
 */
export async function loadKubeconfig(path: string, serverOverride?: string): Promise<KubeAccess> {
  try {
    // Only here: a beacon that leaves the kubeconfig to `enrol` never needs the parser, a tenth of its memory.
    const { parse } = await import('yaml');
    const parsed = Kubeconfig.safeParse(parse(await readFile(path, 'utf8')));
    if (!parsed.success) {
      const issue = parsed.error.issues[0];
      throw new KubeconfigError(`${issue?.path.join('.') || 'content'}: ${issue?.message ?? 'invalid'}`);
    }
    const { cluster, user } = pickContext(parsed.data);
    return await assemble(cluster, user, dirname(path), serverOverride);
  } catch (error) {
    throw new KubeconfigError(`${path}: ${whyOf(error)}`, { cause: error });
  }
}

function pickContext(config: Kubeconfig): { cluster: z.infer<typeof Cluster>; user: z.infer<typeof User> } {
  const wanted = config['current-context'];
  const only = config.contexts.length === 1 ? config.contexts[0] : undefined;
  // A kubelet's kubeconfig has one context; some tools leave current-context out or empty.
  const found = wanted ? config.contexts.find(({ name }) => name === wanted) : only;
  if (found === undefined) throw new KubeconfigError(`current-context: no context named "${wanted ?? ''}"`);
  const cluster = config.clusters.find(({ name }) => name === found.context.cluster)?.cluster;
  if (cluster === undefined) throw new KubeconfigError(`clusters: none named "${found.context.cluster}"`);
  const user = config.users.find(({ name }) => name === found.context.user);
  if (user === undefined) throw new KubeconfigError(`users: none named "${found.context.user}"`);
  return { cluster, user: user.user ?? {} };
}

async function assemble(
  cluster: z.infer<typeof Cluster>,
  user: z.infer<typeof User>,
  folder: string,
  serverOverride: string | undefined,
): Promise<KubeAccess> {
  const pem = async (data: string | undefined, file: string | undefined): Promise<string | undefined> => {
    // Data wins over a file, as in client-go.
    if (data !== undefined) return Buffer.from(data, 'base64').toString('utf8');
    return file === undefined ? undefined : readFile(resolve(folder, file), 'utf8');
  };
  const ca = await pem(cluster['certificate-authority-data'], cluster['certificate-authority']);
  const cert = await pem(user['client-certificate-data'], user['client-certificate']);
  const key = await pem(user['client-key-data'], user['client-key']);
  const token = await readToken(user, folder);
  if (token === undefined && (cert === undefined || key === undefined) && user.exec !== undefined) {
    throw new KubeconfigError(
      'users.exec: credential plugins are not run; give --node-uid and annotate by hand',
    );
  }
  return {
    server: readServer(serverOverride ?? cluster.server),
    trust: {
      ...(ca === undefined ? {} : { ca }),
      ...(cluster['tls-server-name'] === undefined ? {} : { servername: cluster['tls-server-name'] }),
      ...(cluster['insecure-skip-tls-verify'] === true ? { rejectUnauthorized: false } : {}),
    },
    identity: cert !== undefined && key !== undefined ? { cert, key } : {},
    ...(token === undefined ? {} : { token }),
    ...nodeNameIn(cert),
  };
}

/** https://kubernetes.io/docs/reference/access-authn-authz/node/: a kubelet's user name is `system:node:<name>`. */
function nodeNameIn(cert: string | Buffer | undefined): { nodeName?: string } {
  if (cert === undefined) return {};
  try {
    const nodeName = /^CN=system:node:(\S+)$/m.exec(new X509Certificate(cert).subject)?.[1];
    return nodeName === undefined ? {} : { nodeName };
  } catch {
    return {}; // not ours to judge: TLS will
  }
}

async function readToken(user: z.infer<typeof User>, folder: string): Promise<string | undefined> {
  // The file wins, as in client-go: it is what rotates.
  if (user.tokenFile === undefined) return user.token;
  return (await readFile(resolve(folder, user.tokenFile), 'utf8')).trim();
}

function readServer(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url))) return url;
  throw new KubeconfigError(`clusters.server "${text}": expected an https:// URL (http:// on loopback only)`);
}
