import type { ApiPathSign, Beat, KubeletSign, LeavingSign } from '../../../protocol/beat.ts';
import type { BeatAnswer } from '../../../protocol/report.ts';
import { planTries, smoothRoundTripMs } from '../../../node-beacon/tries.ts';
import type { Edge, Flight } from './edge.ts';
import type { Path } from './network.ts';
import type { EventQueue } from './queue.ts';
import type { Random } from './random.ts';

/** As in node-beacon/loop.ts: a beat this much late starts a new rhythm. */
const RESYNC_AFTER = 0.1;

/** What the beacon knows of its machine. */
export interface BeaconHost {
  readonly name: string;
  readonly keyX: string;
  readonly uplink: Path;
  readonly clockOffsetMs: number;
  kubeletSign(): KubeletSign;
  apiSign(): ApiPathSign;
  /** Observers do not know this uid or key. */
  onDoubt(): void;
}

interface BeaconParts {
  readonly queue: EventQueue;
  readonly random: Random;
  readonly edge: Edge;
  readonly quorum: number;
  readonly host: BeaconHost;
  readonly intervalMs: number;
  readonly uid: string;
}

/** A beacon's rhythm and tries, by the schedule that runs on nodes. */
export class BeaconModel {
  /** Of the Node it was told. */
  uid: string;
  /** What it says with every beat from now on. */
  leaving: LeavingSign | undefined;
  /** Its process does not run before that. */
  stalledUntilMs = 0;
  intervalMs: number;
  readonly #parts: BeaconParts;
  /** Rises with every start and stop: what an earlier life has planned does not happen. */
  #life = 0;
  #isRunning = false;
  #boots = 0;
  #bootId = '';
  #bootedAtMs = 0;
  #lastSeq = -1;
  #dueMs = 0;
  #smoothedRoundTripMs = 0;

  constructor(parts: BeaconParts) {
    this.#parts = parts;
    this.uid = parts.uid;
    this.intervalMs = parts.intervalMs;
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }

  get bootId(): string {
    return this.#bootId;
  }

  /** A new boot of the machine: a new stream. */
  boot(): void {
    const { queue, host } = this.#parts;
    this.#boots += 1;
    this.#bootId = `boot-${host.name}-${this.#boots}`;
    this.#bootedAtMs = queue.nowMs;
    this.#lastSeq = -1;
    this.start();
  }

  /**
   * The process starts, in the same boot. The first beat is jittered over one interval.
   *
   * @param inMs when the first beat is due instead, from now
   */
  start(inMs = this.#parts.random.next() * this.intervalMs): void {
    const { queue } = this.#parts;
    this.#life += 1;
    this.#isRunning = true;
    this.leaving = undefined;
    this.#dueMs = queue.nowMs + inMs;
    this.#plan();
  }

  stop(): void {
    this.#life += 1;
    this.#isRunning = false;
  }

  /** The last beat of a service that stops in good order. */
  farewell(leaving: LeavingSign): void {
    this.leaving = leaving;
    this.#send(this.#life);
    this.stop();
  }

  #plan(): void {
    const life = this.#life;
    this.#parts.queue.at(this.#dueMs, () => this.#beat(life));
  }

  #beat(life: number): void {
    if (life !== this.#life) return;
    const { queue } = this.#parts;
    const nowMs = queue.nowMs;
    if (nowMs < this.stalledUntilMs) {
      queue.at(this.stalledUntilMs, () => this.#beat(life));
      return;
    }
    this.#send(life);
    const isLate = nowMs - this.#dueMs > RESYNC_AFTER * this.intervalMs;
    this.#dueMs = (isLate ? nowMs : this.#dueMs) + this.intervalMs;
    this.#plan();
  }

  #send(life: number): void {
    const beat = this.#make();
    const flight = new BeaconFlight(this, life, beat, this.#parts.queue.nowMs);
    // The first try ends where the second one starts; only a failed one asks for the whole plan.
    this.#parts.edge.send(flight, flight.startedAtMs + this.#firstTryMs());
  }

  #firstTryMs(): number {
    const leastMs = 1_000 * Math.min(1, this.intervalMs / 10_000);
    return Math.max(leastMs, Math.min(3 * this.#smoothedRoundTripMs, 0.4 * this.intervalMs));
  }

  #make(): Beat {
    const { queue, host } = this.#parts;
    const seq = Math.max(Math.floor(queue.nowMs - this.#bootedAtMs), this.#lastSeq + 1);
    this.#lastSeq = seq;
    const beat: Beat = {
      v: 1,
      aud: 'sim/cluster',
      node: host.name,
      uid: this.uid,
      boot: this.#bootId,
      seq,
      intervalMs: this.intervalMs,
      sentAtMs: Math.floor(queue.nowMs + host.clockOffsetMs),
      kubelet: host.kubeletSign(),
      api: host.apiSign(),
      beacon: 'sim',
    };
    return this.leaving === undefined ? beat : { ...beat, leaving: this.leaving };
  }

  // What a flight asks of its beacon.

  get keyX(): string {
    return this.#parts.host.keyX;
  }

  get uplink(): Path {
    return this.#parts.host.uplink;
  }

  get quorum(): number {
    return this.#parts.quorum;
  }

  delivered(roundTripMs: number): void {
    this.#smoothedRoundTripMs = smoothRoundTripMs(this.#smoothedRoundTripMs, roundTripMs);
  }

  objected(answer: BeatAnswer | undefined): void {
    if (answer?.kind !== 'refused') return;
    if (answer.code === 'replayed') this.#lastSeq = Math.max(this.#lastSeq, answer.highestSeq ?? -1);
    if (answer.code === 'stranger' || answer.code === 'wrong-uid') this.#parts.host.onDoubt();
  }

  /** Plans the first try of the row that begins after now; none when the row is over. */
  retry(flight: BeaconFlight): void {
    const { queue, edge } = this.#parts;
    const next = planTries(this.intervalMs, this.#smoothedRoundTripMs).find(
      ({ startMs }) => flight.startedAtMs + startMs > queue.nowMs,
    );
    if (next === undefined) return;
    flight.retryPlanned = true;
    queue.at(flight.startedAtMs + next.startMs, () => {
      flight.retryPlanned = false;
      // A later beat ends the tries of this one; so does the process's end.
      if (flight.life !== this.#life || flight.isDelivered || flight.beat.seq !== this.#lastSeq) return;
      if (queue.nowMs < this.stalledUntilMs) return;
      edge.send(flight, flight.startedAtMs + next.endMs);
    });
  }
}

class BeaconFlight implements Flight {
  readonly beat: Beat;
  readonly jws: string;
  readonly life: number;
  readonly startedAtMs: number;
  ackedBy = 0;
  isDelivered = false;
  retryPlanned = false;
  readonly #beacon: BeaconModel;

  constructor(beacon: BeaconModel, life: number, beat: Beat, startedAtMs: number) {
    this.#beacon = beacon;
    this.life = life;
    this.beat = beat;
    this.jws = `${beat.boot}:${beat.seq}`;
    this.startedAtMs = startedAtMs;
  }

  get keyX(): string {
    return this.#beacon.keyX;
  }

  get uplink(): Path {
    return this.#beacon.uplink;
  }

  onAck(ackedBy: number, roundTripMs: number): void {
    this.ackedBy = ackedBy;
    this.isDelivered = countBits(ackedBy) >= this.#beacon.quorum;
    if (this.isDelivered) this.#beacon.delivered(roundTripMs);
    else this.#retry();
  }

  onNoAck(): void {
    this.#retry();
  }

  onMissed(region: number, answer: BeatAnswer | undefined): void {
    this.ackedBy &= ~(1 << region);
    this.#beacon.objected(answer);
    this.isDelivered = countBits(this.ackedBy) >= this.#beacon.quorum;
    if (!this.isDelivered) this.#retry();
  }

  #retry(): void {
    if (!this.retryPlanned) this.#beacon.retry(this);
  }
}

function countBits(mask: number): number {
  let count = 0;
  for (let rest = mask; rest !== 0; rest &= rest - 1) count += 1;
  return count;
}
