import { extname, posix } from "node:path";
import type { Metafile, OnLoadResult, OnResolveArgs, OnResolveResult, PartialMessage, Plugin } from "esbuild";
import { nativeAdvice } from "../../packages/native-addons.ts";
import { packageName } from "../../packages/package-name.ts";
import type { LockedPackage } from "../../packages/package-set.ts";
import type { DefinitionSource } from "../discovery.ts";
import { withoutPatterns } from "../files/imports.ts";
import { readPathAliases, type PathAliases } from "../files/path-aliases.ts";
import { isAsset, isRelative, loaderOf, type OwnFile } from "../files/resolve.ts";
import type { PackageFiles } from "../packages/package-files.ts";
import { builtinFor, builtinName } from "./builtins.ts";
import { withoutMapReferences } from "./source-map.ts";

/** Why an import was refused; travels as the `detail` of esbuild's message. */
export interface RefusedImport {
  readonly code: "import-refused" | "missing-file" | "package-missing";
}

/**
 * Answers every import of a build itself, from the files of the definition and its packages, which are in memory:
 * esbuild's own resolver would take any file of the host into the bundle. `current` is called at the start of each build.
 */
export function definitionPlugin(current: () => DefinitionSource, packages?: PackageFiles): Plugin {
  let source: DefinitionSource;
  let files: ReadonlyMap<string, string>;
  let aliases: PathAliases;
  return {
    name: "definition",
    setup(build) {
      build.onStart(() => {
        source = current();
        files = new Map(
          Object.entries(source.files).map(([path, text]) => [path, isAsset(path) ? text : withoutMapReferences(text)]),
        );
        aliases = readPathAliases(source.files);
      });
      build.onResolve({ filter: /.*/ }, (args) => {
        if (args.kind === "entry-point") return { path: source.entry, namespace: "definition" };
        if (args.namespace !== "package") return fromDefinition(args, files, aliases, packages);
        const importer = args.pluginData as LockedFile;
        return packages!.kept(`${args.kind} ${importer.path} ${args.path}`, () =>
          fromPackage(args, importer, packages!),
        );
      });
      build.onLoad({ filter: /.*/, namespace: "definition" }, ({ path }) => loadOwnFile(path, files.get(path)!));
      build.onLoad({ filter: /.*/, namespace: "package" }, ({ pluginData }) => {
        const file = pluginData as LockedFile;
        return packages!.kept(`load ${file.path}`, () => loadPackageFile(file, packages!));
      });
      // Patterns (import(`./${name}`)) are expanded by esbuild itself on the host's disk: what it found is never read.
      build.onLoad({ filter: /.*/, namespace: "file" }, () => refuse("import-refused", importedAtRunTime));
      build.onLoad({ filter: /.*/, namespace: "builtin" }, ({ pluginData }) => ({ contents: pluginData as string }));
      // "berth" holds types only; an import that survives the removal of types asks for a value.
      build.onLoad({ filter: /.*/, namespace: "berth" }, () => ({ contents: "export {};", loader: "js" }));
    },
  };
}

function loadOwnFile(path: string, text: string): OnLoadResult {
  const loader = loaderOf(path) ?? "ts";
  return loader === "bytes" ? { contents: Buffer.from(text, "base64"), loader: "binary" } : { contents: text, loader };
}

export const importedAtRunTime =
  "What a definition imports must be known before it runs: write an import statement at the top of the file.";

/** True if everything in a bundle came through this plugin; false would be a way around it. */
export function isWithinBounds(metafile: Metafile): boolean {
  return Object.keys(metafile.inputs).every((input) => /^(definition|package|berth|builtin):/.test(input));
}

function fromDefinition(
  args: OnResolveArgs,
  files: ReadonlyMap<string, string>,
  { resolve }: PathAliases,
  packages: PackageFiles | undefined,
): OnResolveResult {
  const { path: specifier, kind: way } = args;
  if (way !== "import-statement") {
    return refuse(
      "import-refused",
      `${way === "dynamic-import" ? "import()" : "require()"} of "${specifier}" is not allowed in a definition: ` +
        "write an import statement at the top of the file." +
        (way === "require-call" ? ` ${esModulesOnly}` : ""),
    );
  }
  const own = resolve(args.importer, specifier, (path) => files.has(path));
  const isOwn = isRelative(specifier) || own.kind === "file";
  const kind = isOwn ? (loaderOf(own.kind === "file" ? own.path : specifier) ?? "ts") : "json";
  const attributes = Object.entries(args.with).filter(([key, value]) => key !== "type" || value !== kind);
  if (attributes.length > 0) {
    const written = attributes.map(([key, value]) => `${key}: "${value}"`).join(", ");
    const only = kind === "ts" || kind === "js" ? "code is imported without" : `only type: "${kind}" is allowed here`;
    return refuse(
      "import-refused",
      `"${specifier}" cannot be imported with { ${written} }: ${only}. What an import gives is decided by the file's name.`,
    );
  }
  if (isOwn) return ownFile(specifier, own);
  if (specifier === "berth") return { path: "berth", namespace: "berth" };

  const builtin = builtinName(specifier);
  if (builtin !== undefined && !packages?.hasFolder(`/node_modules/${specifier}`)) {
    const given = builtinFor(builtin, "definition");
    if (given.kind === "external") return { path: `node:${builtin}`, external: true };
    const why = given.kind === "refused" ? ` ${given.why}` : "";
    return refuse("import-refused", `Node's "${builtin}" is not available to a definition.${why}`);
  }
  const found = packages?.resolve(specifier, "/", "import");
  if (found !== undefined) return importedFile(packages!, found);
  if (packages?.hasFolder(`/node_modules/${packageName(specifier)}`)) {
    return refuse("package-missing", `"${specifier}" is no file of the package: check the path inside of it.`);
  }
  if (own.kind !== "missing" || own.tried.length > 0) return ownFile(specifier, own);
  return refuse("import-refused", `"${specifier}" cannot be imported. ${howToMend(specifier)} ${allowed}`);
}

const esModulesOnly = "If you copy a package's code, copy its ES module, which has import and export.";

function ownFile(specifier: string, found: OwnFile): OnResolveResult {
  if (found.kind === "outside") {
    return refuse(
      "import-refused",
      `"${specifier}" is outside the folder of sources: move the file into it. Nothing else can be imported by path.`,
    );
  }
  if (found.kind === "missing") {
    const advice = /^@?\w/.test(specifier) ? ` If it is a package, run berth add ${packageName(specifier)}.` : "";
    return refuse(
      "missing-file",
      `"${specifier}" is not among the definition's files (looked for ${found.tried.join(", ")}).${advice}`,
    );
  }
  if (loaderOf(found.path) === undefined) {
    return refuse(
      "import-refused",
      `"${specifier}" cannot be imported: only .ts, .js and .json files can, and files of texts and bytes with a known ` +
        "ending, such as .csv, .md, .html, .sql, .txt, .png and .wasm.",
    );
  }
  return { path: found.path, namespace: "definition" };
}

function howToMend(specifier: string): string {
  if (/^[a-z][a-z0-9+.-]+:/i.test(specifier))
    return "A definition cannot import by URL: copy the code into a file beside this one.";
  if (/^([/\\]|[a-z]:)/i.test(specifier))
    return "A definition cannot import by an absolute path: copy the file beside this one and write ./….";
  const [, inside] = /^(?:@|~|src)\/(.+)$/.exec(specifier) ?? [];
  if (inside !== undefined || specifier.startsWith("~"))
    return `It looks like an alias of a project, and the tsconfig.json of the folder of sources has none such in paths: add it there, or write a relative path, as in "./${inside ?? "lib/x"}".`;
  if (specifier.startsWith("#")) return "Write a relative path: # imports work inside of packages alone.";
  return (
    `The package was not added: run berth add ${packageName(specifier)} in the folder of sources, ` +
    "or add it on the page of packages."
  );
}

/** A file of a package, by its path among `PackageFiles`. */
interface LockedFile {
  readonly path: string;
}

/** A package's file that a definition itself imports. */
function importedFile(packages: PackageFiles, path: string): OnResolveResult {
  const { locked } = packages.origin(path)!;
  return isNativeAlone(locked) ? refuse("import-refused", nativeAddon(locked)) : lockedFile(packages, path);
}

function lockedFile(packages: PackageFiles, path: string): OnResolveResult {
  const pluginData: LockedFile = { path };
  const sideEffects = packages.hasSideEffects(path);
  // esbuild tells by the name alone that an ES module imports as Node has it: `module.exports` is the default export.
  const suffix = path.endsWith(".js") && packages.isModule(path) ? ".mjs" : "";
  return { path: packages.origin(path)!.name + suffix, namespace: "package", pluginData, sideEffects };
}

/** An import of a package: its own files, other packages, or what Node offers. */
function fromPackage(
  { path: specifier, kind }: OnResolveArgs,
  importer: LockedFile,
  packages: PackageFiles,
): OnResolveResult {
  const { name } = packages.origin(importer.path)!;
  const builtin = builtinName(specifier);
  if (builtin !== undefined && !isInstalledInstead(specifier, importer, packages)) {
    const given = builtinFor(builtin, "package");
    if (given.kind === "external") return { path: `node:${builtin}`, external: true };
    if (given.kind === "stub") return { path: builtin, namespace: "builtin", pluginData: given.code };
    return refuse("import-refused", `The package file ${name} needs Node's "${builtin}". ${given.why}`);
  }
  const isRequired = kind === "require-call" || kind === "require-resolve";
  const found = packages.resolve(specifier, posix.dirname(importer.path), isRequired ? "require" : "import");
  if (found?.endsWith(".node")) {
    const why = nativeAddon(packages.origin(found)!.locked);
    if (!isRequired) return refuse("import-refused", why);
    return { path: specifier, namespace: "builtin", pluginData: throwing(why, "ERR_DLOPEN_DISABLED") };
  }
  if (found !== undefined) return lockedFile(packages, found);
  // Packages try what is optional, and go on without it.
  if (kind !== "import-statement")
    return {
      path: specifier,
      namespace: "builtin",
      pluginData: throwing(`Cannot find module '${specifier}'`, "MODULE_NOT_FOUND"),
    };
  return refuse(
    "package-missing",
    `The package file ${name} imports "${specifier}", which is not in the set of packages.`,
  );
}

/** A package may have the name of a builtin: `punycode/`, `buffer/`, `events` in a browser's build. */
function isInstalledInstead(specifier: string, importer: LockedFile, packages: PackageFiles): boolean {
  return specifier.endsWith("/") && packages.resolve(specifier, posix.dirname(importer.path), "require") !== undefined;
}

/** The text of a module that fails when it is required, as Node has it for what is not there. */
function throwing(message: string, code: string): string {
  return `throw Object.assign(new Error(${JSON.stringify(message)}), { code: "${code}" });`;
}

function loadPackageFile(file: LockedFile, packages: PackageFiles): OnLoadResult {
  const extension = extname(file.path);
  const contents = packages.bytes(file.path)!;
  // WebAssembly travels inside of the bundle, as base64: a guest has no file to load it from.
  if (extension === ".wasm") return { contents, loader: "binary", pluginData: file };
  const loader = extension === ".json" ? "json" : TEXTS.has(extension) ? "text" : "js";
  return {
    contents: loader === "js" ? withoutMap(withoutPatterns(withoutMapReferences(packages.text(file.path)!))) : contents,
    loader,
    pluginData: file,
  };
}

/**
 * Adds a source map of one position, so that esbuild maps nothing else of the file. `keepSources` deletes positions in
 * packages anyway, and they are most of a map.
 */
function withoutMap(code: string): string {
  return `${code}\n//# sourceMappingURL=data:application/json,${ONE_POSITION}`;
}

const ONE_POSITION = encodeURIComponent(JSON.stringify({ version: 3, sources: [""], names: [], mappings: "A" }));

function refuse(code: RefusedImport["code"], text: string): { errors: PartialMessage[] } {
  const detail: RefusedImport = { code };
  return { errors: [{ text, detail }] };
}

const allowed =
  'A definition may import its own files (./…), npm packages that were added, types from "berth", and most of Node\'s ' +
  "own modules.";

const TEXTS: ReadonlySet<string> = new Set([".css", ".csv", ".html", ".md", ".svg", ".txt", ".xml"]);

/** A package that is nothing without native code needs one of these, to compile, fetch, or find it. */
const ADDON_TOOLS: ReadonlySet<string> = new Set([
  "@mapbox/node-pre-gyp",
  "bindings",
  "node-pre-gyp",
  "prebuild-install",
]);

/** It has a mode without native code. */
const ALSO_PLAIN: ReadonlySet<string> = new Set(["oracledb"]);

function isNativeAlone({ name, dependencies = [] }: LockedPackage): boolean {
  if (ALSO_PLAIN.has(name)) return false;
  return nativeAdvice(name, []) !== undefined || dependencies.some((each) => ADDON_TOOLS.has(each));
}

function nativeAddon({ name }: LockedPackage): string {
  const instead = nativeAdvice(name, []) ?? "look for a package in JavaScript or WebAssembly that does the same";
  return `"${name}" is a native addon, which does not run here: ${instead}.`;
}
