import { posix } from "node:path";

/** How files of a definition refer to each other, for gathering, bundling and type checking. Works on paths only. */
export type OwnFile =
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "missing"; readonly tried: readonly string[] }
  | { readonly kind: "outside" };

/** Resolves `./x.ts`, `./x.js` (written for `./x.ts`), `./x` and `./folder` (its `index.ts`) as TypeScript does. */
export function resolveOwnFile(importer: string, specifier: string, exists: (path: string) => boolean): OwnFile {
  const path = posix.normalize(posix.join(posix.dirname(importer), specifier));
  if (path === ".." || path.startsWith("../") || specifier.includes("\\") || specifier.includes("\0")) {
    return { kind: "outside" };
  }
  const tried = candidates(path, specifier.endsWith("/"));
  const found = tried.find((candidate) => exists(candidate));
  return found === undefined ? { kind: "missing", tried } : { kind: "file", path: found };
}

/** True for the specifiers of a definition's own files: `./x` and `../x`. */
export function isRelative(specifier: string): boolean {
  return /^\.\.?(\/|$)/.test(specifier);
}

/** An import yields code, the value of JSON, a text, or bytes. */
export type Loader = "ts" | "js" | "json" | "text" | "bytes";

/** The loader for a file, by its name; undefined if it cannot be imported. */
export function selectLoader(path: string): Loader | undefined {
  const extension = posix.extname(path);
  if (extension === ".ts" || extension === ".mts") return "ts";
  if (extension === ".js" || extension === ".mjs") return "js";
  if (extension === ".json") return "json";
  if (TEXTS.has(extension.toLowerCase())) return "text";
  return BYTES.has(extension.toLowerCase()) ? "bytes" : undefined;
}

/** Both lists are declared for the checker in `reference_templates/berth.d.ts` and documented in docs/folders.md. */
const TEXTS: ReadonlySet<string> = new Set(
  ".css .csv .graphql .hbs .htm .html .ini .jsonl .md .sql .svg .toml .tsv .txt .xml .xsd .yaml .yml".split(" "),
);
const BYTES: ReadonlySet<string> = new Set(
  (
    ".bin .bmp .db .docx .gif .gz .ico .jpeg .jpg .mp3 .otf .parquet .pdf .png .sqlite .ttf " +
    ".wasm .wav .webp .woff .woff2 .xlsx .zip"
  ).split(" "),
);

/** True for code, which can have comments and imports. */
export function isCode(path: string): boolean {
  const loader = selectLoader(path);
  return loader === "ts" || loader === "js";
}

/** True for a file that is not parsed: an import yields its text or its bytes. */
export function isAsset(path: string): boolean {
  const loader = selectLoader(path);
  return loader === "text" || loader === "bytes";
}

/** True for a binary file, which is in base64 wherever files are strings. */
export function isBinary(path: string): boolean {
  return selectLoader(path) === "bytes";
}

/** The declaration file of a JavaScript file: `x.d.ts` next to `x.js`. */
export function declarationFile(path: string): string | undefined {
  return /\.m?js$/.test(path) ? path.replace(/\.(m?)js$/, ".d.$1ts") : undefined;
}

/** The JavaScript file that a declaration file describes. */
export function describedFile(path: string): string | undefined {
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
  if (selectLoader(path) !== undefined) return written === path ? [path] : [path, written, declarationFile(path)!];
  // A file of another kind is found under its own name, so that the problem is "not importable" and not "missing".
  const itself = posix.extname(path) === "" ? [] : [path];
  return [...itself, `${path}.ts`, `${path}.js`, `${path}.json`, `${path}.d.ts`, ...folder];
}

/** Resolves the file that a tag names, relative to the file of the tag. */
export function resolveTagFile(importer: string, file: string, exists: (path: string) => boolean): OwnFile {
  return resolveOwnFile(importer, posix.isAbsolute(file) ? `..${file}` : `./${file}`, exists);
}
