import { parseArgs } from 'node:util';
import { startLab } from './demo/lab.ts';
import { watchRealCluster } from './demo/real-cluster.ts';
import { tellStory, type Teller } from './demo/story.ts';

const HELP = `Usage: npm start -- [--once] [--nodes N] [--port N]
       npm start -- --kubeconfig FILE [--context NAME] [--port N]

Runs farpulse on this machine: the Worker in local workerd with observers in three regions, an embedded
Kubernetes API, and nodes with real beacon processes. Kills a node, shows what happens and when, brings it
back, and keeps running until Ctrl-C.

  --once             tell the story once; the last line is its timeline as JSON; exit 0 only if all of it happened
  --nodes N          how many nodes (5; at least 3)
  --port N           the page's port (any free one)
  --kubeconfig FILE  observe a real cluster instead: nothing is written to it
  --context NAME     the kubeconfig's context (its current one)
  --help             print this
`;

function fail(message: string): never {
  console.error(`${message}\nSee: npm start -- --help`);
  process.exit(2);
}

function numberOf(name: string, text: string | undefined, least: number): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!Number.isInteger(value) || value < least)
    fail(`--${name}: "${text}" is not a whole number of at least ${least}`);
  return value;
}

function settings() {
  try {
    return parseArgs({
      options: {
        once: { type: 'boolean', default: false },
        nodes: { type: 'string' },
        port: { type: 'string' },
        kubeconfig: { type: 'string' },
        context: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    }).values;
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error));
  }
}

const tell: Teller = (line, sinceKillMs) => {
  const seconds = sinceKillMs === undefined ? '' : `${(sinceKillMs / 1000).toFixed(1)} s`;
  console.log(`${seconds.padStart(8)}  ${line}`);
};

/** Resolves at Ctrl-C, or when asked to end. */
function interrupted(): Promise<void> {
  return new Promise((resolve) => {
    process.once('SIGINT', () => resolve());
    process.once('SIGTERM', () => resolve());
  });
}

/** The story on an embedded cluster. @returns the exit code: 0 only if all of it happened */
async function demo(
  options: { nodes: number; port: number | undefined; once: boolean },
  stop: Promise<void>,
): Promise<number> {
  console.log('Building the Worker and starting it in workerd ...');
  const lab = await startLab({
    nodes: options.nodes,
    ...(options.port !== undefined && { port: options.port }),
  });
  try {
    console.log(`Page:   ${lab.worker.url}/\nStatus: ${lab.worker.url}/v1/clusters/demo/nodes\n`);
    const story = tellStory(lab, tell);
    const result = await Promise.race([story, stop]);
    if (result === undefined) {
      // Interrupted: what the story still waits for will fail, and nobody listens.
      story.catch(() => {});
      return 130;
    }
    if (options.once) {
      console.log(JSON.stringify(result));
    } else {
      console.log('\nThe page goes on. Ctrl-C ends it.');
      await stop;
    }
    return result.wrongVerdicts === 0 ? 0 : 1;
  } finally {
    await lab.stop();
  }
}

async function main(): Promise<number> {
  const { once, nodes, port: portText, kubeconfig, context, help } = settings();
  if (help) {
    console.log(HELP);
    return 0;
  }
  const port = numberOf('port', portText, 0);
  if (kubeconfig === undefined) {
    return demo({ nodes: numberOf('nodes', nodes, 3) ?? 5, port, once }, interrupted());
  }
  if (once || nodes !== undefined)
    fail('--kubeconfig observes a real cluster: --once and --nodes do not go with it');
  await watchRealCluster({ kubeconfig, context, port }, interrupted());
  return 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
