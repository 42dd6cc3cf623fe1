import { ClientNotLoaded, failureOf, isAlreadyExists } from './failure.ts';
import { Gate } from './gate.ts';
import type { Client } from './kubernetes-client.ts';
import {
  type Page,
  parseInventoryPage,
  parseLease,
  parseLeasePage,
  parseNode,
  parseOwnLease,
  parsePodPage,
  parseWritten,
} from './parse.ts';
import type { ClusterPort, ClusterResult, NodeEvent } from '../core/cluster-port.ts';

export interface KubernetesOptions {
  /** Base URL of the API server, with a path if it has one. No user or password in it. */
  readonly apiUrl: string;
  /** Bearer token. Never shown in a failure. */
  readonly token?: string;
  /** Further texts that are never shown in a failure. */
  readonly secrets?: readonly string[];
  /** The platform's fetch, or a service binding's bound to it. */
  readonly fetch: typeof fetch;
  /** A label selector for the inventory; empty: all Nodes. */
  readonly nodeSelector: string;
  /** Name of our own Lease. Default: the one that `deploy/` ships. */
  readonly ownLease?: string;
  /**
   * For one request, from sending to the last byte. Default 4 s: a healthy API server needs milliseconds, and a
   * verdict should not wait longer for a sick one. A page of a list gets 2.5 times as much.
   */
  readonly timeoutMs?: number;
}

const DEFAULT_TIMEOUT_MS = 4_000;
const LIST_TIMEOUT_FACTOR = 2.5;
/** A Worker may have six connections that wait for headers; one is left for others of the same object. */
const MAX_REQUESTS = 5;
/** Items per page: client-go's default, and half a megabyte to hold at once. */
const PAGE_SIZE = 500;
const LEASE_NAMESPACE = 'kube-node-lease';
/** Of `deploy/`: the account may read and renew this one Lease. */
const OWN_NAMESPACE = 'farpulse';
export const OWN_LEASE = 'farpulse-detector';
/** For people who look at the Lease: held by nobody, when not renewed for so long (`TAKE_OVER_MS`). */
const OWN_LEASE_SECONDS = 180;
/** Events about objects without a namespace belong here (kubernetes pkg/apis/core/validation/events.go). */
const NODE_EVENT_NAMESPACE = 'default';
const MAX_NAME_CHARS = 253;
/** Limit of the newer events API, which shows the same objects (noteLengthLimit in the same file). */
const MAX_EVENT_MESSAGE_CHARS = 1024;

/** Who we are in managedFields and Events; a typo in a field is an error. */
const AS_FARPULSE = { fieldManager: 'farpulse', fieldValidation: 'Strict' } as const;

/**
 * The port over a real Kubernetes API. Nothing it returns ever rejects: every outcome is a value.
 *
 * Keep one per Durable Object. Its bound on requests at once lives in it, and a Worker's request must not wait for
 * what another one has started.
 */
export function createKubernetesCluster(options: KubernetesOptions): ClusterPort {
  const baseUrl = baseUrlOf(options.apiUrl);
  const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  const gate = new Gate(MAX_REQUESTS);
  const secrets = [options.token ?? '', ...(options.secrets ?? [])];
  let client: Client | undefined;

  async function connect(): Promise<Client> {
    if (client !== undefined) return client;
    const { createClient } = await import('./kubernetes-client.ts').catch((cause: unknown) => {
      throw new ClientNotLoaded('not loaded', { cause });
    });
    client ??= createClient({
      baseUrl,
      token: options.token,
      fetch: options.fetch,
      gate,
      timeoutMs,
      listTimeoutMs: timeoutMs * LIST_TIMEOUT_FACTOR,
    });
    return client;
  }

  async function attempt<T>(call: (client: Client) => Promise<T>): Promise<ClusterResult<T>> {
    try {
      return { kind: 'ok', value: await call(await connect()) };
    } catch (error) {
      return failureOf(error, secrets);
    }
  }

  return {
    listNodes: () =>
      attempt(({ core, listMetadata }) =>
        allPages(async (position) =>
          parseInventoryPage(
            await core.listNode(
              {
                limit: PAGE_SIZE,
                ...(options.nodeSelector !== '' && { labelSelector: options.nodeSelector }),
                // Whatever the watch cache holds, which costs etcd nothing and may be a little behind: an absence
                // counts only after a read of the Node itself. A continue token brings its own version.
                ...(position === '' ? { resourceVersion: '0' } : { _continue: position }),
              },
              listMetadata,
            ),
          ),
        ),
      ),

    // Without resourceVersion a read is consistent: what etcd holds now, not what a cache remembers.
    readNode: (name) => attempt(async ({ core }) => parseNode(await core.readNode({ name }))),

    readLease: (node) =>
      attempt(async ({ coordination }) =>
        parseLease(await coordination.readNamespacedLease({ namespace: LEASE_NAMESPACE, name: node })),
      ),

    // Consistent too: this is evidence for verdicts.
    listLeases: () =>
      attempt(({ coordination, list }) =>
        allPages(async (position) =>
          parseLeasePage(
            await coordination.listNamespacedLease({ namespace: LEASE_NAMESPACE, ...pageAt(position) }, list),
          ),
        ),
      ),

    patchReadyUnknown: ({ node, uid, resourceVersion, reason, message, lastTransitionTime }) =>
      attempt(async ({ core, patch }) => {
        // lastHeartbeatTime stays away: a controller in kubelet mode takes any change of it for a heartbeat.
        const ready = { type: 'Ready', status: 'Unknown', reason, message, lastTransitionTime };
        const body = { metadata: { uid, resourceVersion }, status: { conditions: [ready] } };
        return parseWritten(await core.patchNodeStatus({ name: node, body, ...AS_FARPULSE }, patch));
      }),

    listPods: (node) =>
      attempt(({ core, list }) =>
        allPages(async (position) =>
          parsePodPage(
            await core.listPodForAllNamespaces(
              { fieldSelector: `spec.nodeName=${node}`, ...pageAt(position) },
              list,
            ),
          ),
        ),
      ),

    patchPodNotReady: ({ namespace, name, uid, resourceVersion }, lastTransitionTime) =>
      attempt(async ({ core, patch }) => {
        // As the controller's MarkPodsNotReady does: reason and message stay what they were.
        const ready = { type: 'Ready', status: 'False', lastTransitionTime };
        const body = { metadata: { uid, resourceVersion }, status: { conditions: [ready] } };
        await core.patchNamespacedPodStatus({ namespace, name, body, ...AS_FARPULSE }, patch);
      }),

    readOwnLease: () =>
      attempt(async ({ coordination }) =>
        parseOwnLease(
          await coordination.readNamespacedLease({
            namespace: OWN_NAMESPACE,
            name: options.ownLease ?? OWN_LEASE,
          }),
        ),
      ),

    renewOwnLease: ({ resourceVersion, holder, renewTimeMs }) =>
      attempt(async ({ coordination, patch }) => {
        // A micro time takes nothing but six digits.
        const renewTime = new Date(renewTimeMs).toISOString().replace('Z', '000Z');
        const spec = { holderIdentity: holder, leaseDurationSeconds: OWN_LEASE_SECONDS, renewTime };
        const body = { metadata: { resourceVersion }, spec };
        const name = options.ownLease ?? OWN_LEASE;
        return parseWritten(
          await coordination.patchNamespacedLease(
            { namespace: OWN_NAMESPACE, name, body, ...AS_FARPULSE },
            patch,
          ),
        );
      }),

    createEvent: (event) =>
      attempt(async ({ core, write }) => {
        const body = eventBody(event);
        try {
          await core.createNamespacedEvent({ namespace: NODE_EVENT_NAMESPACE, body, ...AS_FARPULSE }, write);
        } catch (error) {
          // Its name is made of what it says: this is our own, sent again after an answer was lost.
          if (!isAlreadyExists(error)) throw error;
        }
      }),
  };
}

export function baseUrlOf(apiUrl: string): string {
  const url = new URL(apiUrl);
  // Refused rather than dropped, and without repeating it: the text may end in a log.
  if (url.username !== '' || url.password !== '')
    throw new TypeError('apiUrl must not contain a user or password');
  return url.origin + url.pathname.replace(/\/+$/, '');
}

function pageAt(position: string): { readonly limit: number; readonly _continue?: string } {
  return { limit: PAGE_SIZE, ...(position !== '' && { _continue: position }) };
}

/** All pages or none: whatever a page throws ends the list, since a short list would look like vanished nodes. */
async function allPages<T>(read: (position: string) => Promise<Page<T>>): Promise<readonly T[]> {
  const items: T[] = [];
  let position = '';
  do {
    const page = await read(position);
    if (page.next !== '' && page.next === position) throw new Error('the list does not move on');
    items.push(...page.items);
    position = page.next;
  } while (position !== '');
  return items;
}

function eventBody({ node, uid, type, reason, message, atMs }: NodeEvent) {
  const at = new Date(Math.floor(atMs / 1000) * 1000);
  return {
    metadata: { name: eventName(node, reason, atMs), namespace: NODE_EVENT_NAMESPACE },
    // `kubectl describe node` asks twice, by the Node's uid, which the controllers use, and by its name, which the
    // kubelet uses as uid (kubectl pkg/describe, describeNode). Ours names the very instance that was judged.
    involvedObject: { apiVersion: 'v1', kind: 'Node', name: node, uid },
    type,
    reason,
    message: message.slice(0, MAX_EVENT_MESSAGE_CHARS),
    source: { component: 'farpulse' },
    reportingComponent: 'farpulse',
    reportingInstance: 'farpulse',
    count: 1,
    firstTimestamp: at,
    lastTimestamp: at,
  };
}

/** The same for the same event, so that a repeated create meets itself. An RFC 1123 subdomain, as names must be. */
function eventName(node: string, reason: string, atMs: number): string {
  const suffix = `.${reason.toLowerCase().replaceAll(/[^a-z0-9]/g, '')}.${Math.floor(atMs).toString(16)}`;
  return node.slice(0, MAX_NAME_CHARS - suffix.length).replace(/[-.]+$/, '') + suffix;
}
