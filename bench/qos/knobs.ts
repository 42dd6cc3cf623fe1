import { registerHooks } from 'node:module';

/**
 * Turns constants of the core, or of the beacon's tries, for one run: `CANARY_MS=0` puts 0 where the source says
 * `const CANARY_MS = ...;`. Only what is imported after this is changed. In production these are no settings: each has
 * one value, and this is how that value is compared with others.
 *
 * @returns names that have not been found in any module imported so far
 */
export function turnConstants(constants: ReadonlyMap<string, string>): () => readonly string[] {
  const unfound = new Set(constants.keys());
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      if (!/\/(worker\/core|node-beacon)\//.test(url) || loaded.source === undefined) return loaded;
      let source = sourceText(loaded.source);
      for (const [name, value] of constants) {
        source = source.replace(new RegExp(`(const ${name}(?:: [^=;]+)? = )[^;]+;`), (_, start: string) => {
          unfound.delete(name);
          return `${start}${value};`;
        });
      }
      return { ...loaded, source };
    },
  });
  return () => [...unfound];
}

function sourceText(source: string | ArrayBuffer | NodeJS.TypedArray): string {
  return typeof source === 'string' ? source : new TextDecoder().decode(source);
}
