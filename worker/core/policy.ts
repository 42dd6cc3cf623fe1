/**
 * The knobs of detection for one cluster. All in milliseconds.
 *
 * Derived, never configured:
 * - timeout = missedBeats x interval + margin: silent that long after the last beat.
 * - late = interval + LATE_GRACE_MS: the next beat has not come in time.
 */
export interface Policy {
  /** How often a beacon beats. Default 10 s. Shorter: faster and dearer (requests scale with 1/interval). */
  readonly intervalMs: number;
  /** Beats that may be missing before a node is silent. Default 2, at least 2 (see `config.ts`). */
  readonly missedBeats: number;
  /** Added to the timeout for the delay of one beat and its tries. Default 2 s at 10 s beats. */
  readonly marginMs: number;
  /**
   * How the kubelet's Lease is asked before a verdict. `wait`: the Lease must not have moved until 11 s after the
   * first missed beat (a kubelet renews every 10 to 10.4 s), so a node whose beacon alone is cut is never written.
   * `look`: read once when the verdict falls due; with 3 s beats this stops only some 40 % of those cuts, and is
   * 6 s faster. `off`: for clusters whose kubelets renew no Lease.
   */
  readonly leaseEvidence: 'look' | 'wait' | 'off';
}

/** A beat later than this past its interval is late. One second: the first retries of a lost request are over. */
export const LATE_GRACE_MS = 1_000;

/** From a node's last beat to its silent deadline, for beats of the given interval. */
export function timeoutMs(policy: Policy, intervalMs: number): number {
  return policy.missedBeats * intervalMs + policy.marginMs;
}
