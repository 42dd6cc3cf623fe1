import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import type { SecureContextOptions } from 'node:tls';
import { codeOf } from '../text.ts';
import { explain } from './failure-text.ts';
import { lookupBy, systemResolver } from './lookup.ts';
import type { Failure } from './transport.ts';

/** How to recognise the server and be recognised by it. */
export interface TlsTrust extends Pick<SecureContextOptions, 'ca' | 'cert' | 'key'> {
  readonly rejectUnauthorized?: boolean;
  readonly servername?: string;
}

export interface Question {
  readonly url: URL;
  readonly method: 'GET' | 'POST' | 'PATCH';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly tls?: TlsTrust;
  /** Without one, the connection is new and closed after the answer. */
  readonly agent?: http.Agent | undefined;
  /** The rest of a longer answer is not read. */
  readonly maxAnswerBytes: number;
}

export type Exchanged =
  | {
      readonly kind: 'answered';
      readonly status: number;
      readonly headers: http.IncomingHttpHeaders;
      readonly body: string;
    }
  | {
      readonly kind: 'failed';
      readonly failure: Extract<Failure, 'dns' | 'tcp' | 'tls' | 'proxy' | 'timeout'>;
      readonly why: string;
      readonly code: string | undefined;
      /** A kept connection that the other side had closed meanwhile: says nothing about the path. */
      readonly stale: boolean;
    };

const STAGES = {
  dns: 'resolving the name',
  tcp: 'connecting',
  tls: 'in the TLS handshake',
  answer: 'waiting for the answer',
} as const;
type Stage = keyof typeof STAGES;

const lookup = lookupBy(systemResolver);

/** One HTTP request. Every outcome is a value; the signal ends it at once, wherever it is. */
export function exchange(question: Question, signal: AbortSignal): Promise<Exchanged> {
  const { promise, resolve } = Promise.withResolvers<Exchanged>();
  const { url, method, body, headers = {}, tls = {}, agent = false } = question;
  let stage: Stage = 'dns';

  const request = (url.protocol === 'https:' ? https : http).request(url, {
    method,
    agent,
    headers: body === undefined ? headers : { ...headers, 'content-length': Buffer.byteLength(body) },
    ...tls,
    lookup,
  });

  const timeOut = (): void => {
    settle({
      kind: 'failed',
      failure: 'timeout',
      why: `gave up ${STAGES[stage]}`,
      code: undefined,
      stale: false,
    });
  };
  const fail = (error: Error): void => {
    settle({
      kind: 'failed',
      failure: stage === 'answer' ? 'tcp' : stage,
      why: explain(error),
      code: codeOf(error),
      stale: request.reusedSocket && !signal.aborted,
    });
  };
  const settle = (result: Exchanged): void => {
    signal.removeEventListener('abort', timeOut);
    resolve(result); // the first one counts
    if (result.kind === 'failed') request.destroy();
  };

  request.on('socket', (socket) => followStage(socket, url, (reached) => (stage = reached)));
  request.on('error', fail);
  request.on('response', (response) => {
    readAnswer(response, question.maxAnswerBytes).then(settle, fail);
  });
  if (signal.aborted) timeOut();
  else signal.addEventListener('abort', timeOut);
  request.end(body);
  return promise;
}

function followStage(socket: Socket, url: URL, reached: (stage: Stage) => void): void {
  if (!socket.connecting) return reached('answer'); // a kept connection
  // An address in the URL is not looked up, and no 'lookup' event comes.
  if (/^(\[.*\]|[\d.]+)$/.test(url.hostname)) reached('tcp');
  socket.once('lookup', (error: Error | null) => {
    if (error === null) reached('tcp');
  });
  socket.once('connect', () => reached(url.protocol === 'https:' ? 'tls' : 'answer'));
  socket.once('secureConnect', () => reached('answer'));
}

/** An answer, as far as it is not longer than that. */
export async function readAnswer(response: http.IncomingMessage, maxBytes: number): Promise<Exchanged> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length >= maxBytes) break; // leaving the loop destroys the response, and with it the connection
  }
  const body = Buffer.concat(chunks).subarray(0, maxBytes).toString('utf8');
  return { kind: 'answered', status: response.statusCode ?? 0, headers: response.headers, body };
}
