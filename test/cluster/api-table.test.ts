// The API table against the real API server.
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, test } from 'vitest';

import { OWN_NODE, TableContext } from './api-table-context.ts';
import { API_TABLE } from './api-table.ts';
import { startControlPlane } from './control-plane.ts';
import type { ControlPlane } from './plane.ts';

let plane: ControlPlane;
let context: TableContext;

beforeAll(async () => {
  // Without controllers, so that nothing writes but the table.
  plane = await startControlPlane({ kcm: false, nodeNames: [OWN_NODE] });
  // The global fetch takes no certificate of its own; the adapter gets that very fetch.
  setDefaultCACertificates([...getCACertificates('default'), await readFile(plane.caFile, 'utf8')]);
  context = new TableContext({
    url: plane.url,
    fetch,
    adminToken: plane.adminToken,
    kubeletToken: plane.tokenOf(`system:node:${OWN_NODE}`),
  });
});

afterAll(() => plane?.stop());

test.for(API_TABLE)('real API server: $name', ({ run }) => run(context));
