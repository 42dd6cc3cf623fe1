import type { ArbiterState } from './state.ts';

/*
 * The mode check. That `external` is the right mode is an operator's word: no API tells it. Under a controller that
 * still listens to kubelets our write is worse than none: the node is tainted, its pods stay in
 * their Services, and the controller, which would have marked them later, finds nothing left to do. So the pods of a node that was written are looked at.
 */

/** ms from a write to the look at the node's pods: two passes of the controller (5 s each) and their writes. */
export const MODE_CHECK_MS = 15_000;

/** A controller with many pods to mark is slow, and clears the suspicion by what it does later. */
const MAX_MODE_CHECKS = 20;

/** What the pods of a node say that is Unknown by our hand. */
export type ModeFinding =
  /** A pod was made not Ready by a controller: it listens to us. */
  | { readonly kind: 'marked' }
  /** Its pods are Ready, all of them. */
  | { readonly kind: 'untouched' }
  /** No pod that could tell, or the node is no longer as we wrote it. */
  | { readonly kind: 'nothing-to-tell' }
  | { readonly kind: 'failed'; readonly why: string };

/** Takes in what was found. Until a controller is seen to act, or an operator says that it does, nothing is written. */
export function onModeChecked(state: ArbiterState, name: string, finding: ModeFinding, nowMs: number): void {
  if (finding.kind === 'failed') {
    state.modeUnchecked = { sinceMs: state.modeUnchecked?.sinceMs ?? nowMs, why: finding.why };
  } else {
    delete state.modeUnchecked;
  }
  switch (finding.kind) {
    case 'marked':
      delete state.modeHold;
      // Whoever was written before now needs no look: a controller that acts may still be busy with many pods.
      forgetChecks(state);
      return;
    case 'nothing-to-tell':
      checkAgain(state, name, undefined);
      return;
    case 'untouched':
      state.modeHold ??= { id: `mode-hold-${state.nextId}`, sinceMs: nowMs, node: name };
      state.nextId += 1;
      checkAgain(state, name, nowMs + MODE_CHECK_MS);
      return;
    case 'failed':
      checkAgain(state, name, nowMs + MODE_CHECK_MS);
      return;
  }
}

function checkAgain(state: ArbiterState, name: string, atMs: number | undefined): void {
  const node = state.nodes.get(name);
  if (node?.episode?.followUp === undefined) return;
  const { modeCheckDueAtMs: _, modeChecks = 0, ...followUp } = node.episode.followUp;
  const checks = modeChecks + 1;
  const next = {
    ...followUp,
    modeChecks: checks,
    ...(atMs !== undefined && checks < MAX_MODE_CHECKS && { modeCheckDueAtMs: atMs }),
  };
  state.nodes.set(name, { ...node, episode: { ...node.episode, followUp: next } });
}

function forgetChecks(state: ArbiterState): void {
  for (const node of state.nodes.values()) {
    if (node.episode?.followUp?.modeCheckDueAtMs === undefined) continue;
    const { modeCheckDueAtMs: _, ...followUp } = node.episode.followUp;
    state.nodes.set(node.name, { ...node, episode: { ...node.episode, followUp } });
  }
}

/** An operator says that the controller listens to us after all, or does so by now. The next write is checked again. */
export function releaseMode(state: ArbiterState): { released: boolean; why: string } {
  delete state.modeHold;
  forgetChecks(state);
  return { released: true, why: 'nodes may be written again; the next write is checked again' };
}

/** Another mode was configured meanwhile: then there is nothing left to check. */
export function tendMode(state: ArbiterState): void {
  if (state.settings.mode === 'external') return;
  delete state.modeHold;
  delete state.modeUnchecked;
}
