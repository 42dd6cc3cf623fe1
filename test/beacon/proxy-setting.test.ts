import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { readProxy } from '../../node-beacon/transport/proxy.ts';

const PROXY = 'http://proxy.example:3128';

describe('which proxy', () => {
  test.for<{ name: string; env: Record<string, string>; proxy: string | undefined }>([
    { name: 'none is set', env: { HTTP_PROXY: PROXY }, proxy: undefined },
    { name: 'an empty one is none', env: { HTTPS_PROXY: ' ' }, proxy: undefined },
    { name: 'HTTPS_PROXY', env: { HTTPS_PROXY: PROXY }, proxy: 'proxy.example:3128' },
    {
      name: 'the lower-case form wins',
      env: { HTTPS_PROXY: 'http://other:1', https_proxy: PROXY },
      proxy: 'proxy.example:3128',
    },
    { name: 'host and port alone', env: { HTTPS_PROXY: 'proxy.example:3128' }, proxy: 'proxy.example:3128' },
    { name: 'the usual port', env: { HTTPS_PROXY: 'http://proxy.example/' }, proxy: 'proxy.example:80' },
    { name: 'spoken to in TLS', env: { HTTPS_PROXY: 'https://proxy.example' }, proxy: 'proxy.example:443' },
  ])('$name', ({ env, proxy }) => {
    expect(readProxy(env)).toMatchObject({
      kind: 'proxy',
      proxy: proxy === undefined ? undefined : { name: proxy },
    });
  });

  test.for([
    { name: 'another kind of proxy', value: 'socks5://user:geheim@proxy.example' },
    { name: 'no URL', value: 'http://user:geheim@' },
    { name: 'a % that encodes nothing', value: 'http://user:geheim%zz@proxy.example' },
  ])('$name is wrong, and not repeated', ({ value }) => {
    const parsed = readProxy({ HTTPS_PROXY: value });
    expect(parsed).toMatchObject({ kind: 'wrong', problem: expect.stringMatching(/^HTTPS_PROXY: expected/) });
    expect(inspect(parsed)).not.toContain('geheim');
  });

  test('credentials are decoded for the header, and shown nowhere', () => {
    const parsed = readProxy({ HTTPS_PROXY: 'http://me:gehe%40im@proxy.example:3128' });
    if (parsed.kind === 'wrong') throw new Error(parsed.problem);
    expect(parsed.proxy?.authorization).toBe(`Basic ${btoa('me:gehe@im')}`);
    const shown =
      inspect(parsed, { depth: 9, showHidden: true }) + JSON.stringify(parsed) + String(parsed.proxy?.url);
    expect(shown).not.toMatch(/gehe|Basic/);
  });
});

describe('what goes through it', () => {
  test.for<{ noProxy: string; url: string; serves: boolean }>([
    { noProxy: '', url: 'https://farpulse.example', serves: true },
    { noProxy: '', url: 'http://127.0.0.1:8787', serves: false },
    { noProxy: '', url: 'http://localhost:8787', serves: false },
    { noProxy: '*', url: 'https://farpulse.example', serves: false },
    { noProxy: 'other.example, farpulse.example', url: 'https://farpulse.example', serves: false },
    { noProxy: 'other.example farpulse.example', url: 'https://farpulse.example', serves: false },
    { noProxy: 'FARPULSE.example', url: 'https://farpulse.example', serves: false },
    { noProxy: 'example', url: 'https://farpulse.example', serves: false },
    { noProxy: '.example', url: 'https://farpulse.example', serves: false },
    { noProxy: '*.example', url: 'https://farpulse.example', serves: false },
    { noProxy: 'pulse.example', url: 'https://farpulse.example', serves: true },
    { noProxy: 'farpulse.example:443', url: 'https://farpulse.example', serves: false },
    { noProxy: 'farpulse.example:8443', url: 'https://farpulse.example', serves: true },
    { noProxy: 'farpulse.example:8443', url: 'https://farpulse.example:8443', serves: false },
    { noProxy: '192.0.2.1', url: 'https://192.0.2.1', serves: false },
    { noProxy: '0.2.1', url: 'https://192.0.2.1', serves: true },
    { noProxy: '192.0.2.0/24', url: 'https://192.0.2.77', serves: false },
    { noProxy: '192.0.2.0/24', url: 'https://192.0.3.77', serves: true },
    { noProxy: '192.0.2.0/99', url: 'https://192.0.2.77', serves: true },
    { noProxy: '2001:db8::/32', url: 'https://[2001:db8::7]', serves: false },
    { noProxy: '2001:db8::7', url: 'https://[2001:db8::7]', serves: false },
    { noProxy: '[2001:db8::7]:443', url: 'https://[2001:db8::7]', serves: false },
    { noProxy: '192.0.2.0/24', url: 'https://farpulse.example', serves: true },
  ])('NO_PROXY="$noProxy" $url: $serves', ({ noProxy, url, serves }) => {
    const parsed = readProxy({ HTTPS_PROXY: PROXY, NO_PROXY: noProxy });
    if (parsed.kind === 'wrong') throw new Error(parsed.problem);
    expect(parsed.proxy?.serves(new URL(url))).toBe(serves);
  });

  test('the lower-case no_proxy wins, empty too', () => {
    const parsed = readProxy({ HTTPS_PROXY: PROXY, NO_PROXY: '*', no_proxy: '' });
    if (parsed.kind === 'wrong') throw new Error(parsed.problem);
    expect(parsed.proxy?.serves(new URL('https://farpulse.example'))).toBe(true);
  });
});
