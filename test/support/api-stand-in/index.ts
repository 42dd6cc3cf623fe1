/** A small in-process Kubernetes API, for tests and the demo. `test/cluster/api-table.ts` keeps it to the real one. */
export { ADMIN, kubeletUser } from './access.ts';
export type { Api, ApiRequest } from './api.ts';
export { type Clock, ManualClock, REAL_CLOCK } from './clock.ts';
export type { Fault } from './faults.ts';
export { KubeletModel } from './kubelet-model.ts';
export { type Condition, conditionOf, type KubeObject } from './objects.ts';
export { EVENTS, LEASES, NODES, PODS } from './resources.ts';
export { type ApiStandIn, type RequestRecord, startApiStandIn } from './server.ts';
