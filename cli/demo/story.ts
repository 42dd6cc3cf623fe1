import { waitFor } from '../local/wait.ts';
import type { DemoLab, DemoNode } from './lab.ts';

/** What the story measured. Milliseconds from the kill, and for the return from the start of the node. */
export interface StoryResult {
  /** Until farpulse's verdict stood. */
  readonly detectedAfterMs: number;
  /** Until the API said Ready=Unknown and the node's pods were not Ready. */
  readonly writtenAfterMs: number;
  /** From starting the node again until it was alive to farpulse and Ready in the API. */
  readonly recoveredAfterMs: number;
  /** Writes to any node that had not died. */
  readonly wrongVerdicts: number;
}

const JOIN_MS = 60_000;
/** The deadline of `steady` is 22 s after the last beat; twice that and something is wrong. */
const NOTICE_MS = 45_000;
const RETURN_MS = 60_000;

/** Tells what happens, with the seconds since the last turn of the story. */
export type Teller = (line: string, sinceKillMs?: number) => void;

/** One node dies, is noticed, is written, comes back. Throws when anything of it does not happen in time. */
export async function tellStory(lab: DemoLab, tell: Teller): Promise<StoryResult> {
  await allAlive(lab, tell);
  const victim = lab.nodes[Math.floor(lab.nodes.length / 2)];
  if (victim === undefined) throw new Error('the story needs nodes');

  const killedAtMs = Date.now();
  const sinceKill = (): number => Date.now() - killedAtMs;
  await Promise.all([victim.kubelet.kill(), victim.beacon.kill()]);
  tell(`${victim.name} dies: its kubelet and its beacon are killed`, 0);

  await untilPhase(lab, victim, ['suspect', 'down'], NOTICE_MS);
  const suspected = await lab.status.node(victim.name);
  if (suspected?.episode !== undefined) {
    tell('its last beat was received', Date.parse(suspected.episode.lastBeatAt) - killedAtMs);
  }
  tell('suspect: a quorum of regions does not hear it', sinceKill());

  await untilPhase(lab, victim, ['down'], NOTICE_MS);
  const down = await lab.status.node(victim.name);
  const detectedAfterMs = Date.parse(down?.episode?.verdictAt ?? '') - killedAtMs;
  tell(`verdict: ${down?.cause ?? 'unknown cause'} (${down?.why ?? ''})`, detectedAfterMs);

  await waitFor(
    'Ready=Unknown and its pods not Ready',
    (note) => {
      const seen = { ready: lab.ready(victim.name), readyPods: lab.readyPods(victim.name) };
      note(seen);
      return seen.ready === 'Unknown' && seen.readyPods === 0;
    },
    { timeoutMs: NOTICE_MS },
  );
  const writtenAfterMs = sinceKill();
  tell('written: the API says Ready=Unknown, and its pods are not Ready', writtenAfterMs);

  const startedAtMs = Date.now();
  await victim.kubelet.start();
  await victim.beacon.start();
  tell(`${victim.name} is started again`, sinceKill());
  await untilPhase(lab, victim, ['alive'], RETURN_MS);
  await waitFor('Ready=True again', () => lab.ready(victim.name) === 'True', { timeoutMs: RETURN_MS });
  const recoveredAfterMs = Date.now() - startedAtMs;
  tell('alive: beats are back, and its kubelet says Ready=True itself', sinceKill());

  return { detectedAfterMs, writtenAfterMs, recoveredAfterMs, wrongVerdicts: wrongVerdicts(lab, victim) };
}

async function allAlive(lab: DemoLab, tell: Teller): Promise<void> {
  tell(`${lab.nodes.length} nodes start, each with a real beacon process`);
  await waitFor(
    'every node to be alive',
    async (note) => {
      const nodes = await lab.status.nodes();
      note(nodes.map(({ name, phase, why }) => `${name} ${phase}: ${why}`));
      return nodes.filter((node) => node.phase === 'alive').length === lab.nodes.length;
    },
    {
      timeoutMs: JOIN_MS,
      intervalMs: 250,
      giveUp: () => lab.nodes.map(({ beacon }) => beacon.died()).find((error) => error !== undefined),
    },
  );
  tell('all are alive: their beats are recorded by the observers of three regions');
}

async function untilPhase(
  lab: DemoLab,
  victim: DemoNode,
  phases: readonly string[],
  timeoutMs: number,
): Promise<void> {
  await waitFor(
    `${victim.name} to be ${phases.join(' or ')}`,
    async (note) => {
      const node = await lab.status.node(victim.name);
      note(node === undefined ? 'no such node' : `${node.phase}: ${node.why}`);
      return node !== undefined && phases.includes(node.phase);
    },
    { timeoutMs, intervalMs: 250 },
  );
}

function wrongVerdicts(lab: DemoLab, victim: DemoNode): number {
  const right = `/api/v1/nodes/${victim.name}/status`;
  // Kubelet models write through the store, not over HTTP: every PATCH on the wire is farpulse's or a beacon's.
  return lab.api.requests.filter(
    ({ method, path }) =>
      method === 'PATCH' && path.startsWith('/api/v1/nodes/') && path.endsWith('/status') && path !== right,
  ).length;
}
