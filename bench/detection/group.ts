// Nodes that one detector looks after: in a zone of their own, because NoExecute taints are given out at a pace per zone.
import { setTimeout as delay } from 'node:timers/promises';

import type { ControlPlane, Kubelet } from '../../test/cluster/control-plane.ts';
import { lifecycleTaints, readyCondition, type List, type Pod } from '../../test/cluster/objects.ts';
import { Timeline, type TimelineEntry } from '../../test/cluster/timeline.ts';
import type { Absence, Detector, Kill, Measure, ReadySeen } from './figures.ts';
import { GROUP_LABEL, type Judge } from './judges.ts';

/** In a group of four one node is missing at a time: neither share nor hold lengthens the wait. */
export const NODES = 4;
/** Marked one after the other, by farpulse as by the controller. */
export const PODS = 5;

/** The built-in detector after a restart of the controller needs 70 s. */
const NOTICE_MS = 180_000;
const BACK_MS = 120_000;

/**
 * farpulse reads a node again 12 s after it wrote, and in external mode looks at a pod after 15 s. A kubelet that is
 * back before that would be a contradiction to it, and two of those open its breaker.
 */
const REST_MS = 20_000;

interface Member {
  readonly kubelet: Kubelet;
  readonly timeline: Timeline;
  readonly pods: readonly string[];
}

export interface GroupOptions {
  readonly plane: ControlPlane;
  /** Also the zone, and the value of the label. */
  readonly name: string;
  /** Undefined: nobody but the controller judges these nodes. */
  readonly judge: Judge | undefined;
}

export function nodeNames(group: string): string[] {
  return Array.from({ length: NODES }, (_, index) => `${group}-${index + 1}`);
}

export class Group {
  readonly #options: GroupOptions;
  readonly #members: readonly Member[];
  readonly #absences: { node: string; fromMs: number; untilMs?: number }[] = [];
  #killed = 0;

  private constructor(options: GroupOptions, members: readonly Member[]) {
    this.#options = options;
    this.#members = members;
  }

  /** Returns when all nodes are up, with their pods, and heard. From then on every change is recorded. */
  static async start(stack: AsyncDisposableStack, options: GroupOptions): Promise<Group> {
    const { plane, name, judge } = options;
    await plane.createService(name, { group: name });
    // Together: a new node may wait 10 s for its Lease.
    const members = await Promise.all(
      nodeNames(name).map(async (node): Promise<Member> => {
        const kubelet = await plane.startKubelet(node, { zone: name, labels: { [GROUP_LABEL]: name } });
        const pods = Array.from({ length: PODS }, (_, index) => `${node}-${index + 1}`);
        for (const pod of pods) await plane.createPod(pod, node, { labels: { group: name } });
        for (const pod of pods) await plane.waitForPod(pod, 'True');
        await plane.waitForLease(node);
        await judge?.startBeacon(kubelet);
        const timeline = await Timeline.record(plane.client, { nodeName: node, service: name });
        stack.defer(() => timeline.stop());
        return { kubelet, timeline, pods };
      }),
    );
    const group = new Group(options, members);
    for (const member of members) await group.#untilWhole(member);
    return group;
  }

  /** Kills the next node in turn. */
  kill(): Death {
    const member = this.#members[this.#killed++ % this.#members.length];
    if (member === undefined) throw new Error('a group without nodes');
    const { kubelet, timeline, pods } = member;
    const killedAtMs = Date.now();
    const absence = { node: kubelet.name, fromMs: killedAtMs };
    this.#absences.push(absence);
    // Both signals are sent before the first of these promises is waited for.
    const gone = Promise.all([kubelet.kill(), this.#options.judge?.killBeacon(kubelet.name)]);
    return new Death({ node: kubelet.name, service: this.#options.name, pods, timeline, killedAtMs, gone });
  }

  /** Starts the node again; returns when it is wholly back: nothing of its death is left. */
  async bringBack({ node }: Death): Promise<void> {
    const member = this.#members.find(({ kubelet }) => kubelet.name === node);
    const absence = this.#absences.findLast((one) => one.node === node);
    if (member === undefined || absence === undefined) throw new Error(`${node} was not killed`);
    const { judge } = this.#options;
    if (judge !== undefined) await delay(REST_MS);
    await member.kubelet.start();
    await judge?.startBeacon(member.kubelet);
    await this.#untilWhole(member);
    absence.untilMs = Date.now();
  }

  get absences(): readonly Absence[] {
    return this.#absences;
  }

  /** Every change of a node's Ready condition so far. */
  readySeen(): ReadySeen[] {
    return this.#members.flatMap(({ timeline }) =>
      timeline.entries
        .filter(({ what }) => what === 'node-ready')
        .map(({ name, atMs, value, reason }) => ({ node: name, atMs, status: value, reason: reason ?? '' })),
    );
  }

  async #untilWhole({ kubelet: { name }, pods }: Member): Promise<void> {
    const { plane, name: service, judge } = this.#options;
    await plane.waitFor(
      `${name} to be wholly back`,
      async (note) => {
        const [node, { items }, endpoints] = await Promise.all([
          plane.node(name),
          plane.request<List<Pod>>('GET', `/api/v1/pods?fieldSelector=spec.nodeName%3D${name}`),
          plane.readyEndpoints(service),
        ]);
        const readyPods = items.filter((pod) => readyCondition(pod)?.status === 'True').length;
        const readyEndpoints = pods.filter((pod) => endpoints.includes(pod)).length;
        const taints = lifecycleTaints(node);
        const ready = readyCondition(node)?.status;
        note({ ready, taints, readyPods, readyEndpoints });
        return ready === 'True' && taints.length === 0 && readyPods === PODS && readyEndpoints === PODS;
      },
      { timeoutMs: BACK_MS, intervalMs: 250 },
    );
    await judge?.untilAllAlive();
  }
}

interface DeathParts {
  readonly node: string;
  readonly service: string;
  readonly pods: readonly string[];
  readonly timeline: Timeline;
  readonly killedAtMs: number;
  readonly gone: Promise<unknown>;
}

/** A node that was killed a moment ago, and what a watch says of it. */
export class Death {
  readonly #parts: DeathParts;

  constructor(parts: DeathParts) {
    this.#parts = parts;
  }

  get node(): string {
    return this.#parts.node;
  }

  /** Waits for all of it. */
  async measure(detector: Detector): Promise<Kill> {
    const { service, pods } = this.#parts;
    const unknown = await this.#unknown();
    const [podsNotReady, endpointGone, noSchedule, noExecute] = await Promise.all([
      Promise.all(
        pods.map((pod) =>
          this.#until(
            `pod ${pod} to be NotReady`,
            ({ what, name, value }) => what === 'pod-ready' && name === pod && value === 'False',
          ),
        ),
      ).then(latest),
      this.#until('its endpoints to be gone', ({ what, name, value }) => {
        const ready = value.split(',');
        return what === 'endpoints' && name === service && !pods.some((pod) => ready.includes(pod));
      }),
      this.#untilTaint('NoSchedule'),
      this.#untilTaint('NoExecute'),
    ]);
    return this.#kill(detector, unknown, { unknown, podsNotReady, endpointGone, noSchedule, noExecute });
  }

  /** Waits for Ready=Unknown only. */
  async measureUnknown(detector: Detector): Promise<Kill> {
    const unknown = await this.#unknown();
    return this.#kill(detector, unknown, { unknown });
  }

  #kill(
    detector: Detector,
    unknown: TimelineEntry,
    seen: Readonly<Partial<Record<Measure, TimelineEntry>>>,
  ): Kill {
    const { node, killedAtMs } = this.#parts;
    const seconds = Object.fromEntries(
      Object.entries(seen).map(([measure, { atMs }]) => [measure, (atMs - killedAtMs) / 1_000]),
    );
    return { detector, node, seconds, reason: unknown.reason ?? '' };
  }

  async #unknown(): Promise<TimelineEntry> {
    await this.#parts.gone;
    return this.#until('Ready=Unknown', ({ what, value }) => what === 'node-ready' && value === 'Unknown');
  }

  #untilTaint(effect: string): Promise<TimelineEntry> {
    const taint = `node.kubernetes.io/unreachable:${effect}`;
    return this.#until(
      `the taint ${effect}`,
      ({ what, value }) => what === 'node-taints' && value.split(',').includes(taint),
    );
  }

  #until(what: string, fits: (entry: TimelineEntry) => boolean): Promise<TimelineEntry> {
    const { node, timeline, killedAtMs } = this.#parts;
    return timeline.until(`${what} of ${node}`, fits, { sinceMs: killedAtMs, timeoutMs: NOTICE_MS });
  }
}

function latest(entries: readonly TimelineEntry[]): TimelineEntry {
  const last = entries.toSorted((a, b) => a.atMs - b.atMs).at(-1);
  if (last === undefined) throw new Error('a node without pods');
  return last;
}
