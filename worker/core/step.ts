/**
 * What a pure machine answers to one event.
 *
 * `state` may be the object that was passed in, changed: a machine owns its state, and a beat must not copy a
 * thousand nodes. Callers keep only what comes back.
 */
export interface Step<State, Effect> {
  readonly state: State;
  readonly effects: readonly Effect[];
  /** The next moment at which anything can change by itself. Waking earlier or twice does no harm. */
  readonly wakeAtMs: number;
}
