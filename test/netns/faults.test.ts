import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { CREDENTIALS, PROXY_PORT } from './support/orders.ts';
import { filterArriving, inNamespace, ip, removeLeftovers, requireTools } from './support/namespaces.ts';
import {
  EDGE_V4,
  EDGE_V6,
  INTERVAL_MS,
  OTHER_EDGE_V4,
  type Setting,
  uptimeMs,
  World,
} from './support/world.ts';

/*
 * A real beacon over a real, faulty network. Faults are rules of nftables on what arrives at an end (so no sender is
 * told), a queue of tc, a cable that is pulled, or the edge's own conduct.
 */

const FLOOD = fileURLToPath(new URL('support/flood.ts', import.meta.url));
const HANG = fileURLToPath(new URL('support/hang.ts', import.meta.url));

const V4_ONLY: Setting = { hosts: [EDGE_V4] };
const BOTH_FAMILIES: Setting = { hosts: [EDGE_V6, EDGE_V4] };
const PROXIED: Setting = {
  hosts: [EDGE_V4],
  env: {
    HTTPS_PROXY: `http://${CREDENTIALS}@${EDGE_V4}:${PROXY_PORT}`,
    NO_PROXY: '.cluster.local,10.0.0.0/8',
  },
};

interface Fault {
  readonly name: string;
  readonly setting?: Setting;
  readonly begin: (world: World) => Promise<void>;
  readonly end: (world: World) => Promise<void>;
}

const clear = async ({ pair }: World): Promise<void> => {
  await filterArriving(pair.edge, []);
  await filterArriving(pair.node, []);
};

beforeAll(async () => {
  await requireTools();
  await removeLeftovers();
});

describe.concurrent('beats are lost, and after the fault the node is alive again within two intervals', () => {
  test.for<Fault & { says: RegExp }>([
    {
      name: 'what the node sends vanishes',
      begin: ({ pair }) => filterArriving(pair.edge, ['meta l4proto tcp drop']),
      end: clear,
      says: /failure=timeout why="gave up connecting"/,
    },
    {
      name: 'what the edge answers vanishes',
      begin: ({ pair }) => filterArriving(pair.node, ['meta l4proto tcp drop']),
      end: clear,
      says: /failure=timeout why="gave up connecting"/,
    },
    {
      name: 'everything vanishes, neighbours included',
      begin: ({ pair }) => ip('-n', pair.edge, 'link', 'set', 'eth0', 'down'),
      end: ({ pair }) => ip('-n', pair.edge, 'link', 'set', 'eth0', 'up'),
      says: /event=beats-failing/,
    },
    {
      name: 'the node has no way out',
      begin: ({ pair }) => ip('-n', pair.node, 'link', 'set', 'eth0', 'down'),
      end: ({ pair }) => ip('-n', pair.node, 'link', 'set', 'eth0', 'up'),
      // A beacon that bun compiled is told ECONNREFUSED.
      says: /failure=tcp why="(no route to that network \(connect ENETUNREACH|.*ECONNREFUSED)/,
    },
    {
      name: 'a firewall resets connections',
      begin: ({ pair }) => filterArriving(pair.edge, ['tcp dport 443 reject with tcp reset']),
      end: clear,
      says: /failure=tcp why="nobody listens there, or a firewall rejects/,
    },
    {
      name: 'the handshake is cut off by name, as some firewalls do',
      // What is longer than a bare SYN or ACK: the client's hello is the first such packet.
      begin: ({ pair }) => filterArriving(pair.edge, ['tcp dport 443 meta length > 200 drop']),
      end: clear,
      says: /failure=timeout why="gave up in the TLS handshake"/,
    },
    {
      name: 'the uplink is full',
      begin: async (world) => {
        await inNamespace(
          world.pair.node,
          'tc',
          ...'qdisc add dev eth0 root tbf rate 256kbit burst 5kb limit 10kb'.split(' '),
        );
        world.spawnOnNode(process.execPath, FLOOD);
      },
      end: async ({ pair }) => {
        await inNamespace(pair.node, 'tc', ...'qdisc del dev eth0 root'.split(' '));
      },
      says: /event=beats-failing/,
    },
    {
      name: 'a captive portal answers 200 under a certificate that is believed',
      begin: (world) => world.order({ answers: 'a portal page' }),
      end: (world) => world.order({ answers: 'acks' }),
      says: /failure=foreign-answer why="answered 200 without an ack \(portal, text\/html\)"/,
    },
    {
      name: 'a captive portal answers under its own certificate',
      begin: (world) => world.order({ certificate: 'portal' }),
      end: (world) => world.order({ certificate: 'edge' }),
      says: /failure=tls why="the certificate is of an authority unknown here: .*\(DEPTH_ZERO_SELF_SIGNED_CERT\)"/,
    },
    {
      name: 'the proxy does not accept the credentials any more',
      setting: PROXIED,
      begin: (world) => world.order({ proxy: '407' }),
      end: (world) => world.order({ proxy: 'open' }),
      says: /failure=proxy why="the proxy 192\.0\.2\.1:3128 does not accept the credentials of HTTPS_PROXY \(407 /,
    },
    {
      name: 'the proxy takes connections and says nothing',
      setting: PROXIED,
      begin: (world) => world.order({ proxy: 'silent' }),
      end: (world) => world.order({ proxy: 'open' }),
      says: /failure=timeout why="gave up asking the proxy"/,
    },
  ])('$name', async ({ setting = V4_ONLY, begin, end, says }) => {
    await using world = await World.open(setting);
    await world.beatsMore('delivered', 2);
    await begin(world);
    await world.beatsMore('lost', 2);
    await world.says(says);
    await end(world);
    const endedAtMs = uptimeMs();
    expect(await world.nextAckAfter(endedAtMs)).toBeLessThanOrEqual(2 * INTERVAL_MS);
    await world.beatsMore('delivered', 1);
    expect(world.said.map(({ line }) => line).join('\n')).not.toMatch(/s3cr|s3cr%40t/);
  });
});

describe.concurrent('no beat is lost', () => {
  const BEATS = 8;

  test.for<{ name: string; setting: Setting; begin?: (world: World) => Promise<void> }>([
    {
      name: 'one packet in twenty vanishes, either way',
      setting: V4_ONLY,
      begin: (world) => losePackets(world, 5),
    },
    {
      name: 'three in a hundred vanish, either way, and every beat needs a new connection',
      setting: V4_ONLY,
      begin: async (world) => {
        await world.order({ closes: true });
        await losePackets(world, 3);
      },
    },
    {
      name: 'the name has an IPv6 address that leads nowhere, from the start',
      setting: {
        ...BOTH_FAMILIES,
        before: ({ pair }) => filterArriving(pair.edge, ['meta nfproto ipv6 meta l4proto tcp drop']),
      },
    },
    {
      name: 'IPv6 breaks under way',
      setting: BOTH_FAMILIES,
      begin: ({ pair }) => filterArriving(pair.edge, ['meta nfproto ipv6 meta l4proto tcp drop']),
    },
    {
      name: 'IPv4 breaks under way',
      setting: { hosts: [EDGE_V4, EDGE_V6] },
      begin: ({ pair }) => filterArriving(pair.edge, ['meta nfproto ipv4 meta l4proto tcp drop']),
    },
    {
      name: 'there is only IPv6',
      setting: {
        hosts: [EDGE_V6],
        before: ({ pair }) => ip('-4', '-n', pair.node, 'address', 'flush', 'dev', 'eth0'),
      },
    },
    {
      name: 'there is only IPv4, and the name has IPv6 addresses',
      setting: {
        ...BOTH_FAMILIES,
        before: ({ pair }) =>
          inNamespace(pair.node, 'sh', '-c', 'echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6'),
      },
    },
    {
      name: 'one of two addresses is dead',
      setting: {
        hosts: [EDGE_V4, OTHER_EDGE_V4],
        before: ({ pair }) => filterArriving(pair.edge, [`ip daddr ${EDGE_V4} meta l4proto tcp drop`]),
      },
    },
    {
      name: 'one of two addresses takes connections and never answers',
      setting: {
        hosts: [EDGE_V4, OTHER_EDGE_V4],
        before: ({ pair }) =>
          filterArriving(pair.edge, [`ip daddr ${EDGE_V4} tcp dport 443 meta length > 200 drop`]),
      },
    },
    {
      name: 'a middlebox has forgotten the connection and says nothing',
      setting: V4_ONLY,
      // Known as established or unknown: what does not begin with a SYN seen since then is dropped.
      begin: ({ pair }) =>
        filterArriving(pair.edge, [
          'tcp flags syn / fin,syn,rst,ack ct mark set 1 accept',
          'ct mark 1 accept',
          'tcp dport 443 drop',
        ]),
    },
    {
      name: 'the resolver hangs, and every beat needs a new connection',
      setting: {},
      begin: async (world) => {
        await world.order({ closes: true });
        await filterArriving(world.pair.edge, ['udp dport 53 drop']);
      },
    },
    {
      name: 'the beacon is started while the resolver hangs, and knows the addresses from before',
      setting: {
        before: async (world) => {
          const addresses = { 'farpulse.test': [{ address: EDGE_V4, family: 4 }] };
          await writeFile(join(world.folder, 'memory.json'), JSON.stringify({ addresses }));
          await filterArriving(world.pair.edge, ['udp dport 53 drop']);
        },
      },
    },
    {
      name: 'kubelet, API server and metadata service take connections and never answer',
      setting: {
        hosts: [EDGE_V4],
        flags: (folder) => [`--kubeconfig=${join(folder, 'kubeconfig')}`],
        before: async (world) => {
          await writeKubeconfig(world, 'https://127.0.0.1:6443');
          await ip('-n', world.pair.node, 'address', 'add', '169.254.169.254/32', 'dev', 'lo');
          world.spawnOnNode(process.execPath, HANG, '10248', '6443', '80');
        },
      },
    },
    {
      name: "the API server's name is not resolved, for a resolver that hangs",
      setting: {
        hosts: [EDGE_V4],
        flags: (folder) => [`--kubeconfig=${join(folder, 'kubeconfig')}`],
        before: async (world) => {
          await writeKubeconfig(world, 'https://api.cluster.test:6443');
          await filterArriving(world.pair.edge, ['udp dport 53 drop']);
        },
      },
    },
  ])('$name', async ({ setting, begin }) => {
    await using world = await World.open(setting);
    await world.beatsMore('delivered', 1);
    await begin?.(world);
    await world.beatsMore('delivered', BEATS);
    expect(world.outcomes.filter((outcome) => outcome !== 'delivered')).toEqual([]);
  });
});

async function losePackets({ pair }: World, percent: number): Promise<void> {
  for (const end of [pair.edge, pair.node]) {
    await filterArriving(end, [`meta l4proto tcp numgen random mod 100 < ${percent} drop`]);
  }
}

async function writeKubeconfig({ folder }: World, server: string): Promise<void> {
  const content = [
    `clusters: [{name: c, cluster: {server: "${server}"}}]`,
    'users: [{name: u, user: {token: none}}]',
    'contexts: [{name: x, context: {cluster: c, user: u}}]',
    'current-context: x',
  ];
  await writeFile(join(folder, 'kubeconfig'), content.join('\n'));
}
