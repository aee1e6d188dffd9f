import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { packageRoot } from "../config.ts";
import { jsonBlock, rawBlock, type Cid } from "../lib/cid.ts";
import { compilerPackages, owningPackage } from "./compiler-packages.ts";
import type { DefinitionSource } from "./discovery.ts";

/**
 * The key of a compiled definition. It changes with the definition, its packages and the compiler. The server is part
 * of it because the tool of a one-file definition may be named after the server. Loads no compiler: reads the
 * compiler's own files once per process. `compiler` is the identity of an earlier compiler, to find its results.
 */
export function compileKey(
  definition: Cid,
  source: Pick<DefinitionSource, "language" | "server" | "packages">,
  compiler: Cid = compilerCid(),
  nodeMajor = Number(process.versions.node.split(".")[0]),
): string {
  const { language, server, packages } = source;
  // Package schemas are evaluated, and their result may depend on the Node.js version.
  const packageKey = packages && { packages: jsonBlock(packages).cid, node: nodeMajor };
  return jsonBlock({ definition, compiler, language, server, ...packageKey }).cid;
}

let cachedCid: Cid | undefined;

/** The identity of the compiler: its own code, the ambient types, and the versions of its packages. */
export function compilerCid(): Cid {
  cachedCid ??= jsonBlock({ code: ownCode(), ambient: ambientTypes(), packages: packageVersions() }).cid;
  return cachedCid;
}

function ownCode(): Record<string, Cid> {
  const folder = fileURLToPath(new URL(".", import.meta.url));
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".js"))
    .map((file) => file.replaceAll("\\", "/"))
    .sort();
  return Object.fromEntries(files.map((file) => [file, rawBlock(readFileSync(join(folder, file))).cid]));
}

function ambientTypes(): Cid {
  return rawBlock(readFileSync(join(packageRoot, "reference_templates", "berth.d.ts"))).cid;
}

function packageVersions(): string[] {
  const require = createRequire(import.meta.url);
  return compilerPackages.map((name) => nameAndVersion(require, name)).sort();
}

/** `typescript@6.0.3`. Packages may not export their manifest, so it is searched for from their main file. */
function nameAndVersion(require: NodeJS.Require, name: string): string {
  try {
    return owningPackage(require.resolve(name)) ?? name;
  } catch {
    return name;
  }
}
