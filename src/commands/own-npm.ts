import type { FetchPackages } from "../image/folder-packages.ts";
import { findNpm } from "../packages/find-npm.ts";
import { npmConfigOf } from "../packages/npm-runs.ts";
import { openNpm, type Npm, type NpmLimits } from "../packages/npm.ts";

/** The author's own npm, with their configuration and cache. It is looked for when something has to be fetched. */
export interface OwnNpm {
  readonly fetch: FetchPackages;
  /** The registries that it is configured to. */
  readonly registries: () => Promise<readonly string[]>;
  close(): Promise<void>;
}

/** `folder` has the `package.json`, and perhaps an `.npmrc`. */
export function ownNpm(folder: string, limits: NpmLimits): OwnNpm {
  const { env } = process;
  let npm: Npm | undefined;
  return {
    fetch: (set, have) => (npm ??= openNpm({ mode: "own", folder, env, limits })).fetch(set, have),
    registries: async () => (await npmConfigOf({ cli: findNpm(env).cli, env, cwd: folder })).registries,
    close: async () => npm?.close(),
  };
}
