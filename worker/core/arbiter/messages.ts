import type { Report } from '../../../protocol/report.ts';
import type {
  ClusterResult,
  InventoryNode,
  LeaseCopy,
  OwnLeaseCopy,
  OwnLeaseRenewal,
  UnknownPatch,
} from '../cluster-port.ts';
import type { ModeFinding } from './mode.ts';
import type { EventEffect } from './announce.ts';
import type { LeaseAsk } from './own-lease.ts';
import type { FreshRead } from './state.ts';

/** What can happen to an arbiter. Results of effects come back as events. */
export type ArbiterEvent =
  | { readonly kind: 'report'; readonly report: Report }
  /** All observers were asked; those that answered within their second, with proofs already verified. */
  | { readonly kind: 'polled'; readonly begunAtMs: number; readonly reports: readonly Report[] }
  | { readonly kind: 'listed'; readonly result: ClusterResult<readonly InventoryNode[]> }
  | { readonly kind: 'leases'; readonly result: ClusterResult<readonly LeaseCopy[]> }
  | {
      readonly kind: 'read';
      readonly name: string;
      readonly node: FreshRead['node'];
      readonly lease: FreshRead['lease'];
    }
  | { readonly kind: 'written'; readonly name: string; readonly result: ClusterResult<unknown> }
  | { readonly kind: 'pods-marked'; readonly name: string; readonly marked: number; readonly ok: boolean }
  | { readonly kind: 'mode-checked'; readonly name: string; readonly finding: ModeFinding }
  | { readonly kind: 'own-lease-read'; readonly result: ClusterResult<OwnLeaseCopy> }
  | {
      readonly kind: 'own-lease-renewed';
      readonly renewal: OwnLeaseRenewal;
      readonly result: ClusterResult<{ readonly resourceVersion: string }>;
    }
  | { readonly kind: 'release'; readonly holdId: string }
  | { readonly kind: 'tick' };

export type ArbiterEffect =
  /** Ask every configured observer for its present view, with proofs for the suspects. */
  | { readonly kind: 'poll'; readonly suspects: readonly string[] }
  | { readonly kind: 'list' }
  | { readonly kind: 'list-leases' }
  | { readonly kind: 'read'; readonly name: string; readonly lease: boolean }
  | { readonly kind: 'write'; readonly patch: UnknownPatch }
  | LeaseAsk
  /** Nobody waits for what comes of it. */
  | EventEffect
  | {
      /** Look whether the controller acted on what we wrote of this node; or mark its pods ourselves. */
      readonly kind: 'check-mode' | 'mark-pods';
      readonly name: string;
      readonly uid: string;
      readonly lastTransitionTime: string;
    };
