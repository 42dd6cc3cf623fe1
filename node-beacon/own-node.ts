import { z } from 'zod';
import { KEY_ANNOTATION } from '../protocol/keys.ts';
import type { KubeAccess } from './kubeconfig.ts';
import { clip } from './text.ts';
import { exchange } from './transport/exchange.ts';
import { BEACON_NAME } from './version.ts';

/** What the beacon reads of its own Node. */
export interface OwnNode {
  readonly uid: string;
  readonly resourceVersion: string;
  readonly keyAnnotation: string | undefined;
}

export type NodeAnswer =
  | { readonly kind: 'node'; readonly node: OwnNode }
  /** No such Node (yet). */
  | { readonly kind: 'absent' }
  /** Somebody wrote in between, or the Node is another one by now: read it again. */
  | { readonly kind: 'conflict' }
  /** This credential may not do this. */
  | { readonly kind: 'denied'; readonly why: string }
  | { readonly kind: 'unreachable'; readonly why: string };

/** The two requests a beacon ever makes to the cluster's API about its Node. */
export interface NodeApi {
  read(name: string, signal: AbortSignal): Promise<NodeAnswer>;
  /** Sets the key annotation of exactly the Node that was read. */
  annotate(name: string, read: OwnNode, value: string, signal: AbortSignal): Promise<NodeAnswer>;
}

/** A Node is 3 to 30 KB, its metadata far less. A server that ignores the Accept header sends the whole of it. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
const METADATA_ONLY = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json';

const NodeMetadata = z.object({
  metadata: z.object({
    uid: z.string().min(1),
    resourceVersion: z.string(),
    annotations: z.record(z.string(), z.string()).optional(),
  }),
});

/** The Node by the kubelet's own credential, which may read and annotate this one Node and no other. */
export class KubeNodeApi implements NodeApi {
  readonly #loadAccess: () => Promise<KubeAccess>;

  /** @param loadAccess asked before each request, since credentials rotate */
  constructor(loadAccess: () => Promise<KubeAccess>) {
    this.#loadAccess = loadAccess;
  }

  read(name: string, signal: AbortSignal): Promise<NodeAnswer> {
    return this.#ask(name, undefined, signal);
  }

  annotate(name: string, read: OwnNode, value: string, signal: AbortSignal): Promise<NodeAnswer> {
    const { uid, resourceVersion } = read;
    const metadata = { uid, resourceVersion, annotations: { [KEY_ANNOTATION]: value } };
    return this.#ask(name, JSON.stringify({ metadata }), signal);
  }

  async #ask(name: string, patch: string | undefined, signal: AbortSignal): Promise<NodeAnswer> {
    const { server, trust, identity, token, nodeName } = await this.#loadAccess();
    if (nodeName !== undefined && nodeName !== name) {
      const why = `the kubeconfig is the one of the Node ${nodeName}, not of ${name}: set --node=${nodeName}`;
      return { kind: 'denied', why: clip(why) };
    }
    const headers: Record<string, string> = { accept: METADATA_ONLY, 'user-agent': BEACON_NAME };
    if (token !== undefined) headers['authorization'] = `Bearer ${token}`;
    if (patch !== undefined) headers['content-type'] = 'application/merge-patch+json';
    const answer = await exchange(
      {
        url: new URL(`${server.href.replace(/\/$/, '')}/api/v1/nodes/${name}`),
        method: patch === undefined ? 'GET' : 'PATCH',
        headers,
        ...(patch === undefined ? {} : { body: patch }),
        tls: { ...trust, ...identity },
        maxAnswerBytes: MAX_ANSWER_BYTES,
      },
      signal,
    );
    if (answer.kind === 'failed') return { kind: 'unreachable', why: `${answer.failure}: ${answer.why}` };
    return readAnswer(answer.status, answer.body);
  }
}

function readAnswer(status: number, body: string): NodeAnswer {
  switch (status) {
    case 200:
      return readNode(body);
    case 401:
    case 403:
      return { kind: 'denied', why: clip(`answered ${status}: ${messageOf(body)}`) };
    case 404:
      return { kind: 'absent' };
    case 409:
      return { kind: 'conflict' };
    default:
      return { kind: 'unreachable', why: clip(`answered ${status}: ${messageOf(body)}`) };
  }
}

function readNode(body: string): NodeAnswer {
  const parsed = NodeMetadata.safeParse(parseJson(body));
  if (!parsed.success) return { kind: 'unreachable', why: 'answered 200 without a Node' };
  const { uid, resourceVersion, annotations } = parsed.data.metadata;
  return { kind: 'node', node: { uid, resourceVersion, keyAnnotation: annotations?.[KEY_ANNOTATION] } };
}

/** The message of a Kubernetes Status, or the beginning of whatever came instead. */
function messageOf(body: string): string {
  const status = z.object({ message: z.string() }).safeParse(parseJson(body));
  return status.success ? status.data.message : body;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
