import { peekBeat } from '../../protocol/jws.ts';
import type { Report, ReportedNode } from '../../protocol/report.ts';
import type { ArbiterState } from '../core/arbiter/state.ts';
import type { ClusterConfig } from '../config.ts';
import type { Env } from '../env.ts';
import { TIMED_OUT, withTimeout } from '../timeout.ts';
import { observerStub, observersOf } from './names.ts';
import type { Verifier } from './verifier.ts';

/** An observer that does not answer in this time abstains from the poll. */
const POLL_TIMEOUT_MS = 1_000;

/**
 * Asks every configured observer for its present view. Proofs that do not hold are taken out here, so that the core
 * only sees beats that the node itself has signed.
 *
 * @returns the reports of those that answered
 */
export async function poll(
  env: Env,
  config: ClusterConfig,
  suspects: readonly string[],
  state: ArbiterState,
  verifier: Verifier,
): Promise<readonly Report[]> {
  const answers = await Promise.allSettled(
    observersOf(config).map((name) => withTimeout(observerStub(env, name).ask(suspects), POLL_TIMEOUT_MS)),
  );
  const reports = answers.flatMap((answer) =>
    answer.status === 'fulfilled' && answer.value !== TIMED_OUT ? [answer.value] : [],
  );
  return Promise.all(reports.map((report) => withVerifiedProofs(report, state, verifier)));
}

async function withVerifiedProofs(report: Report, state: ArbiterState, verifier: Verifier): Promise<Report> {
  const nodes = await Promise.all(
    report.nodes.map(async (node): Promise<ReportedNode> => {
      if (node.proof === undefined) return node;
      const { proof, ...without } = node;
      const peeked = peekBeat(proof);
      const isItsBeat =
        peeked.ok &&
        peeked.beat.node === node.name &&
        peeked.beat.boot === node.boot &&
        peeked.beat.seq === node.seq;
      const keys = state.nodes.get(node.name)?.keys ?? [];
      return isItsBeat && (await verifier.isSignedBy(proof, keys)) ? node : without;
    }),
  );
  return { ...report, nodes };
}
