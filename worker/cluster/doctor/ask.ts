import type { ClusterFailure } from '../../core/cluster-port.ts';
import { exchange } from '../exchange.ts';
import { failureOf, type Layer, layerOf } from '../failure.ts';
import type { Gate } from '../gate.ts';

/** What one request of the doctor's brought. */
export type Asked =
  | { readonly ok: true; readonly body: unknown; readonly date: string | undefined }
  | {
      readonly ok: false;
      readonly failure: ClusterFailure;
      /** How far it came, when not even something in between answered for the API server. */
      readonly layer: Layer | undefined;
    };

export interface Query {
  readonly method?: 'GET' | 'POST' | 'PATCH';
  readonly path: string;
  readonly body?: unknown;
}

export type Ask = (query: Query) => Promise<Asked>;

export interface AskOptions {
  /** Without a slash at its end. */
  readonly baseUrl: string;
  readonly token: string | undefined;
  readonly secrets: readonly string[];
  readonly fetch: typeof fetch;
  readonly gate: Gate;
  readonly timeoutMs: number;
  /** Nothing is asked after this. */
  readonly endMs: number;
  readonly now: () => number;
}

/** Asks the API server as the adapter does, by hand: the doctor wants headers, and calls that no verdict needs. */
export function asker(options: AskOptions): Ask {
  return async ({ method = 'GET', path, body }) => {
    if (options.now() > options.endMs) {
      return {
        ok: false,
        failure: { kind: 'unreachable', why: 'not asked: the time for all checks is up' },
        layer: undefined,
      };
    }
    try {
      const answer = await exchange(
        {
          url: options.baseUrl + path,
          method,
          headers: {
            accept: 'application/json',
            ...(options.token !== undefined && { authorization: `Bearer ${options.token}` }),
            ...(method === 'POST' && { 'content-type': 'application/json' }),
            ...(method === 'PATCH' && { 'content-type': 'application/strategic-merge-patch+json' }),
          },
          ...(body !== undefined && { body: JSON.stringify(body) }),
        },
        options,
      );
      return {
        ok: true,
        body: JSON.parse(answer.text) as unknown,
        date: answer.headers.get('date') ?? undefined,
      };
    } catch (error) {
      return { ok: false, failure: failureOf(error, options.secrets), layer: layerOf(error) };
    }
  };
}

/** In one sentence; `not-found` has no words of its own. */
export function whyOf(failure: ClusterFailure): string {
  return failure.kind === 'not-found' ? '404: there is no such object' : failure.why;
}
