// The operator's guide, followed to the letter: its commands marked as tried, in its order, as cluster admin.
import { readFile } from 'node:fs/promises';
import { delimiter, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { runCommand } from '../../cli/local/processes.ts';
import { buildControlPlane } from './build.ts';
import { startControlPlane, type ControlPlane } from './control-plane.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** What a block must do: after `tried` in its info string. */
const OUTCOMES = { '': '', differs: 'exit code 1', refused: 'farpulse is disarmed' } as const;

interface Block {
  readonly section: string;
  readonly outcome: keyof typeof OUTCOMES;
  readonly script: string;
}

function blocksOf(page: string): Block[] {
  const found = page.matchAll(
    /^## (?<section>[^\n]+)$|^(?<indent> *)```sh tried ?(?<outcome>\w*)\n(?<script>.*?)\n *```$/gms,
  );
  const blocks: Block[] = [];
  let section = '';
  for (const { groups = {} } of found) {
    const { indent = '', outcome = '', script } = groups;
    if (script === undefined) section = groups['section'] ?? '';
    else if (isOutcome(outcome))
      blocks.push({ section, outcome, script: script.replaceAll(`\n${indent}`, '\n').trim() });
    else throw new Error(`a block of "${section}" is marked "${outcome}"`);
  }
  return blocks;
}

function isOutcome(word: string): word is keyof typeof OUTCOMES {
  return word in OUTCOMES;
}

const GUIDE = blocksOf(await readFile(`${ROOT}docs/guides/rollout.md`, 'utf8'));

const KEY = 'a-key-of-a-beacon';

let plane: ControlPlane;
let path: string;

beforeAll(async () => {
  path = `${dirname((await buildControlPlane()).kubectl)}${delimiter}${process.env['PATH'] ?? ''}`;
  plane = await startControlPlane({ nodeNames: ['worker-1'] });
  await plane.startKubelet('worker-1');
  await plane.waitForLease('worker-1');
  await plane.kubectl('annotate', 'node', 'worker-1', `farpulse/beacon-key=${KEY}`);
}, 1_500_000);

afterAll(() => plane?.stop(), 60_000);

/** What an operator looks for in the answer, by a part of the command. */
const ANSWERS: readonly (readonly [command: string, answer: string])[] = [
  ['create token', '\neyJ'],
  ['NAME:.metadata.name,BEACON', KEY],
  ['auth can-i', 'yes'],
  ['{.status} {.reason}', 'True KubeletReady: '],
  ['NODE:.metadata.name,RENEWED', 'worker-1'],
];

function follow(script: string): Promise<string> {
  const setting = [`KUBECONFIG=${plane.adminKubeconfig}`, `PATH=${path}`];
  return runCommand('env', [...setting, 'bash', '-euo', 'pipefail', '-c', script], { cwd: ROOT });
}

test('the guide has commands to try, and each section that changes the cluster is among them', () => {
  const sections = new Set(GUIDE.map(({ section }) => section.replace(/^\d+\. /, '')));
  expect([...sections]).toEqual([
    'An account in the cluster',
    'Beacons',
    'Observe, for some days',
    'Arm it: `compat`',
    'Stop it',
    'External mode',
    'Remove it',
  ]);
});

test.for(GUIDE.map((block) => ({ ...block, name: `${block.section}: ${block.script.split('\n')[0]}` })))(
  '$name',
  async ({ outcome, script }) => {
    const answers = ANSWERS.filter(([command]) => script.includes(command)).map(([, answer]) => answer);
    const wanted = outcome === '' ? answers : [OUTCOMES[outcome]];
    // Caches of permissions and policies, and a Lease that was away, take a moment. What is made or deleted is so once.
    const isOnce = / (?:create|delete) /.test(script);
    await plane.waitFor(
      `${script}\nto give ${wanted.join(', ') || 'success'}`,
      async (note) => {
        const said = outcome === '' ? await follow(script) : await follow(script).catch(String);
        note(said);
        return wanted.every((answer) => said.includes(answer));
      },
      isOnce ? { intervalMs: 60_000 } : { intervalMs: 500 },
    );
  },
);

test('at its end nothing of farpulse is left in the cluster', async () => {
  await plane.waitFor('the namespace to be gone', async (note) => {
    const { status, body } = await plane.respond('GET', '/api/v1/namespaces/farpulse');
    note(body);
    return status === 404;
  });
  const kinds = ['clusterroles', 'clusterrolebindings', 'flowschemas'];
  const policies = ['validatingadmissionpolicies', 'validatingadmissionpolicybindings'];
  const left = await plane.kubectl('get', [...kinds, ...policies].join(','), '-o', 'name');
  expect(left.split('\n').filter((name) => name.includes('farpulse'))).toEqual([]);
  expect((await plane.node('worker-1')).metadata.annotations ?? {}).not.toHaveProperty('farpulse/beacon-key');
});
