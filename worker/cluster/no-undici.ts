/*
 * Stands in for `undici` in the bundle (`alias` in wrangler.toml). @kubernetes/client-node imports undici for its
 * default transport, which is never used here: `fetch-http.ts` takes its place. undici would be more than half of
 * what the cluster adapter costs (240 KiB of gzip), and its evaluation most of the adapter's start.
 */

/** Fails loudly if the default transport should ever be reached. */
export function fetch(): never {
  throw new Error('the default transport of @kubernetes/client-node is not part of this bundle');
}
