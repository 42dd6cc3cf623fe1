import type { ModeFinding } from '../core/arbiter/mode.ts';
import type { ClusterFailure, ClusterPort } from '../core/cluster-port.ts';

/**
 * Looks whether a controller has taken the pods of a node that we wrote out of service, as one in external mode does.
 *
 * The Node is read after its pods: were it read before, a kubelet that came back in between, and whose pods are Ready
 * by right, would look like a controller that does nothing.
 */
export async function checkMode(
  cluster: ClusterPort,
  target: { readonly name: string; readonly uid: string; readonly lastTransitionTime: string },
): Promise<ModeFinding> {
  const pods = await cluster.listPods(target.name);
  if (pods.kind !== 'ok') return { kind: 'failed', why: whyOf(pods) };
  if (pods.value.some(({ marked }) => marked === true)) return { kind: 'marked' };
  if (!pods.value.some(({ ready }) => ready === 'True')) return { kind: 'nothing-to-tell' };
  const node = await cluster.readNode(target.name);
  if (node.kind !== 'ok' && node.kind !== 'not-found') return { kind: 'failed', why: whyOf(node) };
  const isOurs =
    node.kind === 'ok' &&
    node.value.uid === target.uid &&
    node.value.ready?.status === 'Unknown' &&
    node.value.ready.lastTransitionTime === target.lastTransitionTime;
  return { kind: isOurs ? 'untouched' : 'nothing-to-tell' };
}

function whyOf(failure: ClusterFailure): string {
  return 'why' in failure ? failure.why : failure.kind;
}
