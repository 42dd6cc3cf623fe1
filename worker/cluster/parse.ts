import { z } from 'zod';
import { toRfc3339Seconds } from '../core/rfc3339.ts';
import { UnreadableAnswer } from './failure.ts';
import type {
  InventoryNode,
  LeaseCopy,
  NodeCopy,
  OwnLeaseCopy,
  PodCopy,
  ReadyCondition,
} from '../core/cluster-port.ts';

/*
 * The edge between the generated client's types, which promise without looking, and our own. The client has turned
 * RFC 3339 times into Date by now, except micro times: those are declared as Date and arrive as the text they were.
 */

/** Whole seconds, as the API server writes `metav1.Time` (apimachinery meta/v1/time.go). */
const Time = z.date().transform((time) => toRfc3339Seconds(time.getTime()));

const MicroTimeMs = z
  .union([z.date(), z.string()])
  .transform((time) => new Date(time).getTime())
  .refine((ms) => !Number.isNaN(ms), 'not a time');

const Texts = z
  .record(z.string(), z.string())
  .nullish()
  .transform((texts) => texts ?? {});

/** A zero time is written as `null` (apimachinery meta/v1/time.go, MarshalJSON). */
const Ready = z.object({
  status: z.enum(['True', 'False', 'Unknown']),
  reason: z.string().default(''),
  message: z.string().default(''),
  lastTransitionTime: Time.nullish().transform((time) => time ?? ''),
  lastHeartbeatTime: Time.nullish().transform((time) => time ?? ''),
});

/** Only Ready is looked at: what other conditions hold is none of our business. */
const ReadyAmongConditions = z
  .array(z.looseObject({ type: z.string() }))
  .nullish()
  .transform((conditions, context): ReadyCondition | undefined => {
    const found = conditions?.find(({ type }) => type === 'Ready');
    if (found === undefined) return undefined;
    const parsed = Ready.safeParse(found);
    if (parsed.success) return parsed.data;
    context.addIssue({ code: 'custom', message: `Ready: ${firstIssue(parsed.error)}` });
    return z.NEVER;
  });

const ManagedFields = z
  .array(
    z.object({
      manager: z.string().optional(),
      subresource: z.string().optional(),
      time: z.date().optional(),
      fieldsV1: z.unknown(),
    }),
  )
  .nullish();

const Meta = z.object({
  name: z.string().min(1),
  uid: z.string().min(1),
  resourceVersion: z.string().min(1),
  labels: Texts,
  annotations: Texts,
});

const Node = z
  .object({
    kind: z.literal('Node'),
    metadata: Meta.extend({ managedFields: ManagedFields }),
    spec: z.object({ unschedulable: z.boolean().nullish() }).nullish(),
    status: z.object({ conditions: ReadyAmongConditions }).nullish(),
  })
  .transform(({ metadata: { managedFields, ...metadata }, spec, status }): NodeCopy => {
    const kubeletWroteAtMs = kubeletWriteOf(managedFields ?? []);
    return {
      ...metadata,
      ready: status?.conditions,
      unschedulable: spec?.unschedulable ?? false,
      ...(kubeletWroteAtMs !== undefined && { kubeletWroteAtMs }),
    };
  });

/** Items of a list have no `kind`. */
const LeaseItem = z.object({
  metadata: z.object({ name: z.string().min(1) }),
  spec: z.object({ renewTime: MicroTimeMs.nullish() }).nullish(),
});
const Lease = LeaseItem.extend({ kind: z.literal('Lease') });

const OwnLease = z.object({
  kind: z.literal('Lease'),
  metadata: z.object({ resourceVersion: z.string().min(1) }),
  spec: z.object({ holderIdentity: z.string().nullish(), renewTime: MicroTimeMs.nullish() }).nullish(),
});

const InventoryItem = z.object({
  metadata: Meta.omit({ resourceVersion: true }),
});

const Pod = z
  .object({
    metadata: z.object({
      name: z.string().min(1),
      namespace: z.string().min(1),
      uid: z.string().min(1),
      resourceVersion: z.string().min(1),
    }),
    status: z.object({ conditions: ReadyAmongConditions }).nullish(),
  })
  .transform(({ metadata, status }): PodCopy => {
    const ready = status?.conditions;
    const marked = ready?.status === 'False' && ready.reason === '';
    return { ...metadata, ready: ready?.status, ...(marked && { marked }) };
  });

const Written = z.object({ metadata: z.object({ resourceVersion: z.string().min(1) }) });

export function parseNode(answer: unknown): NodeCopy {
  return parse(Node, answer, 'a Node');
}

export function parseLease(answer: unknown): LeaseCopy {
  return leaseCopyOf(parse(Lease, answer, 'a Lease'));
}

function leaseCopyOf({ metadata, spec }: z.infer<typeof LeaseItem>): LeaseCopy {
  return { node: metadata.name, renewTimeMs: spec?.renewTime ?? undefined };
}

export function parseOwnLease(answer: unknown): OwnLeaseCopy {
  const { metadata, spec } = parse(OwnLease, answer, 'a Lease');
  const holder = spec?.holderIdentity ?? '';
  return {
    resourceVersion: metadata.resourceVersion,
    holder: holder === '' ? undefined : holder,
    renewTimeMs: spec?.renewTime ?? undefined,
  };
}

/** The resourceVersion that a write has left. */
export function parseWritten(answer: unknown): { readonly resourceVersion: string } {
  const { metadata } = parse(Written, answer, 'an object');
  return { resourceVersion: metadata.resourceVersion };
}

export interface Page<T> {
  readonly items: readonly T[];
  /** Where the next page begins; empty on the last. */
  readonly next: string;
}

export function parseInventoryPage(answer: unknown): Page<InventoryNode> {
  const page = parsePage('PartialObjectMetadataList', InventoryItem, answer);
  return { ...page, items: page.items.map(({ metadata }) => metadata) };
}

export function parseLeasePage(answer: unknown): Page<LeaseCopy> {
  const page = parsePage('LeaseList', LeaseItem, answer);
  return { ...page, items: page.items.map(leaseCopyOf) };
}

export function parsePodPage(answer: unknown): Page<PodCopy> {
  return parsePage('PodList', Pod, answer);
}

function parsePage<T>(kind: string, item: z.ZodType<T>, answer: unknown): Page<T> {
  const List = z.object({
    kind: z.literal(kind),
    // The client renames `continue`, which is a word of the language.
    metadata: z.object({ _continue: z.string().nullish() }),
    items: z.array(item).nullable(),
  });
  const { metadata, items } = parse(List, answer, `a ${kind}`);
  return { items: items ?? [], next: metadata._continue ?? '' };
}

function parse<T>(schema: z.ZodType<T>, answer: unknown, what: string): T {
  const parsed = schema.safeParse(answer);
  if (parsed.success) return parsed.data;
  throw new UnreadableAnswer(`not ${what}: ${firstIssue(parsed.error)}`);
}

function firstIssue({ issues: [issue] }: z.ZodError): string {
  return `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'invalid'}`;
}

/** Their writes are no sign of a kubelet. */
const NOT_KUBELETS: ReadonlySet<string | undefined> = new Set(['farpulse', 'kube-controller-manager']);

/**
 * When a kubelet last wrote this Node's status, by the API server's clock.
 *
 * The kubelet is recognised by what it owns, Ready's heartbeat under `status`, and not by its name: the manager is
 * named after the binary, so it is `kubelet` here, `k3s` or `kubelite` there, `hollow-kubelet` in tests. Until its
 * first report after registering (up to 5 min) nobody owns the heartbeat, because a create owns nothing of a status;
 * then it is who owns anything of Ready. On a k3s server the controller manager shares the kubelet's binary and
 * name, so its writes look like the kubelet's, which can only delay a verdict. The time moves whenever a field
 * changes (apimachinery util/managedfields/internal/managedfieldsupdater.go).
 */
function kubeletWriteOf(entries: NonNullable<z.infer<typeof ManagedFields>>): number | undefined {
  const owners = entries
    .filter(({ manager, subresource }) => subresource === 'status' && !NOT_KUBELETS.has(manager))
    .flatMap(({ time, fieldsV1 }) => {
      const owned = OwnedOfReady.safeParse(fieldsV1).data;
      return owned === undefined || time === undefined ? [] : [{ atMs: time.getTime(), owned }];
    });
  const withHeartbeat = owners.filter(({ owned }) => 'f:lastHeartbeatTime' in owned);
  const times = (withHeartbeat.length > 0 ? withHeartbeat : owners).map(({ atMs }) => atMs);
  return times.length === 0 ? undefined : Math.max(...times);
}

/** FieldsV1, the API's notation for a set of fields (structured-merge-diff). */
const OwnedOfReady = z
  .object({
    'f:status': z.object({
      'f:conditions': z.object({ 'k:{"type":"Ready"}': z.record(z.string(), z.unknown()) }),
    }),
  })
  .transform((fields) => fields['f:status']['f:conditions']['k:{"type":"Ready"}']);
