import { type BeaconStatus, isWell } from './status.ts';

/** The status for a person, a fact a line. */
export function statusText(status: BeaconStatus, uptimeMs: number): string {
  const { lastAck, lastBeat, observers, kubelet, api, checks } = status;
  const ago = (atMs: number): string => `${seconds(uptimeMs - atMs)} ago`;
  const told = ({ state, why }: { state: string; why?: string | undefined }): string =>
    why === undefined ? state : `${state}: ${why}`;
  const rows: readonly (readonly [string, string])[] = [
    ['beats', isWell(status, uptimeMs) ? 'arrive' : 'do NOT arrive'],
    ...(lastBeat?.why === undefined ? [] : [['why not', lastBeat.why] as const]),
    [
      'last ack',
      lastAck === undefined
        ? 'none since the start'
        : `${ago(lastAck.atMs)}, round trip ${lastAck.roundTripMs} ms, ${lastAck.transport}, ${lastAck.endpoint}`,
    ],
    ...Object.entries(observers).map(([name, atMs]) => [`  ${name}`, ago(atMs)] as const),
    [
      'delivered',
      `${status.delivered} of ${status.beats} beats in ${seconds(uptimeMs - status.startedAtMs)}`,
    ],
    ['kubelet', told(kubelet)],
    ['API path', api.roundTripMs === undefined ? told(api) : `${told(api)}, ${api.roundTripMs} ms`],
    ...checks.map((check) => [`  ${check.name}`, told(check)] as const),
    ['node', `${status.node}, uid ${status.uid ?? 'not known yet'}`],
    [
      'for',
      `cluster ${status.cluster} of deployment ${status.deployment}, every ${seconds(status.intervalMs)}`,
    ],
    ['key', status.kid],
    ['beacon', status.beacon],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `${name.padEnd(width)}  ${value}\n`).join('');
}

function seconds(ms: number): string {
  return `${Math.max(0, Math.round(ms / 100) / 10)} s`;
}
