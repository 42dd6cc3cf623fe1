import type { ClusterConfig } from '../../config.ts';
import type { Phase } from '../../core/arbiter/view.ts';
import { Gate } from '../gate.ts';
import { baseUrlOf } from '../kubernetes.ts';
import { examineCredential, examinePermissions } from './account.ts';
import { type Asked, asker, whyOf } from './ask.ts';
import { examineController } from './controller.ts';
import { lookUpInPublicDns } from './look-up.ts';
import { type DoctorRow, ok, unknown, warn } from './row.ts';
import { answers, examineWay, type LookUp } from './way.ts';
import { examineWrites } from './writes.ts';

export type { DoctorRow } from './row.ts';

/** A node as the arbiter knows it. */
export interface KnownNode {
  readonly name: string;
  readonly phase: Phase;
}

export interface DoctorOptions {
  readonly config: ClusterConfig;
  /** The way to the API, as verdicts take it. */
  readonly fetch: typeof fetch;
  /** Never shown. */
  readonly secrets: readonly string[];
  readonly nodes: readonly KnownNode[];
  /** Whether the inventory has ever been listed. */
  readonly isListed: boolean;
  /** Epoch ms. */
  readonly now: () => number;
  readonly lookUp?: LookUp;
  /** For one request. Default 4 s, as for verdicts. */
  readonly timeoutMs?: number;
}

const TIMEOUT_MS = 4_000;
/** No request begins later than this; with the last one's own limit all is over within 30 s. */
const ALL_WITHIN_MS = 25_000;
/** The arbiter has five for itself, of the six that a Worker may have. */
const REQUESTS_AT_ONCE = 1;
const MAX_CLOCK_SKEW_MS = 5_000;
const MAX_NAMES = 10;

/**
 * Looks at everything that must be right between this Worker and one cluster, from where verdicts are written. At most
 * some thirty requests, one after another; nothing is changed. No row names a credential.
 */
export async function examine(options: DoctorOptions): Promise<readonly DoctorRow[]> {
  const { config, now } = options;
  const { apiUrl } = config;
  const inventory = beaconsRow(options);
  if (apiUrl === undefined) {
    return [
      ok('api', 'none is configured: nodes are only observed, by the keys that the configuration lists'),
      inventory,
    ];
  }
  const ask = asker({
    baseUrl: baseUrlOf(apiUrl),
    token: config.apiToken,
    secrets: options.secrets,
    fetch: options.fetch,
    gate: new Gate(REQUESTS_AT_ONCE),
    timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
    endMs: now() + ALL_WITHIN_MS,
    now,
  });
  const first = await ask({ path: '/version' });
  const clock = clockRow(first, now());
  const way = await examineWay({ ...config, apiUrl }, first, options.lookUp ?? lookUpInPublicDns);
  if (!answers(first))
    return [...way, notAsked('everything else', 'the API server was not reached'), inventory];

  const credential = await examineCredential(config, ask, now());
  if (!credential.isAccepted) {
    return [
      ...way,
      ...credential.rows,
      notAsked('everything else', 'the credential is not accepted'),
      inventory,
      clock,
    ];
  }
  const permissions = await examinePermissions(config, ask);
  const writes = await examineWrites(config, ask, permissions.mayPatchNodes, candidates(options.nodes), now);
  const controller = await examineController(config, ask);
  return [...way, ...credential.rows, ...permissions.rows, ...writes, ...controller, inventory, clock];
}

function notAsked(check: string, why: string): DoctorRow {
  return unknown(check, `not asked: ${why}`, 'mend the failing rows above, then run it again');
}

/** For a dry run: first those that are heard, so that a healthy Node is what is tried. */
function candidates(nodes: readonly KnownNode[]): readonly string[] {
  return nodes
    .toSorted((a, b) => Number(b.phase === 'alive') - Number(a.phase === 'alive'))
    .map(({ name }) => name);
}

function beaconsRow({ nodes, isListed }: DoctorOptions): DoctorRow {
  const check = 'beacons';
  if (!isListed) return unknown(check, 'the inventory has not been listed yet', 'run it again in a minute');
  if (nodes.length === 0) {
    return warn(
      check,
      'the inventory is empty',
      'does `nodeSelector` select any Node? kubectl get nodes --show-labels',
    );
  }
  const unenrolled = nodes.filter(({ phase }) => phase === 'unenrolled');
  if (unenrolled.length > 0) {
    return warn(
      check,
      `${unenrolled.length} of ${nodes.length} Nodes without: ${namesOf(unenrolled)}`,
      'install the beacon there (docs/guides/install-the-beacon.md), or take the Node out by `nodeSelector`',
    );
  }
  const unheard = nodes.filter(({ phase }) => phase === 'new');
  return unheard.length === 0
    ? ok(check, `on all ${nodes.length} Nodes`)
    : warn(
        check,
        `${unheard.length} of ${nodes.length} enrolled, but never heard: ${namesOf(unheard)}`,
        'on the node: journalctl -u farpulse-beacon',
      );
}

function namesOf(nodes: readonly KnownNode[]): string {
  const names = nodes.slice(0, MAX_NAMES).map(({ name }) => name);
  const more = nodes.length - names.length;
  return names.join(', ') + (more > 0 ? ` and ${more} more` : '');
}

/** For people only: no verdict compares two clocks. A Date has whole seconds. */
function clockRow(asked: Asked, nowMs: number): DoctorRow {
  const check = 'clock';
  const dateMs = asked.ok ? Date.parse(asked.date ?? '') : Number.NaN;
  if (Number.isNaN(dateMs)) {
    const why = asked.ok ? 'the answer has no Date' : whyOf(asked.failure);
    return unknown(check, why, 'compare by hand; nothing is judged by it');
  }
  const skewMs = dateMs - nowMs;
  const seconds = (Math.abs(skewMs) / 1000).toFixed(1);
  const found = `the API server's answer is dated ${seconds} s ${skewMs < 0 ? 'behind' : 'ahead of'} this Worker`;
  return Math.abs(skewMs) <= MAX_CLOCK_SKEW_MS
    ? ok(check, found)
    : warn(
        check,
        found,
        'set the clocks of the control plane (NTP); nothing is judged by it, but times in messages mislead',
      );
}
