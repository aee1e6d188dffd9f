import { extname, posix } from "node:path";
import type { Metafile, OnLoadResult, OnResolveArgs, OnResolveResult, PartialMessage, Plugin } from "esbuild";
import { nativeAdvice } from "../../packages/native-addons.ts";
import { packageName } from "../../packages/package-name.ts";
import type { LockedPackage } from "../../packages/package-set.ts";
import type { DefinitionSource } from "../discovery.ts";
import { withoutPatterns } from "../files/imports.ts";
import { readPathAliases, type PathAliases } from "../files/path-aliases.ts";
import { isAsset, isRelative, selectLoader, type OwnFile } from "../files/resolve.ts";
import type { PackageFiles } from "../packages/package-files.ts";
import { builtinFor, builtinName } from "./builtins.ts";
import { withoutMapReferences } from "./source-map.ts";

/** Why an import was refused; passed on as the `detail` of esbuild's message. */
export interface RefusedImport {
  readonly code: "import-refused" | "missing-file" | "package-missing";
}

/** Resolves every import from files in memory: esbuild's own resolver could bundle any file of the host. */
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
        if (args.namespace !== "package") return resolveFromDefinition(args, files, aliases, packages);
        const importer = args.pluginData as LockedFile;
        return packages!.memoize(`${args.kind} ${importer.path} ${args.path}`, () =>
          resolveFromPackage(args, importer, packages!),
        );
      });
      build.onLoad({ filter: /.*/, namespace: "definition" }, ({ path }) => loadOwnFile(path, files.get(path)!));
      build.onLoad({ filter: /.*/, namespace: "package" }, ({ pluginData }) => {
        const file = pluginData as LockedFile;
        return packages!.memoize(`load ${file.path}`, () => loadPackageFile(file, packages!));
      });
      // esbuild expands patterns (import(`./${name}`)) itself, on the host's disk: files that it finds are never read.
      build.onLoad({ filter: /.*/, namespace: "file" }, () => refuse("import-refused", importedAtRunTime));
      build.onLoad({ filter: /.*/, namespace: "builtin" }, ({ pluginData }) => ({ contents: pluginData as string }));
      // "berth" exports only types; an import that remains after types are removed is for a value.
      build.onLoad({ filter: /.*/, namespace: "berth" }, () => ({ contents: "export {};", loader: "js" }));
    },
  };
}

function loadOwnFile(path: string, text: string): OnLoadResult {
  const loader = selectLoader(path) ?? "ts";
  return loader === "bytes" ? { contents: Buffer.from(text, "base64"), loader: "binary" } : { contents: text, loader };
}

export const importedAtRunTime =
  "What a definition imports must be known before it runs: write an import statement at the top of the file.";

/** True if everything in a bundle came through this plugin; false means that something bypassed it. */
export function isWithinBounds(metafile: Metafile): boolean {
  return Object.keys(metafile.inputs).every((input) => /^(definition|package|berth|builtin):/.test(input));
}

function resolveFromDefinition(
  args: OnResolveArgs,
  files: ReadonlyMap<string, string>,
  { resolve }: PathAliases,
  packages: PackageFiles | undefined,
): OnResolveResult {
  const { path: specifier, kind: importKind } = args;
  if (importKind !== "import-statement") {
    return refuse(
      "import-refused",
      `${importKind === "dynamic-import" ? "import()" : "require()"} of "${specifier}" is not allowed in a definition: ` +
        "write an import statement at the top of the file." +
        (importKind === "require-call" ? ` ${esModulesOnly}` : ""),
    );
  }
  const own = resolve(args.importer, specifier, (path) => files.has(path));
  const isOwn = isRelative(specifier) || own.kind === "file";
  const kind = isOwn ? (selectLoader(own.kind === "file" ? own.path : specifier) ?? "ts") : "json";
  const attributes = Object.entries(args.with).filter(([key, value]) => key !== "type" || value !== kind);
  if (attributes.length > 0) {
    const written = attributes.map(([key, value]) => `${key}: "${value}"`).join(", ");
    const rule = kind === "ts" || kind === "js" ? "code is imported without" : `only type: "${kind}" is allowed here`;
    return refuse(
      "import-refused",
      `"${specifier}" cannot be imported with { ${written} }: ${rule}. The file's name decides how it is imported.`,
    );
  }
  if (isOwn) return ownFile(specifier, own);
  if (specifier === "berth") return { path: "berth", namespace: "berth" };

  const builtin = builtinName(specifier);
  if (builtin !== undefined && !packages?.hasFolder(`/node_modules/${specifier}`)) {
    const answer = builtinFor(builtin, "definition");
    if (answer.kind === "external") return { path: `node:${builtin}`, external: true };
    const why = answer.kind === "refused" ? ` ${answer.why}` : "";
    return refuse("import-refused", `Node's "${builtin}" is not available to a definition.${why}`);
  }
  const resolved = packages?.resolve(specifier, "/", "import");
  if (resolved !== undefined) return importedFile(packages!, resolved);
  if (packages?.hasFolder(`/node_modules/${packageName(specifier)}`)) {
    return refuse("package-missing", `"${specifier}" is not a file of the package: check the path within it.`);
  }
  if (own.kind !== "missing" || own.tried.length > 0) return ownFile(specifier, own);
  return refuse("import-refused", `"${specifier}" cannot be imported. ${suggestFix(specifier)} ${allowedImports}`);
}

const esModulesOnly = "If you copy a package's code, copy its ES module, which has import and export.";

function ownFile(specifier: string, target: OwnFile): OnResolveResult {
  if (target.kind === "outside") {
    return refuse(
      "import-refused",
      `"${specifier}" is outside the folder of sources: move the file into it. Nothing else can be imported by path.`,
    );
  }
  if (target.kind === "missing") {
    const advice = /^@?\w/.test(specifier) ? ` If it is a package, run berth add ${packageName(specifier)}.` : "";
    return refuse(
      "missing-file",
      `"${specifier}" is not among the definition's files (looked for ${target.tried.join(", ")}).${advice}`,
    );
  }
  if (selectLoader(target.path) === undefined) {
    return refuse(
      "import-refused",
      `"${specifier}" cannot be imported: only .ts, .js and .json files can, and text and binary files with a known ` +
        "extension, such as .csv, .md, .html, .sql, .txt, .png and .wasm.",
    );
  }
  return { path: target.path, namespace: "definition" };
}

function suggestFix(specifier: string): string {
  if (/^[a-z][a-z0-9+.-]+:/i.test(specifier))
    return "A definition cannot import by URL: copy the code into a file next to this one.";
  if (/^([/\\]|[a-z]:)/i.test(specifier))
    return "A definition cannot import by an absolute path: copy the file next to this one and write ./….";
  const [, inside] = /^(?:@|~|src)\/(.+)$/.exec(specifier) ?? [];
  if (inside !== undefined || specifier.startsWith("~"))
    return `It looks like a path alias that the tsconfig.json of the folder of sources does not define in paths: add it there, or write a relative path, as in "./${inside ?? "lib/x"}".`;
  if (specifier.startsWith("#")) return "Write a relative path: # imports work only inside packages.";
  return (
    `The package was not added: run berth add ${packageName(specifier)} in the folder of sources, ` +
    "or add it on the page of packages."
  );
}

/** A file of a package, by its path in `PackageFiles`. */
interface LockedFile {
  readonly path: string;
}

/** Resolves a package's file that a definition itself imports. */
function importedFile(packages: PackageFiles, path: string): OnResolveResult {
  const { locked } = packages.origin(path)!;
  return requiresNativeCode(locked) ? refuse("import-refused", nativeAddon(locked)) : lockedFile(packages, path);
}

function lockedFile(packages: PackageFiles, path: string): OnResolveResult {
  const pluginData: LockedFile = { path };
  const sideEffects = packages.hasSideEffects(path);
  // esbuild decides by the name alone whether a file imports by the rules of Node.js: `module.exports` is the default
  // export.
  const suffix = path.endsWith(".js") && packages.isModule(path) ? ".mjs" : "";
  return { path: packages.origin(path)!.name + suffix, namespace: "package", pluginData, sideEffects };
}

/** Resolves an import in a package: to its own files, other packages, or modules of Node.js. */
function resolveFromPackage(
  { path: specifier, kind }: OnResolveArgs,
  importer: LockedFile,
  packages: PackageFiles,
): OnResolveResult {
  const { name } = packages.origin(importer.path)!;
  const builtin = builtinName(specifier);
  if (builtin !== undefined && !isInstalledInstead(specifier, importer, packages)) {
    const answer = builtinFor(builtin, "package");
    if (answer.kind === "external") return { path: `node:${builtin}`, external: true };
    if (answer.kind === "stub") return { path: builtin, namespace: "builtin", pluginData: answer.code };
    return refuse("import-refused", `The package file ${name} needs Node's "${builtin}". ${answer.why}`);
  }
  const isRequired = kind === "require-call" || kind === "require-resolve";
  const resolved = packages.resolve(specifier, posix.dirname(importer.path), isRequired ? "require" : "import");
  if (resolved?.endsWith(".node")) {
    const why = nativeAddon(packages.origin(resolved)!.locked);
    if (!isRequired) return refuse("import-refused", why);
    return { path: specifier, namespace: "builtin", pluginData: throwingModule(why, "ERR_DLOPEN_DISABLED") };
  }
  if (resolved !== undefined) return lockedFile(packages, resolved);
  // Packages try optional dependencies and continue without them.
  if (kind !== "import-statement")
    return {
      path: specifier,
      namespace: "builtin",
      pluginData: throwingModule(`Cannot find module '${specifier}'`, "MODULE_NOT_FOUND"),
    };
  return refuse(
    "package-missing",
    `The package file ${name} imports "${specifier}", which is not in the set of packages.`,
  );
}

/** A package may have the name of a built-in module: `punycode/`, `buffer/`, or `events` in a build for browsers. */
function isInstalledInstead(specifier: string, importer: LockedFile, packages: PackageFiles): boolean {
  return specifier.endsWith("/") && packages.resolve(specifier, posix.dirname(importer.path), "require") !== undefined;
}

/** The source of a module that throws when it is required, as Node.js does for a missing module. */
function throwingModule(message: string, code: string): string {
  return `throw Object.assign(new Error(${JSON.stringify(message)}), { code: "${code}" });`;
}

function loadPackageFile(file: LockedFile, packages: PackageFiles): OnLoadResult {
  const extension = extname(file.path);
  const contents = packages.bytes(file.path)!;
  // WebAssembly is embedded in the bundle as base64: a guest has no file to load it from.
  if (extension === ".wasm") return { contents, loader: "binary", pluginData: file };
  const loader = extension === ".json" ? "json" : TEXTS.has(extension) ? "text" : "js";
  return {
    contents: loader === "js" ? withoutMap(withoutPatterns(withoutMapReferences(packages.text(file.path)!))) : contents,
    loader,
    pluginData: file,
  };
}

/** Appends a source map with one position, so that esbuild maps nothing else: `keepSources` would delete it. */
function withoutMap(code: string): string {
  return `${code}\n//# sourceMappingURL=data:application/json,${ONE_POSITION}`;
}

const ONE_POSITION = encodeURIComponent(JSON.stringify({ version: 3, sources: [""], names: [], mappings: "A" }));

function refuse(code: RefusedImport["code"], text: string): { errors: PartialMessage[] } {
  const detail: RefusedImport = { code };
  return { errors: [{ text, detail }] };
}

const allowedImports =
  'A definition may import its own files (./…), npm packages that were added, types from "berth", and most of Node\'s ' +
  "own modules.";

const TEXTS: ReadonlySet<string> = new Set([".css", ".csv", ".html", ".md", ".svg", ".txt", ".xml"]);

/** A package that cannot work without native code depends on one of these to compile, download or find it. */
const ADDON_TOOLS: ReadonlySet<string> = new Set([
  "@mapbox/node-pre-gyp",
  "bindings",
  "node-pre-gyp",
  "prebuild-install",
]);

/** Packages that also work without native code. */
const NATIVE_IS_OPTIONAL: ReadonlySet<string> = new Set(["oracledb"]);

function requiresNativeCode({ name, dependencies = [] }: LockedPackage): boolean {
  if (NATIVE_IS_OPTIONAL.has(name)) return false;
  return nativeAdvice(name, []) !== undefined || dependencies.some((dependency) => ADDON_TOOLS.has(dependency));
}

function nativeAddon({ name }: LockedPackage): string {
  const instead = nativeAdvice(name, []) ?? "look for a package in JavaScript or WebAssembly that does the same";
  return `"${name}" is a native addon, which does not run here: ${instead}.`;
}
