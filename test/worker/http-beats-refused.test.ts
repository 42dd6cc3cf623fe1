import { expect, test } from 'vitest';
import { PROBLEM_CONTENT_TYPE } from '../../protocol/ack.ts';
import { MAX_BEAT_BYTES, type RefusalCode } from '../../protocol/beat.ts';
import { beatOf, json, jwsOf, post, subject } from './support/http-app.ts';

function chunked(bytes: number): ReadableStream<Uint8Array> {
  let left = bytes;
  return new ReadableStream({
    pull(controller) {
      if (left <= 0) return controller.close();
      controller.enqueue(new TextEncoder().encode('a'.repeat(Math.min(1024, left))));
      left -= 1024;
    },
  });
}

function broken(): ReadableStream<Uint8Array> {
  return new ReadableStream({ pull: (controller) => controller.error(new Error('connection lost')) });
}

interface BadBeat {
  readonly name: string;
  readonly body: BodyInit;
  readonly headers?: Record<string, string>;
  readonly status: number;
  readonly code: RefusalCode;
}

const BAD_BEATS: readonly BadBeat[] = [
  { name: 'an empty body', body: '', status: 400, code: 'malformed' },
  { name: 'a body that breaks off', body: broken(), status: 400, code: 'malformed' },
  { name: 'plain text', body: 'hello', status: 400, code: 'malformed' },
  { name: 'two parts instead of three', body: 'e30.e30', status: 400, code: 'malformed' },
  { name: 'a payload that is not base64url', body: 'e30.{}.e30', status: 400, code: 'malformed' },
  { name: 'a payload that is not JSON', body: 'e30.aGVsbG8.e30', status: 400, code: 'malformed' },
  {
    name: 'a header that is not JSON',
    body: jwsOf().replace(/^[^.]+/, 'aGVsbG8'),
    status: 400,
    code: 'malformed',
  },
  {
    name: 'bytes that are not UTF-8',
    body: new Uint8Array([0xff, 0xfe, 0x2e, 0x2e]),
    status: 400,
    code: 'malformed',
  },
  {
    name: 'a node name that is not RFC 1123',
    body: jwsOf(beatOf({ node: 'Node_1' })),
    status: 400,
    code: 'malformed',
  },
  {
    name: 'a node name that would leave its object name',
    body: jwsOf(beatOf({ node: '../other' })),
    status: 400,
    code: 'malformed',
  },
  { name: 'a sequence below zero', body: jwsOf(beatOf({ seq: -1 })), status: 400, code: 'malformed' },
  { name: 'no boot', body: jwsOf(beatOf({ boot: undefined })), status: 400, code: 'malformed' },
  {
    name: 'one byte too many',
    body: 'a'.repeat(MAX_BEAT_BYTES + 1),
    status: 413,
    code: 'too-large',
  },
  {
    name: 'too much in chunks of undeclared length',
    body: chunked(64 * 1024),
    status: 413,
    code: 'too-large',
  },
  {
    name: 'a declared length that is too large',
    body: jwsOf(),
    headers: { 'content-length': '5000' },
    status: 413,
    code: 'too-large',
  },
  { name: 'the wire of tomorrow', body: jwsOf(beatOf({ v: 2 })), status: 400, code: 'unsupported-version' },
  {
    name: 'the audience of another deployment',
    body: jwsOf(beatOf({ aud: 'other/prod' })),
    status: 403,
    code: 'wrong-audience',
  },
  {
    name: 'an audience that is none',
    body: jwsOf(beatOf({ aud: 'https://farpulse.example.com' })),
    status: 403,
    code: 'wrong-audience',
  },
  {
    name: 'a cluster that is not configured',
    body: jwsOf(beatOf({ aud: 'farpulse/staging' })),
    status: 404,
    code: 'unknown-cluster',
  },
  {
    name: 'a cluster that is a word of the language',
    body: jwsOf(beatOf({ aud: 'farpulse/constructor' })),
    status: 404,
    code: 'unknown-cluster',
  },
];

test.for(BAD_BEATS)('$name: $status $code, counted, and no observer hears of it', async (row) => {
  const { app, asked, counters } = subject();

  const response = await post(app, row.body, row.headers);

  expect(response.status).toBe(row.status);
  expect(response.headers.get('content-type')).toBe(PROBLEM_CONTENT_TYPE);
  expect(await json(response)).toMatchObject({ code: row.code, status: row.status });
  expect(counters.snapshot().beats).toEqual({ [row.code]: 1 });
  expect(asked).toEqual([]);
});

test('a beat of exactly the permitted size is read', async () => {
  const { app, asked } = subject();
  const room = MAX_BEAT_BYTES - jwsOf(beatOf(), { alg: 'EdDSA', kid: '' }).length;
  // Base64url takes four characters for three bytes.
  const kid = 'k'.repeat(Math.floor((room * 3) / 4));
  const jws = jwsOf(beatOf(), { alg: 'EdDSA', kid });
  expect(jws.length).toBeGreaterThan(MAX_BEAT_BYTES - 4);
  expect(jws.length).toBeLessThanOrEqual(MAX_BEAT_BYTES);

  const response = await post(app, jws);

  expect(response.status).toBe(200);
  expect(asked).toHaveLength(3);
});

test('a refused giant is cancelled, not drained', async () => {
  const { app } = subject();
  let cancelled = false;
  const endless = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new Uint8Array(1024)),
    cancel: () => {
      cancelled = true;
    },
  });

  const response = await post(app, endless);

  expect(response.status).toBe(413);
  expect(cancelled).toBe(true);
});

test('only POST is a beat', async () => {
  const { app } = subject();

  const response = await app.request('/v1/beats');

  expect(response.status).toBe(404);
  expect(await json(response)).toMatchObject({ code: 'not-found' });
});
