import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { Beat } from '../../../protocol/beat.ts';
import { digestOf, peekBeat } from '../../../protocol/jws.ts';
import { type LocalServer, sendJson, serve } from './local-server.ts';

/* A beacon as a process, and the little that it needs of the world. */

const MAIN = fileURLToPath(new URL('../../../node-beacon/main.ts', import.meta.url));

export interface Beacon {
  readonly process: ChildProcess;
  /** What it has said so far. */
  readonly said: { out: string; err: string };
  /** Its exit status, or the signal that ended it. */
  readonly ended: Promise<number | string | null>;
}

/** Starts the beacon as its unit does; the test's end ends it. */
export function start(...args: readonly string[]): Beacon {
  return startProcess(process.execPath, [MAIN, ...args], { PATH: process.env['PATH'] });
}

/** The same for any command that becomes a beacon. */
export function startProcess(command: string, args: readonly string[], env: NodeJS.ProcessEnv): Beacon {
  const child = spawn(command, args, { env, stdio: 'pipe' });
  const said = { out: '', err: '' };
  child.stdout.on('data', (chunk: Buffer) => (said.out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (said.err += chunk.toString()));
  const ended = once(child, 'close').then(
    ([status, signal]: (number | string | null)[]) => status ?? signal ?? null,
  );
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { process: child, said, ended };
}

/** An edge that acknowledges every beat and keeps it. */
export async function serveEdge(): Promise<{ server: LocalServer; beats: { jws: string; beat: Beat }[] }> {
  const beats: { jws: string; beat: Beat }[] = [];
  const server = await serve((request, response) => {
    const peeked = peekBeat(request.body);
    if (!peeked.ok) return void response.writeHead(400).end();
    beats.push({ jws: request.body, beat: peeked.beat });
    void digestOf(request.body).then((digest) =>
      sendJson(response, 200, { v: 1, digest, recordedBy: ['weur', 'enam'], missing: [], quorum: 2 }),
    );
  });
  return { server, beats };
}

/** An API server with one Node and a kubelet that is well. */
export async function serveCluster(): Promise<{ server: LocalServer; annotations: Record<string, string> }> {
  const annotations: Record<string, string> = {};
  const server = await serve((request, response) => {
    if (request.path === '/healthz') return void response.end('ok');
    if (request.method === 'PATCH') {
      Object.assign(
        annotations,
        (JSON.parse(request.body) as { metadata: { annotations: object } }).metadata.annotations,
      );
    }
    sendJson(response, 200, { metadata: { uid: 'uid-of-node-1', resourceVersion: '1', annotations } });
  });
  return { server, annotations };
}

export async function writeKubeconfig(folder: string, server: string): Promise<string> {
  const path = join(folder, 'kubelet.conf');
  const content = [
    `clusters: [{name: c, cluster: {server: "${server}"}}]`,
    'users: [{name: u, user: {token: secret}}]',
    'contexts: [{name: x, context: {cluster: c, user: u}}]',
    'current-context: x',
  ];
  await writeFile(path, content.join('\n'));
  return path;
}

export function flags(folder: string, edge: string, kubelet: string): string[] {
  const settings = {
    endpoint: edge,
    deployment: 'test',
    cluster: 'berlin',
    node: 'node-1',
    'key-file': join(folder, 'beacon.key'),
    'interval-seconds': '1',
    'kubelet-healthz': `${kubelet}/healthz`,
  };
  return Object.entries(settings).map(([name, value]) => `--${name}=${value}`);
}
