import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { packageRoot } from "../config.ts";
import { jsonBlock, rawBlock, type Cid } from "../lib/cid.ts";
import { compilerPackages, packageOfFile } from "./compiler-packages.ts";
import type { DefinitionSource } from "./discovery.ts";

/**
 * The key under which a compiled definition is kept: it changes when the definition does, or when another compiler
 * could make something else of it, or when its packages do. The server is part of it, since a definition of one file and its tool may be
 * named after it. Loads no compiler: it reads what this one consists of, once per process. `compiler` is the identity of
 * an earlier one, for what that one made.
 */
export function compileKey(
  definition: Cid,
  source: Pick<DefinitionSource, "language" | "server" | "packages">,
  compiler: Cid = compilerCid(),
  nodeMajor = Number(process.versions.node.split(".")[0]),
): string {
  const { language, server, packages } = source;
  // Schemas of packages are evaluated, and may say something else with another Node.js.
  const reached = packages && { packages: jsonBlock(packages).cid, node: nodeMajor };
  return jsonBlock({ definition, compiler, language, server, ...reached }).cid;
}

let known: Cid | undefined;

/** The identity of the compiler: its own code, the ambient types, and the packages that work for it. */
export function compilerCid(): Cid {
  known ??= jsonBlock({ code: ownCode(), ambient: ambientTypes(), packages: packageVersions() }).cid;
  return known;
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

/** `typescript@6.0.3`; packages may hide their manifest, so that it is looked for from their main file. */
function nameAndVersion(require: NodeJS.Require, name: string): string {
  try {
    return packageOfFile(require.resolve(name)) ?? name;
  } catch {
    return name;
  }
}
