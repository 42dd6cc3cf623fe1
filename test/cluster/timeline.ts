// What becomes of a node, as a client sees it: changes of its Ready condition and taints, of its pods'
// readiness and of a Service's endpoints, each with the time at which a watch delivered it.
import { setTimeout as delay } from 'node:timers/promises';

import type { ApiClient, WatchEvent } from './api-client.ts';
import {
  lifecycleTaints,
  readyCondition,
  type EndpointSlice,
  type List,
  type Metadata,
  type Node,
  type Pod,
} from './objects.ts';
import { readyPodsOf } from './workloads.ts';

export interface TimelineEntry {
  /** Wall clock at receipt. */
  readonly atMs: number;
  readonly what: 'node-ready' | 'node-taints' | 'pod-ready' | 'endpoints';
  /** Node, pod or Service. */
  readonly name: string;
  /** `True`, `False`, `Unknown`; or the taints or ready pods, joined by commas. */
  readonly value: string;
  /** Of the Ready condition. */
  readonly reason?: string;
}

export interface TimelineOptions {
  readonly nodeName: string;
  readonly service?: string;
  readonly namespace?: string;
}

const RETRY_MS = 200;

type Seen<T> = (objects: readonly T[], atMs: number) => void;

export class Timeline {
  readonly entries: TimelineEntry[] = [];
  readonly #stop = new AbortController();
  readonly #waiting = new Set<() => void>();
  readonly #lastValue = new Map<string, string>();
  readonly #watches: Promise<void>[] = [];
  #trouble: unknown;

  /** Returns when the first lists are in: the state found by then is not part of the entries. */
  static async record(client: ApiClient, options: TimelineOptions): Promise<Timeline> {
    const timeline = new Timeline();
    const { nodeName, service, namespace = 'default' } = options;
    await Promise.all([
      timeline.#follow<Node>(
        client,
        `/api/v1/nodes?fieldSelector=metadata.name%3D${nodeName}`,
        (nodes, atMs) => {
          for (const node of nodes) {
            const ready = readyCondition(node);
            timeline.#note(
              { atMs, what: 'node-ready', name: nodeName, value: ready?.status ?? '' },
              ready?.reason,
            );
            timeline.#note({
              atMs,
              what: 'node-taints',
              name: nodeName,
              value: lifecycleTaints(node).join(','),
            });
          }
        },
      ),
      timeline.#follow<Pod>(
        client,
        `/api/v1/pods?fieldSelector=spec.nodeName%3D${nodeName}`,
        (pods, atMs) => {
          for (const pod of pods) {
            const ready = readyCondition(pod);
            const name = pod.metadata.name;
            timeline.#note({ atMs, what: 'pod-ready', name, value: ready?.status ?? '' }, ready?.reason);
          }
        },
      ),
      service === undefined ||
        timeline.#follow<EndpointSlice>(
          client,
          `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices` +
            `?labelSelector=kubernetes.io%2Fservice-name%3D${service}`,
          (slices, atMs) =>
            timeline.#note({
              atMs,
              what: 'endpoints',
              name: service,
              value: readyPodsOf(slices).join(','),
            }),
        ),
    ]);
    timeline.entries.length = 0;
    return timeline;
  }

  /** The first entry since `sinceMs` that fits, whether it is there or still to come. */
  async until(
    description: string,
    fits: (entry: TimelineEntry) => boolean,
    options: { readonly sinceMs?: number; readonly timeoutMs?: number } = {},
  ): Promise<TimelineEntry> {
    const { sinceMs = 0, timeoutMs = 60_000 } = options;
    const deadlineMs = performance.now() + timeoutMs;
    for (;;) {
      const found = this.entries.find((entry) => entry.atMs >= sinceMs && fits(entry));
      if (found !== undefined) return found;
      if (this.#stop.signal.aborted) throw new Error(`the timeline was stopped before ${description}`);
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0) {
        const seen = this.entries.map((entry) => JSON.stringify(entry)).join('\n');
        throw new Error(`waited ${timeoutMs / 1000} s for ${description}; seen:\n${seen}`, {
          cause: this.#trouble,
        });
      }
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          clearTimeout(timer);
          this.#waiting.delete(wake);
          resolve();
        };
        const timer = setTimeout(wake, leftMs);
        this.#waiting.add(wake);
      });
    }
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#watches);
    this.#wakeAll();
  }

  /** Lists, then watches on from there; starts over when the server went away. */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- it says what `seen` is given
  async #follow<T extends { readonly metadata: Metadata }>(
    client: ApiClient,
    path: string,
    seen: Seen<T>,
  ): Promise<void> {
    const { signal } = this.#stop;
    const objects = new Map<string, T>();
    let version = '';
    const list = async (): Promise<void> => {
      const answer = await client.request<List<T>>('GET', path);
      objects.clear();
      for (const object of answer.items) objects.set(object.metadata.uid, object);
      version = answer.metadata.resourceVersion;
      seen([...objects.values()], Date.now());
    };
    const onEvent = ({ type, object }: WatchEvent<T>, atMs: number): void => {
      if (type === 'ERROR') throw new Error(`watch of ${path}: ${JSON.stringify(object)}`);
      version = object.metadata.resourceVersion;
      if (type === 'DELETED') objects.delete(object.metadata.uid);
      else if (type !== 'BOOKMARK') objects.set(object.metadata.uid, object);
      seen([...objects.values()], atMs);
    };
    const watch = async (): Promise<void> => {
      while (!signal.aborted) {
        try {
          if (version === '') await list();
          await client.watch<T>(`${path}&watch=true&resourceVersion=${version}`, onEvent, signal);
        } catch (error) {
          this.#trouble = error;
          version = '';
          await delay(RETRY_MS, undefined, { signal }).catch(() => undefined);
        }
      }
    };
    await list();
    this.#watches.push(watch());
  }

  #note(entry: TimelineEntry, reason?: string): void {
    const key = `${entry.what}/${entry.name}`;
    if (this.#lastValue.get(key) === entry.value) return;
    this.#lastValue.set(key, entry.value);
    this.entries.push(reason === undefined ? entry : { ...entry, reason });
    this.#wakeAll();
  }

  #wakeAll(): void {
    for (const wake of this.#waiting) wake();
  }
}
