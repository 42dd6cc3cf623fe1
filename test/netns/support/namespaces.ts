import { execFile } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Where a name in `/etc/netns` is, `ip netns exec` shows its files as those of `/etc`. */
const OWN_ETC = '/etc/netns';
const PREFIX = 'farpulse';
const MINE = new RegExp(`^${PREFIX}-(\\d+)-`);

export const NODE_V4 = '192.0.2.10';
export const EDGE_V4 = '192.0.2.1';
/** A second address of the edge. */
export const OTHER_EDGE_V4 = '192.0.2.2';
export const EDGE_V6 = '2001:db8::1';
const NODE_V6 = '2001:db8::10';

let count = 0;

/** @throws with what to do when this machine cannot make network namespaces and faults in them */
export async function requireTools(): Promise<void> {
  if (process.getuid?.() !== 0) throw new Error('network namespaces need root');
  for (const [command, argument] of [
    ['ip', '-V'],
    ['tc', '-V'],
    ['nft', '--version'],
  ] as const) {
    await run(command, [argument]).catch((cause: unknown) => {
      throw new Error(`${command} does not run; on Debian: apt-get install iproute2 nftables`, { cause });
    });
  }
}

/** Two network namespaces and a cable between them. */
export interface Pair {
  readonly node: string;
  readonly edge: string;
}

/**
 * Makes a pair. The addresses are of the ranges for documentation, and no way leads out of the two.
 *
 * @throws when this is not root, or iproute2 is missing
 */
export async function makePair(hosts: string, resolvConf: string): Promise<Pair> {
  count += 1;
  const pair = {
    node: `${PREFIX}-${process.pid}-${count}-node`,
    edge: `${PREFIX}-${process.pid}-${count}-edge`,
  };
  for (const name of [pair.node, pair.edge]) await ip('netns', 'add', name);
  // eth0 at both ends: names of interfaces are of their namespace.
  await ip(
    '-n',
    pair.node,
    'link',
    'add',
    'eth0',
    'type',
    'veth',
    'peer',
    'name',
    'eth0',
    'netns',
    pair.edge,
  );
  await addAddresses(pair.node, NODE_V4, NODE_V6);
  await addAddresses(pair.edge, EDGE_V4, OTHER_EDGE_V4, EDGE_V6);
  await mkdir(`${OWN_ETC}/${pair.node}`, { recursive: true });
  await writeFile(`${OWN_ETC}/${pair.node}/hosts`, `127.0.0.1 localhost\n${hosts}`);
  await writeFile(`${OWN_ETC}/${pair.node}/resolv.conf`, resolvConf);
  return pair;
}

/** Ends what runs in the pair and removes it. */
export async function removePair({ node, edge }: Pair): Promise<void> {
  await Promise.all([node, edge].map(remove));
}

/** Removes what a run that crashed has left: namespaces of ours whose maker is gone. */
export async function removeLeftovers(): Promise<void> {
  const { stdout } = await run('ip', ['netns', 'list']);
  const names = stdout.split('\n').map((line) => line.split(' ')[0] ?? '');
  const left = names.filter((name) => {
    const [, maker] = MINE.exec(name) ?? [];
    return maker !== undefined && !isRunning(Number(maker));
  });
  await Promise.all(left.map(remove));
}

/** Replaces the rules of a namespace: each is added to the hook that sees what arrives. */
export async function filterArriving(namespace: string, rules: readonly string[]): Promise<void> {
  const lines = [
    'add table inet faults', // or there may be none to delete
    'delete table inet faults',
    'add table inet faults',
    'add chain inet faults arriving { type filter hook input priority 0 ; }',
    ...rules.map((rule) => `add rule inet faults arriving ${rule}`),
  ];
  await inNamespace(namespace, 'nft', lines.join('\n'));
}

export async function inNamespace(namespace: string, ...command: string[]): Promise<void> {
  await run('ip', ['netns', 'exec', namespace, ...command]);
}

export async function ip(...args: string[]): Promise<void> {
  await run('ip', args);
}

async function addAddresses(namespace: string, ...addresses: string[]): Promise<void> {
  for (const address of addresses) {
    const isV6 = address.includes(':');
    // nodad: an address that waits for duplicates cannot be used for a second.
    const rest = isV6 ? [`${address}/64`, 'dev', 'eth0', 'nodad'] : [`${address}/24`, 'dev', 'eth0'];
    await ip('-n', namespace, 'address', 'add', ...rest);
  }
  for (const link of ['lo', 'eth0']) await ip('-n', namespace, 'link', 'set', link, 'up');
}

async function remove(namespace: string): Promise<void> {
  const { stdout } = await run('ip', ['netns', 'pids', namespace]);
  for (const pid of stdout.split('\n').filter((line) => line !== '')) {
    try {
      process.kill(Number(pid), 'SIGKILL');
    } catch {
      // ended meanwhile
    }
  }
  await ip('netns', 'delete', namespace);
  await rm(`${OWN_ETC}/${namespace}`, { recursive: true, force: true });
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
