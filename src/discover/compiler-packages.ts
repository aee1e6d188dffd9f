import { readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";

/** The npm packages that the compiler consists of. */
export const compilerPackages: readonly string[] =
  "@humanwhocodes/momoa ajv ajv-formats enhanced-resolve esbuild re2js tar typescript yaml".split(" ");

/** The installed package that contains a file, such as `typescript@6.0.3`. */
export function owningPackage(path: string): string | undefined {
  for (let folder = dirname(realpathSync(path)); dirname(folder) !== folder; folder = dirname(folder)) {
    const { name, version } = readManifest(folder);
    if (name && version) return `${name}@${version}`;
  }
  return undefined;
}

function readManifest(folder: string): { readonly name?: string; readonly version?: string } {
  try {
    return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw error;
  }
}
