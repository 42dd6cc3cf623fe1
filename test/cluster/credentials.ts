// Who may speak to the test API server. A token file is read once, at its start, so every account
// has to be known by then.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export interface Account {
  readonly user: string;
  readonly groups?: readonly string[];
}

export const ADMIN: Account = { user: 'admin', groups: ['system:masters'] };

export function kubeletAccount(nodeName: string): Account {
  return { user: `system:node:${nodeName}`, groups: ['system:nodes'] };
}

/** A fresh token for each account, by user. */
export function drawTokens(accounts: readonly Account[]): Map<string, string> {
  return new Map(accounts.map(({ user }) => [user, randomBytes(24).toString('base64url')]));
}

export async function writeTokenFile(
  file: string,
  accounts: readonly Account[],
  tokens: ReadonlyMap<string, string>,
): Promise<void> {
  const lines = accounts.map(({ user, groups = [] }, index) => {
    const fields = [tokens.get(user) ?? '', user, String(index + 1)];
    // An empty field would be a group without a name.
    if (groups.length > 0) fields.push(groups.join(','));
    return fields.map((field) => `"${field}"`).join(',');
  });
  await writeFile(file, `${lines.join('\n')}\n`, { mode: 0o600 });
}

/** The key pair that service-account tokens are signed with. */
export async function writeServiceAccountKeys(
  folder: string,
): Promise<{ publicKeyFile: string; privateKeyFile: string }> {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const publicKeyFile = join(folder, 'service-account.pub');
  const privateKeyFile = join(folder, 'service-account.key');
  await writeFile(publicKeyFile, publicKey.export({ type: 'spki', format: 'pem' }));
  await writeFile(privateKeyFile, privateKey.export({ type: 'sec1', format: 'pem' }), { mode: 0o600 });
  return { publicKeyFile, privateKeyFile };
}

export interface KubeconfigContent {
  readonly url: string;
  /** PEM. */
  readonly ca: string;
  readonly user: string;
  readonly token: string;
}

/** Written as JSON, which every reader of a kubeconfig's YAML takes. */
export async function writeKubeconfig(
  file: string,
  { url, ca, user, token }: KubeconfigContent,
): Promise<void> {
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'test',
        cluster: { server: url, 'certificate-authority-data': Buffer.from(ca).toString('base64') },
      },
    ],
    users: [{ name: user, user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user } }],
    'current-context': 'test',
  };
  await writeFile(file, `${JSON.stringify(config, null, 2)}\n`, { mode: 0o600 });
}
