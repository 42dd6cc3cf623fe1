import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../worker/config.ts';

describe('an apiUrl', () => {
  test.for([
    { name: 'with user and password', apiUrl: 'https://ada:hunter2@kube.example.com' },
    { name: 'with a user alone', apiUrl: 'https://hunter2@kube.example.com' },
    { name: 'with a password alone', apiUrl: 'https://:hunter2@kube.example.com:6443/k8s' },
    { name: 'that is no URL', apiUrl: 'ada:hunter2@kube.example.com' },
  ])('$name is refused by the name of its field, and not shown', ({ apiUrl }) => {
    const result = parse(apiUrl);
    expect(result).toMatchObject({ ok: false, field: 'CLUSTERS.prod.apiUrl' });
    expect(JSON.stringify(result)).not.toContain('hunter2');
  });

  test('with credentials is refused with what to do instead', () => {
    expect(parse('https://ada:hunter2@kube.example.com')).toMatchObject({
      expected: 'a URL without credentials: the token is a secret of its own, KUBE_TOKEN_<CLUSTER>',
    });
  });

  test('with an @ in its path is taken', () => {
    expect(parse('https://kube.example.com/proxy/a@b').ok).toBe(true);
  });
});

function parse(apiUrl: string): ReturnType<typeof parseConfig> {
  return parseConfig({
    DEPLOYMENT_ID: 'test',
    CLUSTERS: { prod: { apiUrl } },
    ADMIN_TOKEN: 'admin-token-of-the-test',
  });
}
