import { REFUSAL_CODES, type RefusalCode } from '../../protocol/beat.ts';
import type { PublicKey } from '../../protocol/keys.ts';
import { annotateCommand } from '../enrolment.ts';
import type { Settings } from '../settings.ts';

/** What a person can do about a refusal; undefined where the code is of a newer service, or speaks for itself. */
export function adviceOn(
  code: string,
  { node, cluster, deployment, intervalMs }: Pick<Settings, 'node' | 'cluster' | 'deployment' | 'intervalMs'>,
  key: PublicKey,
): string | undefined {
  if (!isRefusalCode(code)) return undefined;
  switch (code) {
    case 'stranger':
      return `observers do not know this key (yet): they look it up within 10 s. Else: ${annotateCommand(node, key)}`;
    case 'wrong-audience':
      return `the service is not the deployment ${deployment}: see --deployment`;
    case 'unknown-cluster':
      return `the service has no cluster ${cluster} in its configuration: see --cluster`;
    case 'wrong-uid':
      return 'the Node was re-created: observers learn of that within minutes, the beacon by its next enrolment';
    case 'old-key':
      return `the Node no longer names this key. Again: ${annotateCommand(node, key)}`;
    case 'bad-signature':
      return `the Node ${node} names other keys than this one. Two machines under one name? See --node`;
    case 'bad-interval':
      return `the interval of ${intervalMs / 1000} s is longer than the cluster's configured one: see --interval-seconds`;
    case 'rate-limited':
      return 'too many unknown beacons ask at the moment; known ones are not held up';
    case 'unavailable':
      return 'the observers are being restarted, or the platform has a fault: try again';
    case 'replayed':
      return 'the observers know a later beat of this boot: the beacon goes on above it by itself';
    case 'malformed':
    case 'too-large':
    case 'unsupported-version':
      return 'the service and this beacon are of releases that do not fit together';
  }
}

function isRefusalCode(code: string): code is RefusalCode {
  return (REFUSAL_CODES as readonly string[]).includes(code);
}
