// What chosen accounts asked of the API server, from its audit log: the proof that farpulse wrote
// nothing, or only what it should.
import { readFile, writeFile } from 'node:fs/promises';

export interface AuditEvent {
  readonly verb: string;
  readonly requestURI: string;
  readonly user: { readonly username: string };
  readonly userAgent?: string;
  readonly objectRef?: {
    readonly resource?: string;
    readonly subresource?: string;
    readonly namespace?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code?: number };
  readonly requestObject?: unknown;
  readonly requestReceivedTimestamp: string;
}

/** Only finished requests of these users; with the body of what they wrote. */
export async function writeAuditPolicy(file: string, users: readonly string[]): Promise<void> {
  const policy = {
    apiVersion: 'audit.k8s.io/v1',
    kind: 'Policy',
    omitStages: ['RequestReceived', 'ResponseStarted', 'Panic'],
    rules: [
      { level: 'Metadata', users, verbs: ['get', 'list', 'watch'] },
      { level: 'Request', users },
      { level: 'None' },
    ],
  };
  await writeFile(file, JSON.stringify(policy, null, 2));
}

/** In the order in which the requests ended. The server writes an event before it answers. */
export async function readAuditLog(file: string): Promise<AuditEvent[]> {
  const lines = (await readFile(file, 'utf8')).split('\n');
  // SAFETY: written by the API server in its audit.k8s.io/v1 form. The last line may be unfinished.
  return lines.slice(0, -1).map((line) => JSON.parse(line) as AuditEvent);
}
