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

/** An import of a file gives code, the value of its JSON, its text, or its bytes. */
export type Loader = "ts" | "js" | "json" | "text" | "bytes";

/** The kind that a file has by its name; undefined if it cannot be imported at all. */
export function loaderOf(path: string): Loader | undefined {
  const extension = posix.extname(path);
  if (extension === ".ts" || extension === ".mts") return "ts";
  if (extension === ".js" || extension === ".mjs") return "js";
  if (extension === ".json") return "json";
  if (TEXTS.has(extension.toLowerCase())) return "text";
  return BYTES.has(extension.toLowerCase()) ? "bytes" : undefined;
}

/** `reference_templates/berth.d.ts` declares both lists for the checker, and docs/folders.md explains them. */
const TEXTS: ReadonlySet<string> = new Set(
  ".css .csv .graphql .hbs .htm .html .ini .jsonl .md .sql .svg .toml .tsv .txt .xml .xsd .yaml .yml".split(" "),
);
const BYTES: ReadonlySet<string> = new Set(
  (
    ".bin .bmp .db .docx .gif .gz .ico .jpeg .jpg .mp3 .otf .parquet .pdf .png .sqlite .ttf " +
    ".wasm .wav .webp .woff .woff2 .xlsx .zip"
  ).split(" "),
);

/** True for code, where comments and imports mean something. */
export function isCode(path: string): boolean {
  const loader = loaderOf(path);
  return loader === "ts" || loader === "js";
}

/** True for a file of which nothing is read here: its text or its bytes are what an import gives. */
export function isAsset(path: string): boolean {
  const loader = loaderOf(path);
  return loader === "text" || loader === "bytes";
}

/** True for a file whose text, wherever files are texts, is its bytes in base64. */
export function isBytes(path: string): boolean {
  return loaderOf(path) === "bytes";
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

/** The file that a tag names: one beside its own file, or where a relative path leads. */
export function resolveTagFile(importer: string, file: string, exists: (path: string) => boolean): OwnFile {
  return resolveOwnFile(importer, posix.isAbsolute(file) ? `..${file}` : `./${file}`, exists);
}
