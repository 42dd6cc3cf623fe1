import { ApiError, badRequest, invalid, staleVersion } from './api-error.ts';
import { normalise } from './normalise.ts';
import { type Fields, isFields, type KubeObject } from './objects.ts';
import type { Resource } from './resources.ts';

/** The object as it is read into Go types, or refused in the way that suits the verb. */
export function decode(
  resource: Resource,
  body: Fields,
  strict: boolean,
  refuse: (message: string) => ApiError,
): Fields {
  try {
    const { object, unknown } = normalise(resource, body);
    const [field] = unknown;
    if (field !== undefined && strict) throw refuse(`strict decoding error: unknown field "${field}"`);
    return object;
  } catch (error) {
    if (error instanceof RangeError) throw refuse(error.message);
    throw error;
  }
}

/**
 * What an existing object becomes by a patch or a replacement; its resourceVersion is still the old one.
 * The checks come in the order of the real server (apiserver registry/store.go, rest/update.go), which decides
 * whether a request with several faults is a 409 or a 422.
 */
export function updated(
  resource: Resource,
  subresource: string,
  before: KubeObject,
  wanted: Fields,
  strict: boolean,
): KubeObject {
  const { name } = before.metadata;
  const object = decode(resource, wanted, strict, (message) => invalid('', '', 'patch', message));
  const metadata = isFields(object['metadata']) ? object['metadata'] : {};
  if (metadata['name'] !== name)
    throw badRequest('the name of the object does not match the name on the URL');

  const version = textOf(metadata['resourceVersion']);
  if (!/^\d*$/.test(version))
    throw new ApiError(500, 'InternalError', `Internal error: "${version}" is no version`);
  const unconditional = version === '' || version === '0';
  if (!unconditional && version !== before.metadata.resourceVersion)
    throw staleVersion(resource.plural, name);

  const uid = textOf(metadata['uid']);
  if (uid !== '' && uid !== before.metadata.uid) {
    throw invalid(resource.kind, name, 'metadata.uid', `Invalid value: "${uid}": field is immutable`);
  }

  // A status write leaves the rest alone, and the other way round; metadata may be written through both.
  const { spec: _spec, status: _status, ...rest } = object;
  const specFrom = subresource === 'status' ? before : object;
  const statusFrom = resource.status === 'none' || subresource === 'status' ? object : before;
  const { managedFields } = before.metadata;
  return {
    ...rest,
    kind: resource.kind,
    apiVersion: resource.apiVersion,
    metadata: {
      ...metadata,
      name,
      uid: before.metadata.uid,
      resourceVersion: before.metadata.resourceVersion,
      creationTimestamp: before.metadata.creationTimestamp,
      ...(managedFields !== undefined && { managedFields }),
    },
    ...(isFields(specFrom['spec']) && { spec: specFrom['spec'] }),
    ...(isFields(statusFrom['status']) && { status: statusFrom['status'] }),
  };
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
