/*
 * Kubernetes objects as the stand-in holds them: plain JSON, treated as immutable. A write makes a new object.
 */

export type Fields = Readonly<Record<string, unknown>>;

export interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
  readonly lastHeartbeatTime?: string | null;
  readonly lastTransitionTime?: string | null;
}

export interface ManagedFieldsEntry {
  readonly manager: string;
  readonly operation: 'Update';
  readonly apiVersion: string;
  readonly time: string;
  readonly fieldsType: 'FieldsV1';
  readonly fieldsV1: Fields;
  readonly subresource?: string;
}

export interface Metadata {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly creationTimestamp: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly managedFields?: readonly ManagedFieldsEntry[];
  readonly [field: string]: unknown;
}

export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Metadata;
  readonly spec?: Fields;
  readonly status?: Fields & { readonly conditions?: readonly Condition[] };
  readonly [field: string]: unknown;
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function conditionOf(object: KubeObject | undefined, type: string): Condition | undefined {
  return object?.status?.conditions?.find((condition) => condition.type === type);
}
