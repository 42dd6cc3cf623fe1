/** One kind of machine that an executable is built for. */
export interface Target {
  readonly name: string;
  /** The npm package that holds bun's runtime for it. */
  readonly runtime: string;
  /** Debian's name of the architecture, where a package is made. */
  readonly debianArchitecture?: string;
}

/** x64 needs SSE4.2 (2008) and no more: bun finds out at run time what else a processor can do. */
export const TARGETS: readonly Target[] = [
  { name: 'linux-x64', runtime: '@oven/bun-linux-x64', debianArchitecture: 'amd64' },
  { name: 'linux-arm64', runtime: '@oven/bun-linux-aarch64', debianArchitecture: 'arm64' },
  { name: 'linux-x64-musl', runtime: '@oven/bun-linux-x64-musl' },
  { name: 'linux-arm64-musl', runtime: '@oven/bun-linux-aarch64-musl' },
];

/** The target of the machine that builds. */
export function hostTarget(): Target | undefined {
  return TARGETS.find(({ name }) => name === `${process.platform}-${process.arch}`);
}
