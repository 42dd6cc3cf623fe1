import type { BeaconStatus } from './status.ts';

type Labels = Readonly<Record<string, string>>;
type Sample = readonly [labels: Labels, value: number];

/** The status in Prometheus' text format. Absent where nothing is known: a 0 would look like a finding. */
export function metricsText(status: BeaconStatus): string {
  const { beacon, cluster, node, kid, lastAck, kubelet, api, checks } = status;
  const families: readonly (readonly [
    name: string,
    type: 'gauge' | 'counter',
    help: string,
    samples: readonly Sample[],
  ])[] = [
    ['info', 'gauge', 'Which beacon this is.', [[{ beacon, cluster, node, key: kid }, 1]]],
    ['interval_seconds', 'gauge', 'Time between two beats.', [[{}, status.intervalMs / 1000]]],
    ['beats_total', 'counter', 'Beats that came to an end since the start.', [[{}, status.beats]]],
    [
      'beats_delivered_total',
      'counter',
      'Beats that a quorum of observers has recorded.',
      [[{}, status.delivered]],
    ],
    [
      'last_ack_timestamp_seconds',
      'gauge',
      'When a quorum last recorded a beat.',
      lastAck === undefined ? [] : [[{}, lastAck.wallMs / 1000]],
    ],
    [
      'round_trip_seconds',
      'gauge',
      'How long the last recorded beat took.',
      lastAck === undefined ? [] : [[{}, lastAck.roundTripMs / 1000]],
    ],
    ['kubelet_ok', 'gauge', "Whether the kubelet's healthz answers ok.", judged({}, kubelet.state)],
    ['api_path_ok', 'gauge', 'Whether this node reaches its API server.', judged({}, api.state)],
    [
      'check_ok',
      'gauge',
      "What the operator's checks came to.",
      checks.flatMap(({ name, state }) => judged({ check: name }, state)),
    ],
  ];
  return families
    .filter(([, , , samples]) => samples.length > 0)
    .map(([name, type, help, samples]) => {
      const full = `farpulse_beacon_${name}`;
      const lines = samples.map(([labels, value]) => `${full}${labelText(labels)} ${value}`);
      return [`# HELP ${full} ${help}`, `# TYPE ${full} ${type}`, ...lines, ''].join('\n');
    })
    .join('');
}

function judged(labels: Labels, state: string): Sample[] {
  return state === 'unknown' ? [] : [[labels, state === 'ok' ? 1 : 0]];
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}
