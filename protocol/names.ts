import { z } from 'zod';

/**
 * The name of a Kubernetes Node: an RFC 1123 subdomain, at most 253 characters
 * (https://kubernetes.io/docs/concepts/architecture/nodes/#node-name-uniqueness).
 */
export const NodeName = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/, 'not an RFC 1123 subdomain');

/** The name of a watched cluster: an RFC 1123 label, since it becomes part of object names and secrets. */
export const ClusterName = z
  .string()
  .max(63)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, 'not an RFC 1123 label');

/** The name of one farpulse deployment. Same shape as a cluster's name. */
export const DeploymentId = ClusterName;

/** The kubelet lower-cases and trims a host name before it registers as a Node; the beacon must do the same. */
export function nodeNameFromHostname(hostname: string): string {
  return hostname.trim().toLowerCase();
}

/** `<deployment>/<cluster>`: never a host name, so that a deployment can move between addresses. */
export function audienceOf(deploymentId: string, cluster: string): string {
  return `${deploymentId}/${cluster}`;
}

/** Made once: this is on the path of every beat. */
const AudienceParts = z.tuple([DeploymentId, ClusterName]);

/** The two halves of an audience, or undefined when it is not one. */
export function parseAudience(audience: string): { deploymentId: string; cluster: string } | undefined {
  const [deploymentId, cluster, ...rest] = audience.split('/');
  if (rest.length > 0) return undefined;
  const names = AudienceParts.safeParse([deploymentId, cluster]);
  return names.success ? { deploymentId: names.data[0], cluster: names.data[1] } : undefined;
}
