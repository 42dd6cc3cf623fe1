import { formatKeyAnnotation, KEY_ANNOTATION, parseKeyAnnotation, type PublicKey } from '../protocol/keys.ts';
import type { NodeApi, OwnNode } from './own-node.ts';
import { whyOf } from './text.ts';

/** What one pass of enrolment came to. */
export type Enrolment =
  | { readonly kind: 'enrolled'; readonly uid: string; readonly annotated: boolean }
  /** The Node is known, but the credential may not annotate it: an admin has to. */
  | { readonly kind: 'not-annotated'; readonly uid: string; readonly why: string }
  | { readonly kind: 'absent' }
  | { readonly kind: 'denied' | 'unreachable' | 'unusable'; readonly why: string };

/** A write in between (the kubelet's own status, another beacon) is met by reading again, so many times. */
const PASSES = 3;

/** Reads the own Node and makes sure that its annotation holds this key. Never throws. */
export function enrol(api: NodeApi, name: string, key: PublicKey, signal: AbortSignal): Promise<Enrolment> {
  return annotate(api, name, signal, (node) => annotationWith(key, node));
}

/** The same, with these keys and no other: the steps of a rotation. */
export function enrolExactly(
  api: NodeApi,
  name: string,
  keys: readonly PublicKey[],
  signal: AbortSignal,
): Promise<Enrolment> {
  return annotate(api, name, signal, () => formatKeyAnnotation(keys));
}

async function annotate(
  api: NodeApi,
  name: string,
  signal: AbortSignal,
  wanted: (node: OwnNode) => string,
): Promise<Enrolment> {
  try {
    for (let pass = 0; pass < PASSES; pass++) {
      const read = await api.read(name, signal);
      if (read.kind === 'conflict') continue;
      if (read.kind !== 'node') return read;
      const value = wanted(read.node);
      if (value === read.node.keyAnnotation)
        return { kind: 'enrolled', uid: read.node.uid, annotated: false };
      const written = await api.annotate(name, read.node, value, signal);
      if (written.kind === 'conflict') continue;
      if (written.kind === 'denied') return { kind: 'not-annotated', uid: read.node.uid, why: written.why };
      return written.kind === 'node' ? { kind: 'enrolled', uid: written.node.uid, annotated: true } : written;
    }
    return { kind: 'unreachable', why: 'the Node was written by others each time' };
  } catch (error) {
    return { kind: 'unusable', why: whyOf(error) }; // the kubeconfig, or a file it names
  }
}

/**
 * The annotation as it should be: untouched when this key is in it, else this key first and the first of the others
 * after it. The other one stays because two machines under one name would otherwise overwrite each other for ever;
 * with both keys known, the observers see two streams and say so.
 */
function annotationWith(key: PublicKey, node: OwnNode): string {
  const present = parseKeyAnnotation(node.keyAnnotation);
  if (node.keyAnnotation !== undefined && present.some(({ x }) => x === key.x)) return node.keyAnnotation;
  return formatKeyAnnotation([key, ...present.slice(0, 1)]);
}

/** What an admin runs where the beacon has no credential of its own. */
export function annotateCommand(name: string, key: PublicKey): string {
  return `kubectl annotate node ${name} --overwrite ${KEY_ANNOTATION}=${formatKeyAnnotation([key])}`;
}
