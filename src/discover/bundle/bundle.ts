import type { BuildContext, BuildFailure, BuildOptions, BuildResult, Location, Message, Metafile } from "esbuild";
import type { Node } from "typescript";
import { packageRoot } from "../../config.ts";
import { codeFrame, positionAt } from "../../lib/code-frame.ts";
import { compareText } from "../../lib/pretty-json.ts";
import { distinctProblems, type Problem } from "../../lib/problem.ts";
import { packageName } from "../../packages/package-name.ts";
import type { DefinitionSource, PackageShare } from "../discovery.ts";
import { findComputedImports, packageImports } from "../files/imports.ts";
import { readPathAliases } from "../files/path-aliases.ts";
import { isAsset, isCode } from "../files/resolve.ts";
import type { PackageFiles } from "../packages/package-files.ts";
import { builtinName, bundleNames, requireBanner } from "./builtins.ts";
import { definitionPlugin, importedAtRunTime, isWithinBounds, type RefusedImport } from "./bundle-plugin.ts";
import { keepSources, mapReference, withoutMapReferences, type SourceMap } from "./source-map.ts";

/**
 * Makes the one file that a guest runs out of a definition's sources. Owns what a definition may import and how the
 * bundle's bytes come about; must not know how tools are found or how a guest is started. The same sources give the
 * same bytes on every machine: no path of the host is in the output.
 *
 * The source map is inline and names the definition's own files `definition:<path>`: an absolute URL, so that Node's
 * `--enable-source-maps` gives the same stack wherever the bundle's file stands.
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

  const raw = await rawMapReferences(source);
  if (raw.length > 0) return { problems: raw };
  const computed = Object.entries(source.files).flatMap(([file, code]) => computedImports(file, code));
  if (computed.length > 0) return { problems: computed };

  // Nothing is wrong where all that could be an alias is a package.
  const { fault } = readPathAliases(source.files);
  const isAlias = (specifier: string): boolean =>
    builtinName(specifier) === undefined && !packages?.hasFolder(`/node_modules/${packageName(specifier)}`);
  if (fault && packageImports(source).some(isAlias)) return { problems: [fault] };

  try {
    const result = await build(source, packages);
    if (!isWithinBounds(result.metafile!)) {
      return { problems: [problem("import-refused", importedAtRunTime, source.entry)] };
    }
    // What a package's author may have meant is nothing that a definition's author could change.
    const warnings = result.warnings.filter(isOwn).flatMap((message) => toProblems(message, "warning", source));
    if (warnings.some(({ severity }) => severity === "error")) return { problems: warnings };
    const [map, code] = ["bundle.js.map", "bundle.js"].map((name) =>
      result.outputFiles!.find((file) => file.path.endsWith(name)),
    );
    const start = packages ? `${requireBanner()}\n` : "";
    const bundle = assemble(code!.text, map!.text, start, source.files, bundleBytes);
    const shares = sharesOf(result.metafile!);
    if (bundle !== undefined) return { bundle, problems: warnings, ...(shares.length > 0 && { packages: shares }) };
    const message = `Its bundle has more than ${bundleBytes} bytes (BERTH_BUNDLE_BYTES)${mostOf(shares)}: split the server, or read long texts from variables.`;
    return { problems: [...warnings, problem("too-large", message, source.entry)] };
  } catch (cause) {
    if (!isBuildFailure(cause)) throw new BundlerEnded("the bundler has ended", { cause });
    const problems = distinctProblems(cause.errors.flatMap((message) => toProblems(message, "error", source)));
    return { problems: problems.length > 0 ? problems : [bundlerFailed(source)] };
  }
}

async function build(source: DefinitionSource, packages: PackageFiles | undefined): Promise<BuildResult> {
  // Loaded here, so that a process which only serves never loads a bundler.
  const esbuild = await import("esbuild");
  if (!packages || !keptBuild) return esbuild.build(buildOptions(() => source, packages));
  const kept = keptBuild;
  kept.source = source;
  if (kept.packages !== packages) {
    await kept.context?.dispose();
    kept.context = await esbuild.context(buildOptions(() => kept.source!, packages));
    kept.packages = packages;
  }
  return kept.context!.rebuild();
}

let keptBuild: { packages?: PackageFiles; source?: DefinitionSource; context?: BuildContext } | undefined;

/**
 * From now on the files of the last definition's packages stay parsed for the next build. For a process that bundles one
 * definition at a time, and does not wait for the bundler's process when it ends.
 */
export function keepBuild(): void {
  keptBuild = {};
}

interface Bundled {
  readonly bundle?: string;
  /** As in `Compiled`. */
  readonly packages?: readonly PackageShare[];
  readonly problems: Problem[];
}

/** The parts of the bundle that come from packages, the largest first. */
function sharesOf({ outputs }: Metafile): PackageShare[] {
  const shares = new Map<string, number>();
  for (const { inputs } of Object.values(outputs)) {
    for (const [input, { bytesInOutput }] of Object.entries(inputs)) {
      const of = /^package:(@?[^@]+@[^/+]+)/.exec(input)?.[1];
      if (of !== undefined) shares.set(of, (shares.get(of) ?? 0) + bytesInOutput);
    }
  }
  const share = ([of, bytes]: [string, number]): PackageShare => {
    const at = of.lastIndexOf("@");
    return { name: of.slice(0, at), version: of.slice(at + 1), bytes };
  };
  return [...shares].map(share).sort((one, other) => other.bytes - one.bytes || compareText(one.name, other.name));
}

function mostOf([largest]: readonly PackageShare[]): string {
  return largest ? `, of which ${largest.name} has ${largest.bytes}` : "";
}

/** Its process cannot be asked again. */
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
    // Nothing of the folder that Berth happens to run in may have a say: no tsconfig.json, no environment.
    tsconfigRaw: { compilerOptions: { target: "es2023", useDefineForClassFields: true } },
    define: packages ? inBundle : {},
    // Code of packages is read by nobody here, and a guest reads all of it at each of its starts.
    minifyWhitespace: packages !== undefined,
    minifySyntax: packages !== undefined,
    logOverride: importsAtRunTime,
  };
}

/**
 * esbuild lets these pass; a name that is only known when it runs cannot be checked here. In a definition that is an
 * error. Packages try what may not be there, and hear of it when they do.
 */
const importsAtRunTime = {
  "unsupported-dynamic-import": "warning",
  "unsupported-require-call": "warning",
  "indirect-require": "warning",
  "empty-glob": "warning",
} as const;

/** As in a build for production, which is what packages ask about. */
const inBundle = { ...bundleNames, "process.env.NODE_ENV": '"production"' };

/** The namespace of the definition's own files. */
const OWN = "definition:";

/** With as much of the map as fits; undefined where the code alone does not. */
function assemble(
  code: string,
  map: string,
  start: string,
  files: DefinitionSource["files"],
  bytesMax: number,
): string | undefined {
  // A position in an asset means nothing, and the map would hold it a second time.
  const kept = keepSources(JSON.parse(map) as SourceMap, (source) => source.startsWith(OWN) && !isAsset(source));
  const { version, sources, names } = kept;
  const mappings = start.endsWith("\n") ? `;${kept.mappings}` : kept.mappings;
  const texts = sources.map((source) => withoutMapReferences(files[source.slice(OWN.length)]!));
  const withMap = (sourcesContent?: readonly string[]): string => {
    const sourceMap = Buffer.from(JSON.stringify({ version, sources, sourcesContent, names, mappings })).toString(
      "base64",
    );
    return `${start}${code}//# sourceMappingURL=data:application/json;base64,${sourceMap}\n`;
  };
  const ways = [() => withMap(texts), () => withMap(), () => start + code];
  for (const way of ways) {
    const bundle = way();
    if (Buffer.byteLength(bundle) <= bytesMax) return bundle;
  }
  return undefined;
}

/** None for what esbuild says of any other file, or of none: that could quote what stands on the host's disk. */
function toProblems(message: Message, severity: Problem["severity"], source: DefinitionSource): Problem[] {
  const refused = message.detail as RefusedImport | undefined;
  const position = message.location ? positionOf(message.location, source) : { file: source.entry };
  if (!position || (!message.location && !refused)) return [];
  if (isImportAtRunTime(message)) {
    return [{ code: "import-refused", message: importedAtRunTime, severity: "error", ...position }];
  }
  const code = refused?.code ?? (severity === "warning" ? "suspicious-code" : "syntax-error");
  return [{ code, message: sentence(message.text), severity, ...position }];
}

function isOwn({ location }: Message): boolean {
  return location === null || location.file.startsWith(OWN);
}

function isImportAtRunTime({ id, text }: Message): boolean {
  return Object.hasOwn(importsAtRunTime, id) || /^Could not resolve (import|require)\(/.test(text);
}

function computedImports(file: string, text: string): Problem[] {
  if (!isCode(file)) return [];
  const found = findComputedImports(text).slice(0, computedImportsShown);
  return found.map(({ specifier, offset }) => {
    const { line, column, lineText } = positionAt(text, offset);
    const frame = codeFrame(lineText, line, column, specifier.length);
    return { code: "import-refused", message: importedAtRunTime, severity: "error", file, line, column, frame };
  });
}

const computedImportsShown = 50;

/** There an escape would change what the program means. */
async function rawMapReferences({ files }: DefinitionSource): Promise<Problem[]> {
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
          if (refersToMap(part.getText())) found.push(rawMapReference(file, text, part.getStart()));
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

function rawMapReference(file: string, text: string, offset: number): Problem {
  const { line, column, lineText } = positionAt(text, offset);
  const message = 'A tagged template cannot hold "# sourceMappingURL": split it, as in ${"# source"}MappingURL.';
  const frame = codeFrame(lineText, line, column);
  return { code: "suspicious-code", message, severity: "error", file, line, column, frame };
}

/** esbuild counts columns in UTF-8 bytes from 0. */
function positionOf(
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

function sentence(text: string): string {
  if (text.startsWith('No matching export in "berth:')) {
    return `${text.replace("berth:", "")}: it holds types only, so write "import type".`;
  }
  text = text.replace(/"(definition|package):/g, '"');
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function isBuildFailure(cause: unknown): cause is BuildFailure {
  return cause instanceof Error && Array.isArray((cause as Partial<BuildFailure>).errors);
}
