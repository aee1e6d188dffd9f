import { existsSync, readFileSync, realpathSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";

/**
 * The npm packages that a definition may import. Berth bundles them from its own installation, at the versions it was
 * built with; nothing beside the definition is ever looked at. Knows package folders only, not the bundler.
 */
export const guestPackages: ReadonlySet<string> = new Set([
  "github-slugger",
  "jq-wasm",
  "luxon",
  "rehype-raw",
  "rehype-sanitize",
  "rehype-stringify",
  "remark-gfm",
  "remark-parse",
  "remark-rehype",
  "unified",
]);

/** Those that the compiler itself consists of. */
export const compilerPackages: readonly string[] = [
  "@humanwhocodes/momoa",
  "ajv",
  "ajv-formats",
  "enhanced-resolve",
  "esbuild",
  "re2js",
  "tar",
  "typescript",
];

/** A file of an installed package, under a name that is the same on every machine. */
export interface PackageFile {
  readonly realPath: string;
  /** `luxon@3.7.2/src/luxon.js` */
  readonly name: string;
  readonly dependencies: ReadonlySet<string>;
}

/** Finds out which installed package a file belongs to; undefined outside of any package with a name and a version. */
export function packageFile(path: string): PackageFile | undefined {
  const realPath = realpathSync(path);
  for (let folder = dirname(realPath); dirname(folder) !== folder; folder = dirname(folder)) {
    const manifestPath = join(folder, "package.json");
    if (!existsSync(manifestPath)) continue;
    const manifest = JSON.parse(readFileSync(manifestPath, "utf8")) as Manifest;
    if (!manifest.name || !manifest.version) continue;
    const inside = relative(folder, realPath).split(sep).join("/");
    return {
      realPath,
      name: `${manifest.name}@${manifest.version}/${inside}`,
      dependencies: new Set([
        manifest.name,
        ...Object.keys(manifest.dependencies ?? {}),
        ...Object.keys(manifest.peerDependencies ?? {}),
      ]),
    };
  }
  return undefined;
}

interface Manifest {
  readonly name?: string;
  readonly version?: string;
  readonly dependencies?: Record<string, string>;
  readonly peerDependencies?: Record<string, string>;
}
