// The API table against the stand-in. `test/cluster/api-table.test.ts` runs it against the real API server.
import { afterAll, beforeAll, test } from 'vitest';
import { OWN_NODE, TableContext } from '../cluster/api-table-context.ts';
import { API_TABLE } from '../cluster/api-table.ts';
import { ADMIN, type ApiStandIn, kubeletUser, startApiStandIn } from '../support/api-stand-in/index.ts';

let api: ApiStandIn;
let context: TableContext;

beforeAll(async () => {
  api = await startApiStandIn({ tokens: { root: ADMIN, kubelet: kubeletUser(OWN_NODE) } });
  context = new TableContext({ url: api.url, fetch, adminToken: 'root', kubeletToken: 'kubelet' });
});

afterAll(() => api.stop());

test.for(API_TABLE)('stand-in: $name', ({ run }) => run(context));
