import type { BuildFailure, BuildOptions, Location, Message } from "esbuild";
import type { Problem } from "../problem.ts";
import { codeFrame, positionAt } from "./code-frame.ts";
import type { DefinitionSource } from "./discovery.ts";
import {
  definitionPlugin,
  importedAtRunTime,
  isWithinBounds,
  type RefusedImport,
  usesRequire,
} from "./bundle-plugin.ts";
import { findComputedImports } from "./imports.ts";
import { loaderOf } from "./resolve.ts";
import { keepSources, type SourceMap } from "./source-map.ts";

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
): Promise<{ readonly bundle?: string; readonly problems: Problem[] }> {
  const text = Object.hasOwn(source.files, source.entry) ? source.files[source.entry] : undefined;
  if (text === undefined) {
    return {
      problems: [problem("missing-file", `The entry file ${source.entry} is not among the definition's files.`)],
    };
  }
  if (source.language === "shell") return { bundle: text, problems: [] };

  const computed = Object.entries(source.files).flatMap(([file, code]) => computedImports(file, code));
  if (computed.length > 0) return { problems: computed };

  // Loaded here, so that a process which only serves never loads a bundler.
  const esbuild = await import("esbuild");
  try {
    const result = await esbuild.build(buildOptions(source));
    if (!isWithinBounds(result.metafile!)) {
      return { problems: [problem("import-refused", importedAtRunTime, source.entry)] };
    }
    const warnings = result.warnings.map((message) => toProblem(message, "warning", source));
    const [map, code] = ["bundle.js.map", "bundle.js"].map((name) =>
      result.outputFiles!.find((file) => file.path.endsWith(name)),
    );
    return { bundle: assemble(code!.text, map!.text, usesRequire(result.metafile!)), problems: warnings };
  } catch (cause) {
    if (!isBuildFailure(cause)) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      return {
        problems: [problem("bundler-failed", `The bundler failed on this definition: ${reason}`, source.entry)],
      };
    }
    return { problems: distinct(cause.errors.map((message) => toProblem(message, "error", source))) };
  }
}

function buildOptions(source: DefinitionSource): BuildOptions {
  return {
    entryPoints: [source.entry],
    plugins: [definitionPlugin(source)],
    bundle: true,
    platform: "node",
    target: "node20",
    format: "esm",
    charset: "utf8",
    outfile: "bundle.js",
    sourcemap: "external",
    metafile: true,
    write: false,
    logLevel: "silent",
    // Nothing of the folder that Berth happens to run in may have a say: no tsconfig.json, no environment.
    tsconfigRaw: { compilerOptions: { target: "es2023", useDefineForClassFields: true } },
    define: {},
    logOverride: importsAtRunTime,
  };
}

/** esbuild lets these pass; a name that is only known when it runs cannot be checked here. */
const importsAtRunTime = {
  "unsupported-dynamic-import": "error",
  "unsupported-require-call": "error",
  "indirect-require": "error",
  "empty-glob": "error",
} as const;

/** What CommonJS packages need to reach Node's builtins. esbuild's first line is a comment or its helpers, never mapped. */
const requireBanner =
  'import { createRequire as __createRequire } from "node:module"; const require = __createRequire("file:///"); ';

function assemble(code: string, map: string, banner: boolean): string {
  const own = keepSources(JSON.parse(map) as SourceMap, (source) => source.startsWith("definition:"));
  const sourceMap = Buffer.from(JSON.stringify(own)).toString("base64");
  const start = banner ? requireBanner : "";
  return `${start}${code}//# sourceMappingURL=data:application/json;base64,${sourceMap}\n`;
}

function toProblem(message: Message, severity: Problem["severity"], source: DefinitionSource): Problem {
  const refused = message.detail as RefusedImport | undefined;
  const position = message.location ? positionOf(message.location) : { file: source.entry };
  if (isImportAtRunTime(message)) {
    return { code: "import-refused", message: importedAtRunTime, severity, ...position };
  }
  const code = refused?.code ?? (severity === "warning" ? "suspicious-code" : "syntax-error");
  return { code, message: sentence(message.text), severity, ...position };
}

function isImportAtRunTime({ id, text }: Message): boolean {
  return Object.hasOwn(importsAtRunTime, id) || /^Could not resolve (import|require)\(/.test(text);
}

function computedImports(file: string, text: string): Problem[] {
  if (!["ts", "js"].includes(loaderOf(file) ?? "")) return [];
  const found = findComputedImports(text).slice(0, computedImportsShown);
  return found.map(({ specifier, offset }) => {
    const { line, column, lineText } = positionAt(text, offset);
    const frame = codeFrame(lineText, line, column, specifier.length);
    return { code: "import-refused", message: importedAtRunTime, severity: "error", file, line, column, frame };
  });
}

const computedImportsShown = 50;

/** One problem for each place: how many files of the host match a pattern is nobody's business. */
function distinct(problems: readonly Problem[]): Problem[] {
  return [...new Map(problems.map((problem) => [JSON.stringify(problem), problem])).values()];
}

/** esbuild counts columns in UTF-8 bytes from 0. */
function positionOf(location: Location): Pick<Problem, "file" | "line" | "column" | "frame"> {
  const bytes = Buffer.from(location.lineText);
  const column = bytes.subarray(0, location.column).toString().length + 1;
  const length = bytes.subarray(location.column, location.column + location.length).toString().length;
  return {
    file: location.file.replace(/^[a-z]+:/, ""),
    line: location.line,
    column,
    frame: codeFrame(location.lineText, location.line, column, length),
  };
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
