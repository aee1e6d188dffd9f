import { readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, extname } from "node:path";
import type {
  Metafile,
  OnLoadResult,
  OnResolveArgs,
  OnResolveResult,
  PartialMessage,
  Plugin,
  PluginBuild,
} from "esbuild";
import { packageRoot } from "../config.ts";
import type { DefinitionSource } from "./discovery.ts";
import { guestPackages, packageBuiltins, packageFile, packageName, type PackageFile } from "./packages.ts";
import { isRelative, loaderOf, resolveOwnFile } from "./resolve.ts";
import { withoutMapReferences } from "./source-map.ts";

/** Why an import was refused; travels as the `detail` of esbuild's message. */
export interface RefusedImport {
  readonly code: "import-refused" | "missing-file" | "package-missing";
}

/**
 * Answers every import of a build itself, from the definition's files in memory and the listed packages. esbuild's own
 * resolver would take any file of the host into the bundle, so nothing is left to it but look-ups inside packages.
 */
export function definitionPlugin(source: DefinitionSource): Plugin {
  const files = new Map(Object.entries(source.files).map(([path, text]) => [path, withoutMapReferences(text)]));
  return {
    name: "definition",
    setup(build) {
      build.onResolve({ filter: /.*/ }, async (args) => {
        if (isOwnLookup(args.pluginData)) return undefined;
        if (args.kind === "entry-point") return { path: source.entry, namespace: "definition" };
        return args.namespace === "package" ? fromPackage(build, args) : fromDefinition(build, args, files);
      });
      build.onLoad({ filter: /.*/, namespace: "definition" }, ({ path }) => ({
        contents: files.get(path)!,
        loader: loaderOf(path) ?? "ts",
      }));
      build.onLoad({ filter: /.*/, namespace: "package" }, ({ pluginData }) =>
        loadPackageFile(pluginData as PackageFile),
      );
      // Patterns (import(`./${name}`)) are expanded by esbuild itself on the host's disk: what it found is never read.
      build.onLoad({ filter: /.*/, namespace: "file" }, () => refuse("import-refused", importedAtRunTime));
      // "berth" holds types only; an import that survives the removal of types asks for a value.
      build.onLoad({ filter: /.*/, namespace: "berth" }, () => ({ contents: "export {};", loader: "js" }));
    },
  };
}

export const importedAtRunTime =
  "What a definition imports must be known before it runs: write an import statement at the top of the file.";

/** True if everything in a bundle came through this plugin; false would be a way around it. */
export function isWithinBounds(metafile: Metafile): boolean {
  return Object.keys(metafile.inputs).every((input) => /^(definition|package|berth):/.test(input));
}

/** True if a CommonJS package calls `require` for a builtin, which an ES module does not have. */
export function usesRequire(metafile: Metafile): boolean {
  return Object.values(metafile.inputs).some(({ imports }) =>
    imports.some((entry) => entry.kind === "require-call" && entry.external),
  );
}

async function fromDefinition(
  build: PluginBuild,
  args: OnResolveArgs,
  files: ReadonlyMap<string, string>,
): Promise<OnResolveResult> {
  const { path: specifier, kind } = args;
  if (kind !== "import-statement") {
    return refuse(
      "import-refused",
      `${kind === "dynamic-import" ? "import()" : "require()"} of "${specifier}" is not allowed in a definition: ` +
        "write an import statement at the top of the file." +
        (kind === "require-call" ? ` ${esModulesOnly}` : ""),
    );
  }
  const attributes = Object.entries(args.with).filter(([key, value]) => key !== "type" || value !== "json");
  if (attributes.length > 0) {
    const written = attributes.map(([key, value]) => `${key}: "${value}"`).join(", ");
    return refuse(
      "import-refused",
      `"${specifier}" cannot be imported with { ${written} }: only type: "json" is allowed. ` +
        "Put the text into a .ts file that exports it as a string.",
    );
  }
  if (isRelative(specifier)) return ownFile(specifier, args.importer, files);
  if (specifier === "berth") return { path: "berth", namespace: "berth" };

  const builtin = builtinName(specifier);
  if (builtin !== undefined) {
    if (guestBuiltins.has(builtin)) return { path: `node:${builtin}`, external: true };
    return refuse("import-refused", `Node's "${builtin}" is not available to a definition. ${whyRefused(builtin)}`);
  }
  if (guestPackages.has(packageName(specifier))) return lookUp(build, args, packageRoot, guestPackages);
  return refuse("import-refused", `"${specifier}" cannot be imported. ${howToMend(specifier)} ${allowed}`);
}

const esModulesOnly = "If you copy a package's code, copy its ES module, which has import and export.";

function ownFile(specifier: string, importer: string, files: ReadonlyMap<string, string>): OnResolveResult {
  const found = resolveOwnFile(importer, specifier, (path) => files.has(path));
  if (found.kind === "outside") {
    return refuse(
      "import-refused",
      `"${specifier}" is outside the folder of sources: move the file into it. Nothing else can be imported by path.`,
    );
  }
  if (found.kind === "missing") {
    return refuse(
      "missing-file",
      `"${specifier}" is not among the definition's files (looked for ${found.tried.join(", ")}).`,
    );
  }
  if (loaderOf(found.path) === undefined) {
    return refuse("import-refused", `"${specifier}" cannot be imported: only .ts, .js and .json files can.`);
  }
  return { path: found.path, namespace: "definition" };
}

function howToMend(specifier: string): string {
  if (/^[a-z][a-z0-9+.-]+:/i.test(specifier))
    return "A definition cannot import by URL: copy the code into a file beside this one.";
  if (/^([/\\]|[a-z]:)/i.test(specifier))
    return "A definition cannot import by an absolute path: copy the file beside this one and write ./….";
  if (specifier.startsWith("#")) return "Definitions have no package.json of their own, so # imports do not work.";
  return (
    "Berth does not bundle this package: copy the code that you need into a file beside this one; " +
    "it must be an ES module that needs no files and no network."
  );
}

/** A listed package's import: its own files, its declared dependencies, or a builtin that stays in the process. */
async function fromPackage(build: PluginBuild, args: OnResolveArgs): Promise<OnResolveResult> {
  const importer = args.pluginData as PackageFile;
  const builtin = builtinName(args.path);
  if (builtin !== undefined && !importer.dependencies.has(packageName(args.path))) {
    if (guestBuiltins.has(builtin) || packageBuiltins.has(builtin)) return { path: `node:${builtin}`, external: true };
    return refuse(
      "import-refused",
      `The package file ${importer.name} needs Node's "${builtin}". ${whyRefused(builtin)}`,
    );
  }
  return lookUp(build, args, dirname(importer.realPath), importer.dependencies);
}

/** The one place where esbuild's resolver is asked, and its answer is checked to be a file of an expected package. */
async function lookUp(
  build: PluginBuild,
  args: OnResolveArgs,
  resolveDir: string,
  expected: ReadonlySet<string>,
): Promise<OnResolveResult> {
  const result = await build.resolve(args.path, { kind: args.kind, resolveDir, pluginData: ownLookup });
  if (result.errors.length > 0 || result.external || result.namespace !== "file") {
    return refuse(
      "package-missing",
      `"${args.path}" was not found in Berth's own installation: check the path inside the package, or reinstall Berth.`,
    );
  }
  const file = packageFile(result.path);
  if (file === undefined || !expected.has(file.name.replace(/(?<=.)@.*/, ""))) {
    return refuse("import-refused", `"${args.path}" leads outside the packages that may be bundled. ${allowed}`);
  }
  return { path: file.name, namespace: "package", pluginData: file, sideEffects: result.sideEffects };
}

function loadPackageFile(file: PackageFile): OnLoadResult {
  const extension = extname(file.realPath);
  // WebAssembly travels inside of the bundle, as base64: a guest has no file to load it from.
  if (extension === ".wasm") return { contents: readFileSync(file.realPath), loader: "binary", pluginData: file };
  return {
    contents: readFileSync(file.realPath, "utf8"),
    loader: extension === ".json" ? "json" : "js",
    pluginData: file,
  };
}

function refuse(code: RefusedImport["code"], text: string): { errors: PartialMessage[] } {
  const detail: RefusedImport = { code };
  return { errors: [{ text, detail }] };
}

const ownLookup = Symbol("a look-up by the plugin itself");

function isOwnLookup(pluginData: unknown): boolean {
  return pluginData === ownLookup;
}

/** Node's own modules that compute and touch nothing outside the guest's process. */
const guestBuiltins: ReadonlySet<string> = new Set([
  "assert",
  "assert/strict",
  "async_hooks",
  "buffer",
  "crypto",
  "diagnostics_channel",
  "events",
  "path",
  "path/posix",
  "path/win32",
  "perf_hooks",
  "punycode",
  "querystring",
  "stream",
  "stream/consumers",
  "stream/promises",
  "stream/web",
  "string_decoder",
  "timers",
  "timers/promises",
  "url",
  "util",
  "util/types",
  "zlib",
]);

const allowed =
  "A definition may import its own files (./…), listed packages " +
  `(${[...guestPackages].join(", ")}), types from "berth", and Node's ${[...guestBuiltins].join(", ")}.`;

/** `node:fs` and `fs` → `fs`; undefined for what Node does not bring along. */
function builtinName(specifier: string): string | undefined {
  if (specifier.startsWith("node:")) return specifier.slice("node:".length);
  return builtinModules.includes(specifier) || guestBuiltins.has(specifier) ? specifier : undefined;
}

/** Why a builtin is refused and what to use instead: one sentence. */
function whyRefused(builtin: string): string {
  const family = builtin.split("/")[0]!;
  return reasons.find(([names]) => names.includes(family))?.[1] ?? otherwise;
}

const reasons: readonly (readonly [names: readonly string[], reason: string])[] = [
  [["fs"], "A definition sees no files: import data as a .json file of its own, or read it with context.variable()."],
  [
    ["net", "tls", "dgram", "dns", "http", "https", "http2", "_http_agent", "_http_client", "_http_server"],
    "A definition has no network of its own: use context.fetch(), which the host performs within its rules.",
  ],
  [
    ["child_process", "cluster", "worker_threads"],
    "A definition cannot start processes: write a shell definition (.sh) to run commands.",
  ],
  [
    ["process", "os", "tty", "readline", "repl"],
    "A definition has no terminal, arguments or environment: take parameters, or read context.variable() and context.secret().",
  ],
  [
    ["vm", "module", "v8", "inspector", "wasi", "sea", "test", "trace_events", "domain"],
    "It reaches into the runtime that isolates the definition: import the code that you need as a file.",
  ],
  [["sqlite"], "A definition sees no files: keep values in variables, and read them with context.variable()."],
];

const otherwise = "It is not among the modules that a definition may use.";
