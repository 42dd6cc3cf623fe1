import type { FC } from 'hono/jsx';
import type { Alert, ClusterStatus, Phase, RegionStatus } from '../../core/arbiter/view.ts';
import { Ago, Badge, Nodes } from './nodes.tsx';
import { clock, duration, MODE_WORDS, PHASE_WORDS, shown, STATE_WORDS } from './words.ts';

/** Alerts shown; the API has them all. */
const MAX_ALERTS = 20;

const Counts: FC<{ status: ClusterStatus }> = ({ status }) => {
  const counts = new Map<Phase, number>();
  for (const { phase } of status.nodes) counts.set(phase, (counts.get(phase) ?? 0) + 1);
  return (
    <ul class="counts" aria-label="Nodes by phase">
      {(Object.keys(PHASE_WORDS) as Phase[]).map((phase) => {
        const count = counts.get(phase);
        return (
          count !== undefined && (
            <li>
              <strong>{count}</strong>{' '}
              <span class={`${PHASE_WORDS[phase].tone}-text`}>{PHASE_WORDS[phase].text}</span>
            </li>
          )
        );
      })}
    </ul>
  );
};

const Region: FC<{ region: RegionStatus }> = ({ region }) => (
  <li>
    <strong>{shown(region.region, 20)}</strong>{' '}
    {region.blind === undefined ? (
      <span>hears {region.nodesHeard}</span>
    ) : (
      <span class="warn-text">blind: {shown(region.blind, 120)}</span>
    )}
    <span class="muted">
      {region.reportedAgoMs === undefined
        ? ', has not reported'
        : `, reported ${duration(region.reportedAgoMs)} ago`}
    </span>
  </li>
);

const Alerts: FC<{ alerts: readonly Alert[]; atMs: number }> = ({ alerts, atMs }) => (
  <section class="alerts">
    <h3>
      Alerts <span class="muted">{alerts.length}</span>
    </h3>
    <ul>
      {alerts.slice(0, MAX_ALERTS).map((alert) => (
        <li>
          <code>{shown(alert.code, 60)}</code>{' '}
          {alert.node !== undefined && <strong>{shown(alert.node, 253)} </strong>}
          {shown(alert.message)}{' '}
          <span class="muted">
            for <Ago sinceMs={alert.sinceMs} atMs={atMs} />
          </span>
        </li>
      ))}
      {alerts.length > MAX_ALERTS && <li class="muted">{alerts.length - MAX_ALERTS} more in the API</li>}
    </ul>
  </section>
);

const Banner: FC<{ status: ClusterStatus }> = ({ status }) => {
  const { hold, api, atMs } = status;
  return (
    <div class={`banner ${STATE_WORDS[status.state].tone}`}>
      <p>
        <Badge word={STATE_WORDS[status.state]} /> <span>{shown(status.why)}</span>
      </p>
      {hold !== undefined && (
        <p>
          Held for <Ago sinceMs={hold.sinceMs} atMs={atMs} />
          {hold.kind === 'mode'
            ? ''
            : `: ${hold.nodes.length} nodes, ${Math.round(hold.share * 100)} % of those that were beating`}
          . To release it, with the admin token:{' '}
          <code>
            POST /v1/clusters/{status.cluster}/holds/{shown(hold.id, 64)}/release
          </code>
        </p>
      )}
      {api.state === 'unreachable' && (
        <p>
          <Badge word={{ sign: '✕', text: "The cluster's API is unreachable", tone: 'bad' }} /> for{' '}
          <Ago sinceMs={api.sinceMs} atMs={atMs} />. {api.why !== undefined && shown(api.why)}
        </p>
      )}
    </div>
  );
};

/** One cluster as the arbiter last described it. */
export const Cluster: FC<{ status: ClusterStatus }> = ({ status }) => {
  const heading = `cluster-${status.cluster}`;
  return (
    <section class="cluster" aria-labelledby={heading}>
      <header>
        <h2 id={heading}>{status.cluster}</h2>
        <span class="mode">{MODE_WORDS[status.mode]}</span>
        <span class="muted as-of">
          as of <time datetime={new Date(status.atMs).toISOString()}>{clock(status.atMs)}</time>
        </span>
      </header>
      <Banner status={status} />
      <Counts status={status} />
      <ul class="regions" aria-label="Observers by region">
        {status.regions.map((region) => (
          <Region region={region} />
        ))}
      </ul>
      {status.alerts.length > 0 && <Alerts alerts={status.alerts} atMs={status.atMs} />}
      <Nodes status={status} />
    </section>
  );
};

/** A cluster whose arbiter cannot be asked. What it last said is not shown: it may be wrong by now. */
export const SilentCluster: FC<{ name: string }> = ({ name }) => (
  <section class="cluster" aria-labelledby={`cluster-${name}`}>
    <header>
      <h2 id={`cluster-${name}`}>{name}</h2>
    </header>
    <div class="banner bad">
      <p>
        <Badge word={{ sign: '?', text: 'Nothing is known', tone: 'bad' }} />{' '}
        <span>The arbiter of this cluster does not answer. It is asked again all the time.</span>
      </p>
    </div>
  </section>
);
