import type { BeatAnswer } from '../../protocol/report.ts';
import type { DoctorRow } from '../cluster/doctor/row.ts';
import type { ConfigResult, LocationHint } from '../config.ts';
import type { ClusterStatus } from '../core/arbiter/view.ts';
import type { Counters } from './counters.ts';
import type { WithTimeout } from '../timeout.ts';

/** What the router asks of an observer. The Durable Object's stub fits; so does a fake in a test. */
export interface ObserverPort {
  /** `digest` is the beat's, which the router needs anyway: no observer has to compute it again. */
  beat(jws: string, digest: string): Promise<BeatAnswer>;
  /**
   * A socket's handshake, with its beat in a header: 101 with the socket when the observer has recorded the beat, else
   * 200 with a `BeatAnswer` in JSON.
   */
  fetch(handshake: Request): Promise<Response>;
}

/** What the status API asks of an arbiter. */
export interface ArbiterPort {
  status(): Promise<ClusterStatus>;
  /** Lifts the hold, if it is the running one. `why` is a sentence for people. */
  release(holdId: string): Promise<{ readonly released: boolean; readonly why: string }>;
  /** Looks at everything between the Worker and the cluster; takes up to 30 s. */
  doctor(): Promise<readonly DoctorRow[]>;
}

/**
 * All that the app takes from outside.
 *
 * Cluster, region and shard given to `observer` and `arbiter` always come from the configuration, never from a
 * request: an object whose name a request chooses is created by whoever asks.
 */
export interface AppDeps {
  readonly config: () => ConfigResult;
  /** The raw ADMIN_TOKEN variable: a broken configuration is explained to the admin, so it cannot come from there. */
  readonly adminToken: () => unknown;
  /** A fresh stub for each call: one that has thrown once may be broken for good. */
  readonly observer: (cluster: string, region: LocationHint, shard: number) => ObserverPort;
  readonly arbiter: (cluster: string) => ArbiterPort;
  /** Epoch ms. */
  readonly now: () => number;
  readonly withTimeout: WithTimeout;
  readonly counters: Counters;
}
