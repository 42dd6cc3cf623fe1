/*
 * The generated client, set up for this project. Only ever imported with `await import()`: evaluating its hundreds
 * of model classes costs about 140 ms, which no beat and no start of the Worker should pay.
 *
 * The deep paths are on purpose: the package's root also loads kubeconfig files, exec, tar and WebSockets (500 KiB
 * of gzip instead of 75, measured with wrangler).
 */
import { createConfiguration } from '@kubernetes/client-node/dist/gen/configuration.js';
import { wrapHttpLibrary } from '@kubernetes/client-node/dist/gen/http/http.js';
import { ServerConfiguration } from '@kubernetes/client-node/dist/gen/servers.js';
import {
  ObjectCoordinationV1Api,
  ObjectCoreV1Api,
} from '@kubernetes/client-node/dist/gen/types/ObjectParamAPI.js';
import { setHeaderOptions } from '@kubernetes/client-node/dist/middleware.js';
import { PatchStrategy } from '@kubernetes/client-node/dist/patch.js';
import type { ExchangeOptions } from './exchange.ts';
import { fetchHttpLibrary } from './fetch-http.ts';

export interface ClientOptions extends ExchangeOptions {
  /** Without a slash at its end. */
  readonly baseUrl: string;
  readonly token: string | undefined;
  readonly listTimeoutMs: number;
}

const AS_METADATA = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1';
const AS_METADATA_LIST = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';

/** The typed APIs, and the options of a call that are not the default. */
export function createClient(options: ClientOptions) {
  const configuration = createConfiguration({
    baseServer: new ServerConfiguration(options.baseUrl, {}),
    httpApi: wrapHttpLibrary(fetchHttpLibrary(options)),
    // Sent as it is: the package puts no `Bearer` before it.
    ...(options.token !== undefined && { authMethods: { BearerToken: `Bearer ${options.token}` } }),
  });
  const list = {
    httpApi: wrapHttpLibrary(fetchHttpLibrary({ ...options, timeoutMs: options.listTimeoutMs })),
  };
  const write = setHeaderOptions('Accept', AS_METADATA);
  return {
    core: new ObjectCoreV1Api(configuration),
    coordination: new ObjectCoordinationV1Api(configuration),
    /** Lists take longer than single objects. */
    list,
    /** 1.5 KB a Node instead of 3 to 20. */
    listMetadata: setHeaderOptions('Accept', AS_METADATA_LIST, list),
    /** Of what was written only the resourceVersion is wanted back. */
    write,
    /** Left alone, the client would call every patch a JSON Patch. */
    patch: setHeaderOptions('Content-Type', PatchStrategy.StrategicMergePatch, write),
  };
}

export type Client = ReturnType<typeof createClient>;
