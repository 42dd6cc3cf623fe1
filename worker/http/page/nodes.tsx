import type { FC } from 'hono/jsx';
import type {
  ClusterStatus,
  EpisodeStatus,
  NodeStatus,
  Phase,
  RegionSight,
} from '../../core/arbiter/view.ts';
import {
  byName,
  byUrgency,
  causeWord,
  clock,
  duration,
  isQuiet,
  PHASE_WORDS,
  shown,
  type Word,
} from './words.ts';

/** Rows with words. In a disaster the first ones tell the story, and a page of a megabyte every two seconds does not. */
const MAX_ROWS = 200;

/** Up to this many quiet nodes are shown with every region's age; more are shown as names with one. */
const ROOMY = 60;

export const Badge: FC<{ word: Word }> = ({ word }) => (
  <span class={`badge ${word.tone}`}>
    <span aria-hidden="true">{word.sign}</span> {word.text}
  </span>
);

/** A moment, as the time since then; the moment itself is in the attribute. */
export const Ago: FC<{ sinceMs: number; atMs: number }> = ({ sinceMs, atMs }) => (
  <time datetime={new Date(sinceMs).toISOString()} title={new Date(sinceMs).toISOString()}>
    {duration(atMs - sinceMs)}
  </time>
);

const Sight: FC<{ sight: RegionSight | undefined }> = ({ sight }) => {
  if (sight === undefined) return <span class="muted">never</span>;
  const age = duration(sight.heardAgoMs);
  switch (sight.sight) {
    case 'heard':
      return <>{age}</>;
    case 'late':
      return <span class="warn-text">{age}, late</span>;
    case 'silent':
      return <span class="bad-text">{age}, silent</span>;
    case 'listening':
      return <span class="muted">{age}, listening</span>;
  }
};

const Episode: FC<{ episode: EpisodeStatus }> = ({ episode }) => {
  const { lastBeatAtMs, verdictAtMs, write, returnedAtMs } = episode;
  const steps = [`Last beat ${clock(lastBeatAtMs)}`];
  if (verdictAtMs !== undefined) steps.push(`verdict ${duration(verdictAtMs - lastBeatAtMs)} later`);
  if (returnedAtMs !== undefined) steps.push(`back at ${clock(returnedAtMs)}`);
  return (
    <>
      {write !== undefined && <span class="line">{written(write)}</span>}
      <span class="line muted">{steps.join(', ')}</span>
    </>
  );
};

function written(write: NonNullable<EpisodeStatus['write']>): string {
  const reason = shown(write.reason, 80);
  switch (write.outcome) {
    case 'written':
      return `Unknown written: ${reason}${write.podsMarked === undefined ? '' : `, ${write.podsMarked} pods marked`}`;
    case 'would-write':
      return `Would have written: ${reason}`;
    case 'failed':
      return `Write failed: ${shown(write.error ?? reason, 120)}`;
  }
}

const Row: FC<{ node: NodeStatus; regions: readonly string[]; atMs: number }> = ({ node, regions, atMs }) => (
  <tr>
    <th scope="row">
      {shown(node.name, 253)}
      {node.zone !== '' && <span class="zone">{shown(node.zone, 63)}</span>}
    </th>
    <td>
      <Badge word={PHASE_WORDS[node.phase]} />
    </td>
    <td class="why">
      {node.cause !== undefined && <strong class="line">{causeWord(node.cause)}</strong>}
      <span class="line">{shown(node.why)}</span>
      {node.episode !== undefined && <Episode episode={node.episode} />}
    </td>
    <td class="number">
      <Ago sinceMs={node.sinceMs} atMs={atMs} />
    </td>
    {regions.map((region) => (
      <td class="number">
        <Sight sight={node.lastHeard.find((sight) => sight.region === region)} />
      </td>
    ))}
  </tr>
);

const Abnormal: FC<{ status: ClusterStatus; nodes: readonly NodeStatus[] }> = ({ status, nodes }) => {
  const regions = status.regions.map(({ region }) => region);
  return (
    <div class="scroll" tabindex={0} role="region" aria-label={`Nodes of ${status.cluster} that need a look`}>
      <table>
        <caption>
          Needs a look <span class="muted">{nodes.length}</span>
        </caption>
        <thead>
          <tr>
            <th scope="col">Node</th>
            <th scope="col">Phase</th>
            <th scope="col">Cause, why, and what was done</th>
            <th scope="col" class="number">
              Since
            </th>
            {regions.map((region) => (
              <th scope="col" class="number">
                <span class="unseen">Last heard in </span>
                {region}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {nodes.slice(0, MAX_ROWS).map((node) => (
            <Row node={node} regions={regions} atMs={status.atMs} />
          ))}
        </tbody>
      </table>
      {nodes.length > MAX_ROWS && (
        <p class="muted">
          {nodes.length - MAX_ROWS} more in <a href={`/v1/clusters/${status.cluster}/nodes`}>the API</a>.
        </p>
      )}
    </div>
  );
};

const Quiet: FC<{ phase: Phase; nodes: readonly NodeStatus[] }> = ({ phase, nodes }) => {
  const word = PHASE_WORDS[phase];
  const roomy = nodes.length <= ROOMY;
  return (
    <section class="quiet">
      <h3>
        <span class={`${word.tone}-text`} aria-hidden="true">
          {word.sign}
        </span>{' '}
        {word.text} <span class="muted">{nodes.length}</span>
      </h3>
      <ul class={roomy ? 'roomy' : 'dense'}>
        {nodes.map((node) => (
          <li>
            <span {...(!roomy && { title: shown(node.name, 253) })}>{shown(node.name, 253)}</span>{' '}
            <span>{ages(node, roomy)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
};

/** Every region's age, or only the newest one. */
function ages({ lastHeard }: NodeStatus, all: boolean): string {
  if (lastHeard.length === 0) return '';
  if (!all) return duration(Math.min(...lastHeard.map(({ heardAgoMs }) => heardAgoMs)));
  return lastHeard
    .map(({ region, heardAgoMs }) => `${shown(region, 20)} ${duration(heardAgoMs)}`)
    .join(' · ');
}

const QUIET_PHASES = ['new', 'unenrolled', 'alive'] as const satisfies readonly Phase[];

/** All nodes of a cluster: first, with words, what is not as it should be; then the others, as names. */
export const Nodes: FC<{ status: ClusterStatus }> = ({ status }) => {
  const abnormal = status.nodes.filter((node) => !isQuiet(node)).toSorted(byUrgency);
  const quiet = status.nodes.filter(isQuiet).toSorted(byName);
  return (
    <>
      {abnormal.length > 0 && <Abnormal status={status} nodes={abnormal} />}
      {QUIET_PHASES.map((phase) => {
        const nodes = quiet.filter((node) => node.phase === phase);
        return nodes.length > 0 && <Quiet phase={phase} nodes={nodes} />;
      })}
      {status.nodes.length === 0 && (
        <p class="muted">
          No node is known yet. {status.inventory.nodes} in the inventory, {status.inventory.enrolled}{' '}
          enrolled.
        </p>
      )}
    </>
  );
};
