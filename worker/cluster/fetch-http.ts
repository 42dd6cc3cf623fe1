import { type PromiseHttpLibrary, ResponseContext } from '@kubernetes/client-node/dist/gen/http/http.js';
import { exchange, type ExchangeOptions } from './exchange.ts';

/**
 * The transport of @kubernetes/client-node over the platform's own fetch, because the package's default is
 * undici with node agents, which a Worker has not.
 *
 * Only JSON with a 2xx status gets through to the generated client. It would drop the body of a 401 unread, and
 * everything else is for `failureOf` to explain.
 */
export function fetchHttpLibrary(options: ExchangeOptions): PromiseHttpLibrary {
  return {
    send: async (request) => {
      const body = request.getBody();
      const { status, headers, text } = await exchange(
        {
          url: request.getUrl(),
          method: request.getHttpMethod(),
          headers: request.getHeaders(),
          // SAFETY: the calls made here send JSON text; forms belong to other APIs.
          ...(body !== undefined && { body: body as string }),
        },
        options,
      );
      return new ResponseContext(status, Object.fromEntries(headers), {
        text: () => Promise.resolve(text),
        binary: () => Promise.reject(new Error('only JSON is asked for')),
        stream: () => null,
      });
    },
  };
}
