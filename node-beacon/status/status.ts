import { z } from 'zod';
import { ApiPathSign, CheckResult, KubeletSign } from '../../protocol/beat.ts';

/**
 * How a beacon fares, as its status file says it. Stamps are uptimes of this boot, which no clock that is set can
 * shift; readers and writers may be of different releases, so it only grows by optional fields.
 */
export const BeaconStatus = z.object({
  beacon: z.string(),
  deployment: z.string(),
  cluster: z.string(),
  node: z.string(),
  uid: z.string().optional(),
  /** The key's thumbprint. */
  kid: z.string(),
  boot: z.string(),
  intervalMs: z.number(),
  startedAtMs: z.number(),
  beats: z.number(),
  delivered: z.number(),
  lastBeat: z
    .object({
      seq: z.number(),
      atMs: z.number(),
      outcome: z.string(),
      tries: z.number(),
      why: z.string().optional(),
    })
    .optional(),
  /** The last beat that a quorum recorded. */
  lastAck: z
    .object({
      atMs: z.number(),
      /** The same by the wall clock, for metrics. */
      wallMs: z.number(),
      recordedBy: z.array(z.string()),
      endpoint: z.string(),
      transport: z.string(),
      roundTripMs: z.number(),
    })
    .optional(),
  /** When each observer last recorded a beat. */
  observers: z.record(z.string(), z.number()),
  kubelet: KubeletSign,
  api: ApiPathSign,
  checks: z.array(CheckResult),
});

export type BeaconStatus = z.infer<typeof BeaconStatus>;

/** An ack is late when two beats have gone without one. */
export function isWell({ lastAck, intervalMs }: BeaconStatus, uptimeMs: number): boolean {
  return lastAck !== undefined && uptimeMs - lastAck.atMs <= 2 * intervalMs + 5_000;
}
