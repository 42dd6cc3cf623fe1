import type { Beat } from '../../../protocol/beat.ts';
import type { BeatAnswer } from '../../../protocol/report.ts';
import type { EventQueue } from './queue.ts';
import { LOST, type Path } from './network.ts';

/** Where a beat is heard. Undefined: nobody was there, or not in time. */
export interface Ear {
  hear(flight: Flight): BeatAnswer | undefined;
}

/** One beat on its way, over all its tries. */
export interface Flight {
  readonly beat: Beat;
  /** Stands for the signed beat and for its digest. */
  readonly jws: string;
  /** The key it is signed with. */
  readonly keyX: string;
  readonly uplink: Path;
  /** One bit per region whose recording the beacon knows of, or is about to. */
  ackedBy: number;
  /** A try is over, acked or not. */
  onAck(ackedBy: number, roundTripMs: number): void;
  onNoAck(): void;
  /** A region that was expected to record it did not. */
  onMissed(region: number, answer: BeatAnswer | undefined): void;
}

interface EdgeParts {
  readonly queue: EventQueue;
  /** From the edge to each region. */
  readonly legs: readonly Path[];
  readonly earOf: (region: number, node: string) => Ear;
  /** The router answers then at the latest, with what it has. */
  readonly deadlineMs: number;
}

/**
 * The way of one try: uplink, router, one leg per region, and back.
 *
 * What the network does to a try is drawn when it is sent, so that a beat costs one event per region; only an
 * observer's own answer is found out when the beat gets there.
 */
export class Edge {
  readonly #parts: EdgeParts;

  constructor(parts: EdgeParts) {
    this.#parts = parts;
  }

  /** @param endsAtMs the beacon gives this try up then */
  send(flight: Flight, endsAtMs: number): void {
    const { queue, legs, earOf, deadlineMs } = this.#parts;
    const nowMs = queue.nowMs;
    const there = flight.uplink.there.transmit(nowMs);
    if (there === LOST) {
      flight.onNoAck();
      return;
    }
    const edgeAtMs = nowMs + there;
    let ackedBy = flight.ackedBy;
    let slowestMs = 0;
    for (let region = 0; region < legs.length; region++) {
      const bit = 1 << region;
      if ((flight.ackedBy & bit) !== 0) continue;
      const leg = legs[region] as Path;
      const goMs = leg.there.transmit(edgeAtMs);
      if (goMs === LOST) {
        slowestMs = deadlineMs;
        continue;
      }
      const ear = earOf(region, flight.beat.node);
      queue.at(edgeAtMs + goMs, () => {
        const answer = ear.hear(flight);
        if (answer?.kind !== 'recorded') flight.onMissed(region, answer);
      });
      const answeredMs = goMs + leg.back.transmit(edgeAtMs);
      if (answeredMs <= deadlineMs) {
        ackedBy |= bit;
        if (answeredMs > slowestMs) slowestMs = answeredMs;
      } else {
        slowestMs = deadlineMs;
      }
    }
    const roundTripMs = there + slowestMs + flight.uplink.back.transmit(nowMs);
    if (nowMs + roundTripMs > endsAtMs || ackedBy === 0) flight.onNoAck();
    else flight.onAck(ackedBy, roundTripMs);
  }
}
