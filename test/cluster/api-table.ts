// What farpulse, beacons and kubelets need of the Kubernetes API, case by case. The same table runs against
// the real API server and against the stand-in of `test/support/api-stand-in/`, so that the stand-in cannot drift.
import { ADAPTER_CASES } from './api-table-adapter.ts';
import type { TableContext } from './api-table-context.ts';
import { LIST_CASES } from './api-table-lists.ts';
import { WRITE_CASES } from './api-table-writes.ts';
import { ACCESS_CASES } from './api-table-access.ts';

export interface ApiCase {
  readonly name: string;
  readonly run: (context: TableContext) => Promise<void>;
}

export const API_TABLE: readonly ApiCase[] = [
  ...WRITE_CASES,
  ...LIST_CASES,
  ...ACCESS_CASES,
  ...ADAPTER_CASES,
];
