import type { FetchPackages } from "../image/folder-packages.ts";
import { findNpm } from "../packages/find-npm.ts";
import { npmConfigOf } from "../packages/npm-runs.ts";
import { openNpm, type Npm, type NpmLimits } from "../packages/npm.ts";

/**
 * The author's own npm, with their configuration, cache and registries. It is looked up when something has to be fetched.
 * `folder` has the `package.json`, and perhaps an `.npmrc`.
 */
export function ownNpm(folder: string, limits: NpmLimits) {
  const { env } = process;
  let npm: Npm | undefined;
  const fetch: FetchPackages = (set, have) => (npm ??= openNpm({ mode: "own", folder, env, limits })).fetch(set, have);
  return {
    fetch,
    registries: async () => (await npmConfigOf({ cli: findNpm(env).cli, env, cwd: folder })).registries,
    close: async () => npm?.close(),
  };
}
