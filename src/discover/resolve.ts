import { posix } from "node:path";

/**
 * How one file of a definition names another: the same rule for gathering, for bundling and for whoever type-checks.
 * Knows paths only: `exists` says whether a path, relative to the folder of sources, is a file.
 */
export type OwnFile =
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "missing"; readonly tried: readonly string[] }
  | { readonly kind: "outside" };

/** `./x.ts`, `./x.js` (written for `./x.ts`), `./x` and `./folder` (its `index.ts`), as TypeScript reads them. */
export function resolveOwnFile(importer: string, specifier: string, exists: (path: string) => boolean): OwnFile {
  const path = posix.normalize(posix.join(posix.dirname(importer), specifier));
  if (path === ".." || path.startsWith("../") || specifier.includes("\\") || specifier.includes("\0")) {
    return { kind: "outside" };
  }
  const tried = candidates(path, specifier.endsWith("/"));
  const found = tried.find((candidate) => exists(candidate));
  return found === undefined ? { kind: "missing", tried } : { kind: "file", path: found };
}

/** `./x` and `../x`: the ways to name a definition's own file. */
export function isRelative(specifier: string): boolean {
  return /^\.\.?(\/|$)/.test(specifier);
}

/** The kind that esbuild and the checker give a file; undefined if it cannot be imported at all. */
export function loaderOf(path: string): "ts" | "js" | "json" | undefined {
  const extension = posix.extname(path);
  if (extension === ".ts" || extension === ".mts") return "ts";
  if (extension === ".js" || extension === ".mjs") return "js";
  return extension === ".json" ? "json" : undefined;
}

/** The file that says what types a JavaScript file has: `x.d.ts` beside `x.js`. */
export function declarationsOf(path: string): string | undefined {
  return /\.m?js$/.test(path) ? path.replace(/\.(m?)js$/, ".d.$1ts") : undefined;
}

/** The JavaScript file that a file of declarations is about. */
export function declaredBy(path: string): string | undefined {
  return isDeclarations(path) ? path.replace(/\.d\.(m?)ts$/, ".$1js") : undefined;
}

export function isDeclarations(path: string): boolean {
  return /\.d\.m?ts$/.test(path);
}

function candidates(path: string, folderOnly: boolean): string[] {
  const folder = [`${path}/index.ts`, `${path}/index.js`, `${path}/index.d.ts`].map((candidate) =>
    posix.normalize(candidate),
  );
  if (folderOnly || path === ".") return folder;
  const written = path.replace(/\.(m?)js$/, ".$1ts");
  if (loaderOf(path) !== undefined) return written === path ? [path] : [path, written, declarationsOf(path)!];
  // Another kind of file is found under its own name, so that the problem says "not importable", not "missing".
  const itself = posix.extname(path) === "" ? [] : [path];
  return [...itself, `${path}.ts`, `${path}.js`, `${path}.json`, `${path}.d.ts`, ...folder];
}
