import type { BuildContext, BuildFailure, BuildOptions, BuildResult, Location, Message, Metafile } from "esbuild";
import type { Node } from "typescript";
import { packageRoot } from "../../config.ts";
import { codeFrame, positionAt } from "../../lib/code-frame.ts";
import { compareText } from "../../lib/pretty-json.ts";
import { distinctProblems, type Problem } from "../../lib/problem.ts";
import { packageName } from "../../packages/package-name.ts";
import type { DefinitionSource, PackageShare } from "../discovery.ts";
import { findComputedImports, findPackageImports } from "../files/imports.ts";
import { readPathAliases } from "../files/path-aliases.ts";
import { isAsset, isCode } from "../files/resolve.ts";
import type { PackageFiles } from "../packages/package-files.ts";
import { builtinName, bundleNames, requireBanner } from "./builtins.ts";
import { definitionPlugin, importedAtRunTime, isWithinBounds, type RefusedImport } from "./bundle-plugin.ts";
import { keepSources, mapReference, withoutMapReferences, type SourceMap } from "./source-map.ts";

/**
 * Builds the single file that a guest runs from a definition's sources. Owns the rules for imports and the bytes of the
 * bundle; must not know how tools are found or how a guest is started. The same sources give the same bytes on every
 * machine: the output contains no path of the host.
 *
 * The source map is inline and names the definition's own files `definition:<path>`: an absolute URL, so that Node.js's
 * `--enable-source-maps` gives the same stack wherever the bundle is stored.
 */
export async function bundleDefinition(
  source: DefinitionSource,
  bundleBytes = Infinity,
  packages?: PackageFiles,
): Promise<Bundled> {
  const text = Object.hasOwn(source.files, source.entry) ? source.files[source.entry] : undefined;
  if (text === undefined) {
    return {
      problems: [problem("missing-file", `The entry file ${source.entry} is not among the definition's files.`)],
    };
  }
  if (source.language === "shell") return { bundle: text, problems: [] };

  const rawReferences = await findRawMapReferences(source);
  if (rawReferences.length > 0) return { problems: rawReferences };
  const computedProblems = Object.entries(source.files).flatMap(([file, code]) => findComputedProblems(file, code));
  if (computedProblems.length > 0) return { problems: computedProblems };

  // Not an error if everything that could be an alias is an installed package.
  const { fault } = readPathAliases(source.files);
  const isAlias = (specifier: string): boolean =>
    builtinName(specifier) === undefined && !packages?.hasFolder(`/node_modules/${packageName(specifier)}`);
  if (fault && findPackageImports(source).some(isAlias)) return { problems: [fault] };

  try {
    const result = await build(source, packages);
    if (!isWithinBounds(result.metafile!)) {
      return { problems: [problem("import-refused", importedAtRunTime, source.entry)] };
    }
    // A definition's author cannot fix warnings about packages.
    const warnings = result.warnings.filter(isOwn).flatMap((message) => toProblems(message, "warning", source));
    if (warnings.some(({ severity }) => severity === "error")) return { problems: warnings };
    const [map, code] = ["bundle.js.map", "bundle.js"].map((name) =>
      result.outputFiles!.find((file) => file.path.endsWith(name)),
    );
    const banner = packages ? `${requireBanner()}\n` : "";
    const bundle = assemble(code!.text, map!.text, banner, source.files, bundleBytes);
    const shares = measureShares(result.metafile!);
    if (bundle !== undefined) return { bundle, problems: warnings, ...(shares.length > 0 && { packages: shares }) };
    const message = `Its bundle has more than ${bundleBytes} bytes (BERTH_BUNDLE_BYTES)${describeLargest(shares)}: split the server, or read long texts from variables.`;
    return { problems: [...warnings, problem("too-large", message, source.entry)] };
  } catch (cause) {
    if (!isBuildFailure(cause)) throw new BundlerEnded("the bundler has ended", { cause });
    const problems = distinctProblems(cause.errors.flatMap((message) => toProblems(message, "error", source)));
    return { problems: problems.length > 0 ? problems : [bundlerFailed(source)] };
  }
}

async function build(source: DefinitionSource, packages: PackageFiles | undefined): Promise<BuildResult> {
  // Loaded here, so that a serving process never loads a bundler.
  const esbuild = await import("esbuild");
  if (!packages || !buildCache) return esbuild.build(buildOptions(() => source, packages));
  const cache = buildCache;
  cache.source = source;
  if (cache.packages !== packages) {
    await cache.context?.dispose();
    cache.context = await esbuild.context(buildOptions(() => cache.source!, packages));
    cache.packages = packages;
  }
  return cache.context!.rebuild();
}

let buildCache: { packages?: PackageFiles; source?: DefinitionSource; context?: BuildContext } | undefined;

/** Keeps the parsed packages for the next build, in a process that bundles one definition at a time. */
export function enableBuildCache(): void {
  buildCache = {};
}

interface Bundled {
  readonly bundle?: string;
  /** As in `Compiled`. */
  readonly packages?: readonly PackageShare[];
  readonly problems: Problem[];
}

/** The parts of the bundle that come from packages, largest first. */
function measureShares({ outputs }: Metafile): PackageShare[] {
  const shares = new Map<string, number>();
  for (const { inputs } of Object.values(outputs)) {
    for (const [input, { bytesInOutput }] of Object.entries(inputs)) {
      const packageId = /^package:(@?[^@]+@[^/+]+)/.exec(input)?.[1];
      if (packageId !== undefined) shares.set(packageId, (shares.get(packageId) ?? 0) + bytesInOutput);
    }
  }
  const toShare = ([packageId, bytes]: [string, number]): PackageShare => {
    const at = packageId.lastIndexOf("@");
    return { name: packageId.slice(0, at), version: packageId.slice(at + 1), bytes };
  };
  return [...shares].map(toShare).sort((one, other) => other.bytes - one.bytes || compareText(one.name, other.name));
}

function describeLargest([largest]: readonly PackageShare[]): string {
  return largest ? `, of which ${largest.name} has ${largest.bytes}` : "";
}

/** The bundler's process has exited and cannot be used again. */
export class BundlerEnded extends Error {}

function bundlerFailed({ entry }: DefinitionSource): Problem {
  return problem("bundler-failed", "The bundler failed on this definition for a reason outside it.", entry);
}

function buildOptions(current: () => DefinitionSource, packages: PackageFiles | undefined): BuildOptions {
  return {
    entryPoints: ["definition"],
    absWorkingDir: packageRoot,
    plugins: [definitionPlugin(current, packages)],
    bundle: true,
    platform: "node",
    target: "node20",
    format: "esm",
    charset: "utf8",
    outfile: "bundle.js",
    sourcemap: "external",
    sourcesContent: false,
    metafile: true,
    write: false,
    logLevel: "silent",
    // Nothing in the folder that Berth runs in may influence the result: no tsconfig.json, no environment.
    tsconfigRaw: { compilerOptions: { target: "es2023", useDefineForClassFields: true } },
    define: packages ? inBundle : {},
    // Nobody reads code of packages here, and a guest parses all of it at each start.
    minifyWhitespace: packages !== undefined,
    minifySyntax: packages !== undefined,
    logOverride: importsAtRunTime,
  };
}

/** Names that are computed at run time: an error in a definition; packages get an error when they import. */
const importsAtRunTime = {
  "unsupported-dynamic-import": "warning",
  "unsupported-require-call": "warning",
  "indirect-require": "warning",
  "empty-glob": "warning",
} as const;

/** As in a production build, which packages check for. */
const inBundle = { ...bundleNames, "process.env.NODE_ENV": '"production"' };

/** The namespace of the definition's own files. */
const OWN = "definition:";

/** Includes as much of the source map as fits; undefined if the code alone does not. */
function assemble(
  code: string,
  map: string,
  banner: string,
  files: DefinitionSource["files"],
  bytesMax: number,
): string | undefined {
  // A position in an asset means nothing, and the map would contain the asset a second time.
  const ownMap = keepSources(JSON.parse(map) as SourceMap, (source) => source.startsWith(OWN) && !isAsset(source));
  const { version, sources, names } = ownMap;
  const mappings = banner.endsWith("\n") ? `;${ownMap.mappings}` : ownMap.mappings;
  const texts = sources.map((source) => withoutMapReferences(files[source.slice(OWN.length)]!));
  const withMap = (sourcesContent?: readonly string[]): string => {
    const sourceMap = Buffer.from(JSON.stringify({ version, sources, sourcesContent, names, mappings })).toString(
      "base64",
    );
    return `${banner}${code}//# sourceMappingURL=data:application/json;base64,${sourceMap}\n`;
  };
  const variants = [() => withMap(texts), () => withMap(), () => banner + code];
  for (const variant of variants) {
    const bundle = variant();
    if (Buffer.byteLength(bundle) <= bytesMax) return bundle;
  }
  return undefined;
}

/** Drops messages of esbuild about other files, or about none: they could quote files on the host's disk. */
function toProblems(message: Message, severity: Problem["severity"], source: DefinitionSource): Problem[] {
  const refused = message.detail as RefusedImport | undefined;
  const position = message.location ? toPosition(message.location, source) : { file: source.entry };
  if (!position || (!message.location && !refused)) return [];
  if (isImportAtRunTime(message)) {
    return [{ code: "import-refused", message: importedAtRunTime, severity: "error", ...position }];
  }
  const code = refused?.code ?? (severity === "warning" ? "suspicious-code" : "syntax-error");
  return [{ code, message: toSentence(message.text), severity, ...position }];
}

function isOwn({ location }: Message): boolean {
  return location === null || location.file.startsWith(OWN);
}

function isImportAtRunTime({ id, text }: Message): boolean {
  return Object.hasOwn(importsAtRunTime, id) || /^Could not resolve (import|require)\(/.test(text);
}

function findComputedProblems(file: string, text: string): Problem[] {
  if (!isCode(file)) return [];
  const imports = findComputedImports(text).slice(0, computedImportsShown);
  return imports.map(({ specifier, offset }) => {
    const { line, column, lineText } = positionAt(text, offset);
    const frame = codeFrame(lineText, line, column, specifier.length);
    return { code: "import-refused", message: importedAtRunTime, severity: "error", file, line, column, frame };
  });
}

const computedImportsShown = 50;

/** Finds references to source maps where an escape would change the meaning of the program. */
async function findRawMapReferences({ files }: DefinitionSource): Promise<Problem[]> {
  const possible = Object.entries(files).filter(([file, text]) => isCode(file) && refersToMap(text));
  if (possible.length === 0) return [];
  const { default: ts } = await import("#typescript");
  return possible.flatMap(([file, text]) => {
    const found: Problem[] = [];
    const visit = (node: Node): void => {
      if (ts.isTaggedTemplateExpression(node)) {
        const { template } = node;
        const parts = ts.isTemplateExpression(template)
          ? [template.head, ...template.templateSpans.map(({ literal }) => literal)]
          : [template];
        for (const part of parts)
          if (refersToMap(part.getText())) found.push(rawReferenceProblem(file, text, part.getStart()));
      }
      ts.forEachChild(node, visit);
    };
    visit(ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true));
    return found;
  });
}

function refersToMap(text: string): boolean {
  return text.search(mapReference) >= 0;
}

function rawReferenceProblem(file: string, text: string, offset: number): Problem {
  const { line, column, lineText } = positionAt(text, offset);
  const message = 'A tagged template cannot contain "# sourceMappingURL": split it, as in ${"# source"}MappingURL.';
  const frame = codeFrame(lineText, line, column);
  return { code: "suspicious-code", message, severity: "error", file, line, column, frame };
}

/** esbuild counts columns in UTF-8 bytes from 0. */
function toPosition(
  { file: name, line, column: byte, length: byteLength, lineText }: Location,
  { files }: DefinitionSource,
): Pick<Problem, "file" | "line" | "column" | "frame"> | undefined {
  const [, scheme, file] = /^(definition|package|berth):(.*)$/s.exec(name) ?? [];
  if (file === undefined) return undefined;
  const text = Object.hasOwn(files, file) ? files[file]! : "";
  if (scheme === "definition" && !withoutMapReferences(text).includes(lineText)) return undefined;
  const bytes = Buffer.from(lineText);
  const column = bytes.subarray(0, byte).toString().length + 1;
  const length = bytes.subarray(byte, byte + byteLength).toString().length;
  return { file, line, column, frame: codeFrame(lineText, line, column, length) };
}

function problem(code: string, message: string, file?: string): Problem {
  return { code, message, severity: "error", ...(file === undefined ? {} : { file }) };
}

function toSentence(text: string): string {
  if (text.startsWith('No matching export in "berth:')) {
    return `${text.replace("berth:", "")}: it exports only types, so write "import type".`;
  }
  text = text.replace(/"(definition|package):/g, '"');
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function isBuildFailure(cause: unknown): cause is BuildFailure {
  return cause instanceof Error && Array.isArray((cause as Partial<BuildFailure>).errors);
}
