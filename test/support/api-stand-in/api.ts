import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { type Attempt, checkAccess, checkNodeChange, type Verb } from './access.ts';
import { alreadyExists, ApiError, badRequest, invalid, notFound, unsupportedMediaType } from './api-error.ts';
import type { Clock } from './clock.ts';
import { Lists } from './lists.ts';
import { managedFieldsAfter } from './managed-fields.ts';
import { wholeSeconds } from './normalise.ts';
import { type Fields, isFields, type KubeObject } from './objects.ts';
import { mergePatch, strategicMergePatch } from './patch.ts';
import { PODS, RESOURCES } from './resources.ts';
import { type Route, routeOf } from './routes.ts';
import { Store } from './store.ts';
import { decode, updated } from './update.ts';

export interface ApiRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly contentType: string;
  readonly accept: string;
  readonly body: unknown;
  readonly user: string;
  /** Who owns the fields of a write, unless `fieldManager` says otherwise. */
  readonly manager: string;
}

export interface ApiAnswer {
  readonly status: number;
  /** Text is sent as text. */
  readonly body: unknown;
}

const VERSION = { major: '1', minor: '37', gitVersion: 'v1.37.2+api-stand-in', platform: 'in-process' };

const PATCHES: Readonly<Record<string, (target: Fields, patch: Fields) => Fields>> = {
  'application/strategic-merge-patch+json': strategicMergePatch,
  'application/merge-patch+json': mergePatch,
};

/** The API without its wire: one request in, one answer out, no waiting. */
export class Api {
  readonly store = new Store();
  readonly lists = new Lists(this.store);
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  handle(request: ApiRequest): ApiAnswer {
    if (request.path === '/version') return { status: 200, body: VERSION };
    if (['/readyz', '/livez', '/healthz'].includes(request.path)) return { status: 200, body: 'ok' };
    const route = routeOf(request.path);
    if (route === undefined) return nothingAt(request.path);
    try {
      return this.#dispatch(request, route);
    } catch (error) {
      if (error instanceof ApiError) return { status: error.status, body: error.body };
      throw error;
    }
  }

  #dispatch(request: ApiRequest, route: Route): ApiAnswer {
    const { method, accept } = request;
    if (route.name === '') {
      if (method === 'GET') return { status: 200, body: asAccepted(this.#list(request, route), accept) };
      if (method === 'POST' && (route.namespace !== undefined || !route.resource.namespaced)) {
        return { status: 201, body: asAccepted(this.#create(request, route), accept) };
      }
    } else if (method === 'GET') {
      this.#check(request, route, 'get');
      return { status: 200, body: asAccepted(this.#existing(route), accept) };
    } else if (method === 'PATCH') {
      return { status: 200, body: asAccepted(this.#patch(request, route), accept) };
    } else if (method === 'PUT') {
      return { status: 200, body: asAccepted(this.#replace(request, route), accept) };
    } else if (method === 'DELETE' && route.subresource === '') {
      return { status: 200, body: this.#delete(request, route) };
    }
    throw new ApiError(
      405,
      'MethodNotAllowed',
      'the server does not allow this method on the requested resource',
    );
  }

  #list(request: ApiRequest, route: Route): Fields {
    this.#check(request, route, 'list');
    if (request.query.get('watch') === 'true') throw badRequest('the stand-in has no watch');
    return this.lists.read(route.resource, route.namespace, request.query);
  }

  #create(request: ApiRequest, route: Route): KubeObject {
    const { resource, namespace } = route;
    const body = fieldsOf(request.body);
    const metadata = isFields(body['metadata']) ? body['metadata'] : {};
    const name = typeof metadata['name'] === 'string' ? metadata['name'] : '';
    this.#check(request, { ...route, name }, 'create');
    if (name === '')
      throw invalid(resource.kind, '', 'metadata.name', 'Required value: name or generateName is required');
    if (this.store.get(resource, namespace ?? '', name) !== undefined)
      throw alreadyExists(resource.plural, name);

    const object = decode(resource, body, isStrict(request), badRequest);
    const now = this.#now();
    const created: KubeObject = {
      ...object,
      kind: resource.kind,
      apiVersion: resource.apiVersion,
      metadata: {
        ...metadata,
        name,
        ...(namespace !== undefined && { namespace }),
        uid: randomUUID(),
        resourceVersion: '',
        creationTimestamp: now,
      },
      ...(resource.status !== 'none' && { spec: isFields(object['spec']) ? object['spec'] : {} }),
      ...(resource.status === 'own' && { status: resource === PODS ? { phase: 'Pending' } : {} }),
    };
    return this.#commit(request, route, undefined, created);
  }

  #patch(request: ApiRequest, route: Route): KubeObject {
    this.#check(request, route, 'patch');
    const apply = PATCHES[request.contentType];
    if (apply === undefined) throw unsupportedMediaType(request.contentType);
    const before = this.#existing(route);
    return this.#update(request, route, before, apply(before, fieldsOf(request.body)));
  }

  #replace(request: ApiRequest, route: Route): KubeObject {
    this.#check(request, route, 'update');
    return this.#update(request, route, this.#existing(route), fieldsOf(request.body));
  }

  #update(request: ApiRequest, route: Route, before: KubeObject, wanted: Fields): KubeObject {
    const after = updated(route.resource, route.subresource, before, wanted, isStrict(request));
    checkNodeChange(request.user, before, after);
    // Nothing changed: nothing is written, the version stays.
    if (isDeepStrictEqual(before, after)) return before;
    return this.#commit(request, route, before, after);
  }

  #commit(request: ApiRequest, route: Route, before: KubeObject | undefined, after: KubeObject): KubeObject {
    const { resource, subresource } = route;
    const manager = request.query.get('fieldManager') ?? request.manager;
    const writer = { manager, ...(subresource !== '' && { subresource }) };
    const managedFields = managedFieldsAfter(before, after, writer, this.#now());
    const { managedFields: _managedFields, ...metadata } = after.metadata;
    const object = {
      ...after,
      metadata: { ...metadata, ...(managedFields.length > 0 && { managedFields }) },
    };
    return request.query.get('dryRun') === 'All' ? object : this.store.put(resource, object);
  }

  /** At once, also for pods: the stand-in knows no graceful deletion. */
  #delete(request: ApiRequest, route: Route): unknown {
    this.#check(request, route, 'delete');
    const object = this.#existing(route);
    this.store.delete(route.resource, object);
    if (route.resource === PODS) return object;
    const { name, uid } = object.metadata;
    const details = { name, kind: route.resource.plural, uid };
    return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details };
  }

  #existing({ resource, namespace, name }: Route): KubeObject {
    const object = this.store.get(resource, namespace ?? '', name);
    if (object === undefined) throw notFound(resource.plural, name);
    return object;
  }

  #check(request: ApiRequest, route: Route, verb: Verb): void {
    const { resource, namespace = '', name, subresource } = route;
    const fieldSelector = request.query.get('fieldSelector') ?? '';
    const attempt: Attempt = {
      user: request.user,
      verb,
      resource,
      namespace,
      name,
      subresource,
      fieldSelector,
    };
    checkAccess(attempt, resource === PODS ? this.store.get(resource, namespace, name) : undefined);
  }

  #now(): string {
    return String(wholeSeconds(new Date(this.#clock.nowMs()).toISOString()));
  }
}

/** Within a group and version that exist, a Status that names nothing; elsewhere not even that. */
function nothingAt(path: string): ApiAnswer {
  const known = RESOURCES.some(({ group, apiVersion }) =>
    path.startsWith(`/${group === '' ? 'api' : 'apis'}/${apiVersion}/`),
  );
  if (!known) return { status: 404, body: '404 page not found\n' };
  const { status, body } = new ApiError(
    404,
    'NotFound',
    'the server could not find the requested resource',
    {},
  );
  return { status, body };
}

function fieldsOf(body: unknown): Fields {
  if (!isFields(body)) throw badRequest('the body is not a JSON object');
  return body;
}

function isStrict(request: ApiRequest): boolean {
  return request.query.get('fieldValidation') === 'Strict';
}

const METADATA_ONLY = { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1' };

/** Metadata only, when that is what the client accepts (`as=PartialObjectMetadata` and `...List`). */
function asAccepted(answer: Fields, accept: string): Fields {
  if (/as=PartialObjectMetadataList\b/.test(accept)) {
    // SAFETY: only lists are asked for as lists, and ours always have items.
    const items = (answer['items'] as readonly KubeObject[]).map(({ metadata }) => ({
      ...METADATA_ONLY,
      metadata,
    }));
    return { ...METADATA_ONLY, kind: 'PartialObjectMetadataList', metadata: answer['metadata'], items };
  }
  if (/as=PartialObjectMetadata\b/.test(accept)) return { ...METADATA_ONLY, metadata: answer['metadata'] };
  return answer;
}
