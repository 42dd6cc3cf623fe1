import type { ClusterPort } from '../core/cluster-port.ts';

/** The platform allows six connections at once; one is left for everything else. */
const PODS_AT_ONCE = 4;

/**
 * Marks the pods of a node that we wrote: Ready=False, what the built-in controller would have done had it written
 * Unknown itself. Pods already marked are passed over, so it may be repeated after a crash at any point.
 *
 * Stops as soon as the Node's Ready is no longer the Unknown we wrote: a kubelet that is back speaks for its pods.
 *
 * @returns how many pods were marked, and whether nothing is left to do
 */
export async function markPods(
  cluster: ClusterPort,
  target: { readonly name: string; readonly uid: string; readonly lastTransitionTime: string },
): Promise<{ readonly marked: number; readonly ok: boolean }> {
  const node = await cluster.readNode(target.name);
  if (node.kind === 'not-found') return { marked: 0, ok: true };
  if (node.kind !== 'ok') return { marked: 0, ok: false };
  const { ready, uid } = node.value;
  const isOurs = ready?.status === 'Unknown' && ready.lastTransitionTime === target.lastTransitionTime;
  if (uid !== target.uid || !isOurs) return { marked: 0, ok: true };

  const pods = await cluster.listPods(target.name);
  if (pods.kind !== 'ok') return { marked: 0, ok: false };
  const queue = pods.value.filter((pod) => pod.ready === 'True');
  let marked = 0;
  let ok = true;
  const worker = async (): Promise<void> => {
    for (let pod = queue.pop(); pod !== undefined; pod = queue.pop()) {
      const result = await cluster.patchPodNotReady(pod, target.lastTransitionTime);
      if (result.kind === 'ok') marked += 1;
      // A pod that changed meanwhile is looked at again by the next pass; one that is gone is done.
      else if (result.kind !== 'not-found') ok = false;
    }
  };
  await Promise.all(Array.from({ length: PODS_AT_ONCE }, worker));
  return { marked, ok };
}
