import { z } from 'zod';
import { accessSecretsOf, type ClusterConfig } from '../../config.ts';
import type { Asked } from './ask.ts';
import { whyOf } from './ask.ts';
import { type DoctorRow, fail, ok, unknown, warn } from './row.ts';

const GUIDE = 'docs/guides/reach-the-api.md';

/** Whether public DNS knows a name. */
export type LookUp = (host: string) => Promise<'found' | 'absent' | 'unknown'>;

const Version = z.object({ gitVersion: z.string() });

/** The way there, as the first request shows it: name, TLS, and whether it is the API server that answers. */
export async function examineWay(
  config: ClusterConfig & { readonly apiUrl: string },
  asked: Asked,
  lookUp: LookUp,
): Promise<readonly DoctorRow[]> {
  const url = new URL(config.apiUrl);
  const isThere = answers(asked);
  const isPublicName =
    config.apiBinding === undefined && !isAddress(url.hostname) && !isLoopback(url.hostname);
  const looked = isThere || !isPublicName ? undefined : await lookUp(url.hostname);
  return [nameRow(config, url, asked, looked), tlsRow(config, url, asked), apiRow(config, url, asked)];
}

/** Whether the API server itself has spoken, be it to refuse. */
export function answers(asked: Asked): boolean {
  if (asked.ok) return true;
  const { failure } = asked;
  return failure.kind === 'not-found' || (failure.kind !== 'unreachable' && /^\d{3}\b/.test(failure.why));
}

function nameRow(
  { apiBinding }: ClusterConfig,
  { hostname }: URL,
  asked: Asked,
  looked: Awaited<ReturnType<LookUp>> | undefined,
): DoctorRow {
  const check = 'name';
  if (apiBinding !== undefined) {
    if (!asked.ok && asked.layer === 'name') {
      return fail(
        check,
        `behind the binding ${apiBinding}: ${whyOf(asked.failure)}`,
        'the host of the VPC service must resolve where cloudflared runs; cloudflared must be 2025.7.0 or newer and use QUIC (UDP 7844 outbound)',
      );
    }
    return ok(
      check,
      `not looked up: the binding ${apiBinding} leads there, ${hostname} is only Host and SNI`,
    );
  }
  if (isAddress(hostname)) {
    return answers(asked)
      ? ok(check, `${hostname} is an address`)
      : fail(
          check,
          `${hostname} is a bare address, which a Worker cannot fetch (error 1003)`,
          `give the API server a name: ${GUIDE}`,
        );
  }
  if (answers(asked)) return ok(check, `${hostname} resolves`);
  const todo = `create a public DNS record for ${hostname}, or lead there by a Workers VPC binding: ${GUIDE}`;
  if (looked === 'absent') return fail(check, `public DNS does not know ${hostname}`, todo);
  if (!asked.ok && asked.layer === 'name') return fail(check, whyOf(asked.failure), todo);
  return looked === 'found'
    ? ok(check, `public DNS knows ${hostname}`)
    : unknown(check, 'no answer, and public DNS could not be asked', `look it up: dig ${hostname}`);
}

function tlsRow({ apiBinding }: ClusterConfig, url: URL, asked: Asked): DoctorRow {
  const check = 'tls';
  if (url.protocol === 'http:') {
    if (isLoopback(url.hostname)) return ok(check, 'none: plain HTTP on this machine');
    return warn(check, 'none: apiUrl is plain HTTP, the credential can be read on the way', 'use https');
  }
  if (answers(asked)) return ok(check, 'the certificate is trusted, and valid for this name');
  const see =
    apiBinding === undefined
      ? `see what it shows: openssl s_client -connect ${url.hostname}:${url.port || '443'} -servername ${url.hostname} </dev/null | openssl x509 -noout -issuer -dates -ext subjectAltName; a private authority needs one of the first two ways of ${GUIDE}`
      : `the VPC service needs the cluster's CA and a certificate for ${url.hostname}: npx wrangler vpc service update; ${GUIDE}`;
  if (!asked.ok && asked.layer === 'tls') return fail(check, whyOf(asked.failure), see);
  if (!asked.ok && asked.layer === 'unsaid')
    return unknown(check, 'the platform does not say whether it is TLS', see);
  return unknown(check, 'not known: the API server was not reached', 'see the row `api`');
}

function apiRow(config: ClusterConfig, url: URL, asked: Asked): DoctorRow {
  const check = 'api';
  if (asked.ok) {
    const version = Version.safeParse(asked.body).data?.gitVersion;
    return version === undefined
      ? fail(check, 'JSON, but not the Kubernetes API', `see where apiUrl leads: curl ${url.origin}/version`)
      : ok(check, `Kubernetes ${version} answers`);
  }
  const why = whyOf(asked.failure);
  if (answers(asked)) return ok(check, `answers: ${why}`);
  if (asked.failure.kind === 'refused' || why.startsWith('redirected')) {
    const { id, secret } = accessSecretsOf(config.name);
    return fail(
      check,
      why,
      config.apiAccess === undefined
        ? `something before the API server refuses; if it is Cloudflare Access, set the secrets ${id} and ${secret}: ${GUIDE}`
        : `Access does not take the service token: are ${id} and ${secret} current, and has the application a policy with the action Service Auth for it?`,
    );
  }
  if (config.apiBinding !== undefined) {
    return fail(
      check,
      why,
      `is cloudflared up (its status in the dashboard), and do the VPC service's host and port lead to the API server? ${GUIDE}`,
    );
  }
  return fail(check, why, `see ${GUIDE} for this text; from elsewhere: curl -v ${url.origin}/version`);
}

function isAddress(hostname: string): boolean {
  return hostname.startsWith('[') || /^\d+(?:\.\d+){3}$/.test(hostname);
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.');
}
