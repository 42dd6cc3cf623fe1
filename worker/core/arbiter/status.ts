import { observerIdOf } from '../shard.ts';
import { FLAPPING_RETURNS, FLAPPING_WINDOW_MS } from './episode.ts';
import { otherHolder, standsDown } from './own-lease.ts';
import type { ArbiterNode, ArbiterState, Episode } from './state.ts';
import type { Alert, ClusterStatus, EpisodeStatus, NodeStatus, RegionStatus } from './view.ts';
import { claimsOn, newestClaim, type Claim } from './witness.ts';

/** What is shown of a cluster. Alerts are derived here from the state, so that none can be forgotten or doubled. */
export function statusOf(state: ArbiterState, nowMs: number): ClusterStatus {
  const { settings } = state;
  const hold = holdStatus(state);
  const nodes = [...state.nodes.values()]
    .map((node) => nodeStatus(state, node, nowMs))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const regions = settings.regions.map((region) => regionStatus(state, region, nowMs));
  const { state: judging, why } = clusterState(state, regions, nowMs);
  return {
    cluster: settings.cluster,
    mode: settings.mode,
    atMs: nowMs,
    state: judging,
    why,
    ...(hold !== undefined && { hold }),
    regions,
    api: {
      state: state.api.state,
      sinceMs: state.api.sinceMs,
      ...(state.api.why !== undefined && { why: state.api.why }),
    },
    inventory: {
      nodes: state.nodes.size,
      enrolled: nodes.filter((node) => node.phase !== 'unenrolled').length,
      ...(state.listedAtMs !== undefined && { listedAgoMs: nowMs - state.listedAtMs }),
    },
    alerts: alertsOf(state, nodes, regions, nowMs),
    nodes,
  };
}

/** The hold that waits for an operator before the one that ends by itself. */
function holdStatus({ hold, modeHold }: ArbiterState): ClusterStatus['hold'] {
  if (modeHold !== undefined) {
    const { id, sinceMs, node } = modeHold;
    return { id, sinceMs, nodes: [node], share: 0, kind: 'mode' };
  }
  return hold && { id: hold.id, sinceMs: hold.sinceMs, nodes: hold.nodes, share: hold.share };
}

function clusterState(
  state: ArbiterState,
  regions: readonly RegionStatus[],
  nowMs: number,
): Pick<ClusterStatus, 'state' | 'why'> {
  const { settings, hold, modeHold, coolDown, breakerOpenUntilMs } = state;
  const other = otherHolder(state);
  if (other !== undefined) return { state: 'hold', why: `${standsDown(other.holder)}: nothing is written` };
  if (modeHold !== undefined) {
    return {
      state: 'hold',
      why: `the controller did not act on ${modeHold.node}, so it may not be in external mode: nothing is written`,
    };
  }
  if (hold !== undefined) {
    const percent = Math.round(hold.share * 100);
    return { state: 'hold', why: `${percent} % of the nodes are missing at once: nothing is written` };
  }
  if (breakerOpenUntilMs !== undefined && nowMs < breakerOpenUntilMs) {
    return { state: 'breaker-open', why: 'live kubelets contradicted us twice: nothing is written' };
  }
  const seeing = regions.filter(
    (region) => region.reportedAgoMs !== undefined && region.blind === undefined,
  ).length;
  if (seeing < settings.quorum) {
    return { state: 'cannot-see', why: `${seeing} of ${settings.quorum} needed regions can judge` };
  }
  if (coolDown !== undefined && nowMs < coolDown.untilMs) {
    return { state: 'cool-down', why: 'after an outage: everybody gets the time to return first' };
  }
  return {
    state: 'judging',
    why: `${seeing} of ${regions.length} regions judge, ${settings.quorum} must agree`,
  };
}

function regionStatus(state: ArbiterState, region: string, nowMs: number): RegionStatus {
  const { shards } = state.settings;
  const reports = Array.from({ length: shards }, (_, shard) =>
    state.reports.get(observerIdOf(region, shard, shards)),
  );
  const known = reports.filter((stored) => stored !== undefined);
  const isDeaf = state.memory.deaf.has(region);
  const blind =
    known.find((stored) => stored.report.blind !== undefined)?.report.blind ?? (isDeaf ? 'deaf' : undefined);
  const oldestMs = Math.min(...known.map((stored) => stored.receivedAtMs));
  const nodesHeard = known.reduce(
    (sum, stored) => sum + stored.report.nodes.filter((node) => node.sight === 'heard').length,
    0,
  );
  return {
    region,
    ...(known.length === shards && { reportedAgoMs: nowMs - oldestMs }),
    nodesHeard,
    ...(blind !== undefined && { blind }),
  };
}

function shown(episode: Episode): EpisodeStatus {
  const { followUp: _f, announced: _a, unenrolled: _u, ...status } = episode;
  return status;
}

function nodeStatus(state: ArbiterState, node: ArbiterNode, nowMs: number): NodeStatus {
  const claims = claimsOn(state, node);
  const newest = newestClaim(claims);
  const episode = node.episode ?? node.lastEpisode;
  return {
    name: node.name,
    uid: node.uid,
    zone: node.zone,
    phase: node.phase,
    sinceMs: node.sinceMs,
    ...(node.cause !== undefined && { cause: node.cause }),
    why: state.memory.whys.get(node.name) ?? unheardWhy(state, node, claims, nowMs) ?? whyOf(node),
    lastHeard: claims.flatMap(({ region, reported, heardAtMs }) =>
      reported === undefined ? [] : [{ region, sight: reported.sight, heardAgoMs: nowMs - heardAtMs }],
    ),
    ...(newest !== undefined && {
      kubelet: newest.reported.kubelet,
      api: newest.reported.api,
      ...(newest.reported.beacon !== undefined && { beacon: newest.reported.beacon }),
      ...(newest.reported.checks !== undefined && { checks: newest.reported.checks }),
      ...(newest.reported.features !== undefined && { features: newest.reported.features }),
    }),
    ...(episode !== undefined && { episode: shown(episode) }),
  };
}

/**
 * What is known of a node that is called alive because no quorum calls it silent, where not all regions hear it: too few
 * can tell, or some do not hear what the others hear. Neither is a verdict, and `beats come` would be a lie.
 */
function unheardWhy(
  state: ArbiterState,
  node: ArbiterNode,
  claims: readonly Claim[],
  nowMs: number,
): string | undefined {
  const newest = newestClaim(claims);
  if (node.phase !== 'alive' || newest === undefined) return undefined;
  const quietMs = nowMs - newest.heardAtMs;
  if (quietMs > newest.reported.timeoutMs) {
    const cannot = claims
      .filter(({ kind }) => kind !== 'heard' && kind !== 'silent')
      .map(({ region, kind, blindness }) => `${region} ${blindness ?? kind}`);
    return `no beat is known for ${lengthOf(quietMs)}, and too few regions can tell (${cannot.join(', ')})`;
  }
  const deaf = claims.filter(
    ({ kind, heardAtMs }) => kind === 'silent' && nowMs - heardAtMs >= UNHEARD_BY_ONE_MS,
  );
  return deaf.length === 0 ? undefined : `beats come, but ${notHeard(state, node, deaf, nowMs)}`;
}

/** "one region of three (weur) has not heard node-7 for 40 min". */
function notHeard(
  { settings: { regions } }: ArbiterState,
  node: ArbiterNode,
  deaf: readonly Claim[],
  nowMs: number,
): string {
  const names = deaf.map(({ region }) => region).join(', ');
  const forMs = nowMs - Math.max(...deaf.map(({ heardAtMs }) => heardAtMs));
  const has = deaf.length === 1 ? 'region' : 'regions';
  const verb = deaf.length === 1 ? 'has' : 'have';
  return `${countOf(deaf.length)} ${has} of ${countOf(regions.length)} (${names}) ${verb} not heard ${node.name} for ${lengthOf(forMs)}`;
}

function lengthOf(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  return minutes < 2 ? `${Math.round(ms / 1_000)} s` : `${minutes} min`;
}

function countOf(count: number): string {
  return ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven'][count] ?? `${count}`;
}

/** The sentence for a phase that no judgement has explained. */
function whyOf(node: ArbiterNode): string {
  switch (node.phase) {
    case 'new':
      return 'enrolled, no beat heard yet';
    case 'alive':
      return 'beats come';
    case 'suspect':
      return 'a quorum of regions does not hear it';
    case 'down':
      return node.episode?.write?.message ?? 'Ready is Unknown already';
    case 'leaving':
      return 'it said that it goes';
    case 'paused':
      return node.paused?.reason ?? 'paused';
    case 'watched':
      return 'no beats, but its kubelet shows life';
    case 'unenrolled':
      return 'its Node names no beacon key';
  }
}

const WRONG_MODE =
  'it is Unknown by our hand, and its pods are still Ready: set --node-liveness-source=external on every ' +
  'kube-controller-manager, or mode = "compat" here; then release the hold with its id';

function alertsOf(
  state: ArbiterState,
  nodes: readonly NodeStatus[],
  regions: readonly RegionStatus[],
  nowMs: number,
): readonly Alert[] {
  const { settings, hold, modeHold, modeUnchecked, api, breakerOpenUntilMs, listRefused } = state;
  const alerts: Alert[] = [];
  if (modeHold !== undefined) {
    const { sinceMs, node } = modeHold;
    alerts.push({ code: 'wrong-mode', sinceMs, message: WRONG_MODE, node });
  }
  const other = otherHolder(state);
  if (other !== undefined) {
    const message = `${standsDown(other.holder)}; stop one of the two, or give each nodes and a \`lease\` of its own`;
    alerts.push({ code: 'another-detector', sinceMs: other.sinceMs, message });
  }
  const leaseTrouble = state.ownLease?.trouble;
  if (leaseTrouble !== undefined && settings.lease !== undefined && settings.mode !== 'observe') {
    const { sinceMs, why } = leaseTrouble;
    const message = `the Lease farpulse/${settings.lease.name} cannot be renewed, and verdicts go on without it: ${why}; kubectl apply -k deploy/overlays/${settings.mode}`;
    alerts.push({ code: 'lease-unavailable', sinceMs, message });
  }
  if (modeUnchecked !== undefined) {
    const { sinceMs, why } = modeUnchecked;
    const message = `whether the controller listens to us cannot be seen: ${why}; kubectl apply -k deploy/overlays/external`;
    alerts.push({ code: 'mode-unchecked', sinceMs, message });
  }
  if (hold !== undefined) {
    const message = `${hold.nodes.length} nodes are missing at once; release with the hold's id if they are really dead`;
    alerts.push({ code: 'hold', sinceMs: hold.sinceMs, message });
  }
  if (breakerOpenUntilMs !== undefined && nowMs < breakerOpenUntilMs) {
    alerts.push({
      code: 'breaker-open',
      sinceMs: state.contradictionsAtMs.at(-1) ?? nowMs,
      message: 'two live kubelets contradicted us',
    });
  }
  if (api.state === 'unreachable') {
    alerts.push({ code: 'api-unreachable', sinceMs: api.sinceMs, message: api.why ?? 'no answer' });
  }
  if (listRefused !== undefined) {
    alerts.push({ code: 'inventory-refused', sinceMs: state.listedAtMs ?? nowMs, message: listRefused });
  }
  for (const region of regions) {
    if (region.blind === undefined) continue;
    alerts.push({
      code: 'region-blind',
      sinceMs: nowMs - (region.reportedAgoMs ?? 0),
      message: `${region.region}: ${region.blind}`,
    });
  }
  for (const node of nodes) alerts.push(...nodeAlerts(state, node, nowMs));
  return alerts;
}

/** Below the quorum nothing is judged, but somebody should look. */
const UNHEARD_BY_ONE_MS = 600_000;

/** Causes that are alerts of their own. A leaving host is expected; its write is not news. */
const ALERTING = new Set(['host-silent', 'kubelet-down', 'beacon-lost', 'contradicted', 'edge-path-cut']);

function nodeAlerts(state: ArbiterState, node: NodeStatus, nowMs: number): readonly Alert[] {
  const alerts: Alert[] = [];
  const isJudged = node.phase === 'down' || node.phase === 'watched';
  if (isJudged && node.cause !== undefined && ALERTING.has(node.cause)) {
    alerts.push({ code: node.cause, sinceMs: node.sinceMs, message: node.why, node: node.name });
  }
  if (node.api?.state === 'cut') {
    alerts.push({
      code: 'api-path-cut',
      sinceMs: node.sinceMs,
      message: node.api.why ?? 'it cannot reach the API server',
      node: node.name,
    });
  }
  const known = state.nodes.get(node.name);
  if (known === undefined) return alerts;
  const tell = (code: string, message: string): void => {
    alerts.push({ code, sinceMs: node.sinceMs, message, node: node.name });
  };
  const write = node.phase === 'suspect' ? known.episode?.write : undefined;
  if (write?.outcome === 'failed')
    tell('write-refused', write.error ?? 'the API server did not take the write');
  const returns = (known.returnsAtMs ?? []).filter((atMs) => nowMs - atMs < FLAPPING_WINDOW_MS);
  if (returns.length >= FLAPPING_RETURNS)
    tell('flapping', `came back ${returns.length} times within an hour`);

  const claims = claimsOn(state, known);
  const timeoutMs = newestClaim(claims)?.reported.timeoutMs ?? 0;
  const suspectForMs = node.phase === 'suspect' ? nowMs - (node.episode?.suspectAtMs ?? nowMs) : 0;
  if (known.veto !== undefined && suspectForMs > 3 * timeoutMs) {
    tell('witnesses-disagree', 'a quorum of regions does not hear it, and another one does');
  }
  const deaf = claims.filter(
    ({ kind, heardAtMs }) => kind === 'silent' && nowMs - heardAtMs >= UNHEARD_BY_ONE_MS,
  );
  if (node.phase === 'alive' && deaf.length > 0)
    tell('region-does-not-hear', notHeard(state, known, deaf, nowMs));
  if (claims.some(({ reported }) => reported?.duplicate === true)) {
    tell('duplicate-identity', 'two machines beat with its key');
  }
  const refusing = claims.find(({ reported }) => reported?.refused !== undefined);
  if (refusing !== undefined) {
    tell('refused-beats', `${refusing.region} refuses its beats: ${refusing.reported?.refused?.code ?? ''}`);
  }
  return alerts;
}
