import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, posix } from "node:path";
import ts from "#typescript";
import { packageRoot } from "../../config.ts";
import { NODE_TYPES, packageName } from "../../packages/package-name.ts";
import type { DefinitionSource } from "../discovery.ts";
import { type PathAliases, readPathAliases } from "../files/path-aliases.ts";
import { declarationFile, isAsset, isDeclarations, isRelative, selectLoader } from "../files/resolve.ts";
import type { PackageFiles } from "../packages/package-files.ts";
import { DeclarationCounter } from "./declaration-counter.ts";

/**
 * A definition as a TypeScript program that sees only its own files, the packages that it reaches, the ES2022 library
 * and Berth's ambient types, and nothing on disk. Library files are parsed once per process.
 */
export interface DefinitionProgram {
  readonly program: ts.Program;
  readonly checker: ts.TypeChecker;
  readonly entry: ts.SourceFile;
  /** The definition's own files, entry first. */
  readonly own: readonly ts.SourceFile[];
  /** True if the definition has a file of this name, in the program or not. */
  readonly has: (name: string) => boolean;
  /** The name of a file in the definition. */
  readonly relativeName: (file: ts.SourceFile) => string;
  /** True if a file belongs to the language or to the host, not to the definition or its packages. */
  readonly isLibrary: (file: ts.SourceFile) => boolean;
  readonly isPackageFile: (file: ts.SourceFile) => boolean;
  /** True for an import of an own file, by a path or an alias, that may be missing. */
  readonly isOwnImport: (specifier: string) => boolean;
  /** True if the package of an import was added. */
  readonly isAdded: (specifier: string) => boolean;
}

const ownRoot = "/definition/";
const libraryRoot = "/lib/";
const packagesRoot = "/node_modules/";
export const ambientName = "/berth/berth.d.ts";

const libraryFolder = dirname(createRequire(import.meta.url).resolve("typescript"));
export const ambientFile = join(packageRoot, "reference_templates", "berth.d.ts");

const options: ts.CompilerOptions & { stableTypeOrdering: boolean } = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  moduleDetection: ts.ModuleDetectionKind.Force,
  lib: ["lib.es2022.d.ts"],
  types: [],
  strict: true,
  noEmit: true,
  allowImportingTsExtensions: true,
  allowJs: true,
  resolveJsonModule: true,
  skipLibCheck: true,
  // Makes the order of union members independent of what was checked before.
  stableTypeOrdering: true,
};

/** The program of the last definition, if it has packages. */
let last: { readonly packages: PackageFiles; readonly program: ts.Program } | undefined;

const library = new Map<string, ts.SourceFile>();

/** Throws `TooManyDeclarations`. */
export function openProgram(source: DefinitionSource, packages?: PackageFiles): DefinitionProgram {
  const own = new Map(Object.entries(source.files).map(([name, text]) => [ownRoot + name, text]));
  const entryName = ownRoot + source.entry;
  const aliases = readPathAliases(source.files);
  const isAdded = (specifier: string) => packages?.hasFolder(packagesRoot + packageName(specifier)) ?? false;
  const program = ts.createProgram({
    // Declarations that nothing imports apply to all files.
    rootNames: [ambientName, ...[...own.keys()].filter(isDeclarations), entryName],
    // Reuses the resolved imports of the packages' own files.
    ...(last && last.packages === packages && { oldProgram: last.program }),
    options: packages?.hasFolder(`${packagesRoot}${NODE_TYPES}`) ? { ...options, types: ["node"] } : options,
    host: createHost(own, aliases, packages),
  });
  last = packages && { packages, program };
  const entry = program.getSourceFile(entryName);
  if (!entry) throw new Error(`the entry ${source.entry} is not among the files of the definition`);
  return {
    program,
    checker: program.getTypeChecker(),
    entry,
    own: [entry, ...program.getSourceFiles().filter((file) => file !== entry && file.fileName.startsWith(ownRoot))],
    has: (name) => own.has(ownRoot + name),
    relativeName,
    isLibrary: ({ fileName }) => !fileName.startsWith(ownRoot) && !isPackageFile(fileName),
    isPackageFile: ({ fileName }) => isPackageFile(fileName),
    isOwnImport(specifier) {
      const target = aliases.resolve(source.entry, specifier, (path) => own.has(ownRoot + path));
      if (isRelative(specifier) || target.kind === "file") return true;
      return (target.kind === "outside" || target.tried.length > 0) && !isAdded(specifier);
    },
    isAdded,
  };
}

export function relativeName({ fileName }: ts.SourceFile): string {
  return fileName.slice(fileName.startsWith(ownRoot) ? ownRoot.length : 0);
}

/** The types of Node.js describe the host, as the ambient types do. */
function isPackageFile(fileName: string): boolean {
  return fileName.startsWith(packagesRoot) && !/\/node_modules\/(?:@types\/node|undici-types)\//.test(fileName);
}

function createHost(
  own: ReadonlyMap<string, string>,
  aliases: PathAliases,
  packages: PackageFiles | undefined,
): ts.CompilerHost {
  const exists = (name: string) => own.has(name);
  const fileExists = (name: string) => exists(name) || (packages?.hasFile(name) ?? false);
  const directoryExists = (name: string) => packages?.hasFolder(name) ?? false;
  const readFile = (name: string) => own.get(name) ?? packages?.text(name);
  const counter = new DeclarationCounter();
  const newCache = () => ts.createModuleResolutionCache("/", (name) => name, options);
  const caches = { own: newCache(), ofPackages: packages?.memoize("resolutions", newCache) };
  const resolvePackage = (specifier: string, containingFile: string, mode: ts.ResolutionMode) =>
    packages &&
    ts.resolveModuleName(
      specifier,
      containingFile,
      options,
      { fileExists, directoryExists, readFile },
      containingFile.startsWith(packagesRoot) ? caches.ofPackages : caches.own,
      undefined,
      mode,
    ).resolvedModule;
  return {
    getSourceFile(name, languageVersion) {
      const parse = (text: string) => ts.createSourceFile(name, text, languageVersion, true);
      const text = own.get(name);
      if (text !== undefined) return parse(text);
      if (packages?.hasFile(name)) {
        counter.recordRead(name, packages.bytes(name)!.length);
        return packages.memoizeForFile(name, () => parse(packages.text(name)!));
      }
      const file = library.get(name) ?? readLibrary(name, languageVersion);
      if (file) library.set(name, file);
      return file;
    },
    resolveModuleNameLiterals: (literals, containingFile, _reference, _options, file) =>
      literals.map((literal) => {
        const isOwn = containingFile.startsWith(ownRoot);
        const own = isOwn ? resolveOwn(literal.text, containingFile, aliases, exists) : undefined;
        const isOwnPath = isOwn && isRelative(literal.text);
        const mode = ts.getModeForUsageLocation(file, literal, options);
        const resolvedModule = own ?? (isOwnPath ? undefined : resolvePackage(literal.text, containingFile, mode));
        const resolvedName = resolvedModule?.resolvedFileName;
        if (resolvedName !== undefined && isPackageFile(resolvedName))
          counter.recordImport(resolvedName, literal, isOwn ? undefined : containingFile);
        return { resolvedModule };
      }),
    getDefaultLibFileName: () => `${libraryRoot}lib.es2022.d.ts`,
    getDefaultLibLocation: () => libraryRoot.slice(0, -1),
    fileExists,
    readFile,
    directoryExists,
    getDirectories: () => [],
    getCurrentDirectory: () => "/",
    getCanonicalFileName: (name) => name,
    useCaseSensitiveFileNames: () => true,
    getNewLine: () => "\n",
    writeFile: () => undefined,
  };
}

/** Names may come from a `/// <reference>` of the author: only plain library names are read. */
function readLibrary(name: string, languageVersion: ts.ScriptTarget | ts.CreateSourceFileOptions) {
  if (name === ambientName) return ts.createSourceFile(name, readFileSync(ambientFile, "utf8"), languageVersion);
  const file = /^\/lib\/(lib(?:\.es[0-9a-z.]+|\.decorators(?:\.legacy)?)?\.d\.ts)$/.exec(name)?.[1];
  if (!file) return undefined;
  try {
    return ts.createSourceFile(name, readFileSync(join(libraryFolder, file), "utf8"), languageVersion);
  } catch {
    return undefined;
  }
}

/** Resolves a relative import or an alias to one of the definition's own files, by the same rules as the bundler. */
function resolveOwn(
  specifier: string,
  containingFile: string,
  { resolve }: PathAliases,
  exists: (name: string) => boolean,
) {
  const importer = containingFile.slice(ownRoot.length);
  const target = resolve(importer, specifier, (path) => exists(ownRoot + path));
  // The ambient types declare the exports of other kinds of files.
  if (target.kind !== "file" || isAsset(target.path) || selectLoader(target.path) === undefined) return undefined;
  const declarations = declarationFile(target.path);
  const path = declarations !== undefined && exists(ownRoot + declarations) ? declarations : target.path;
  return {
    resolvedFileName: ownRoot + path,
    extension: isDeclarations(path) ? ts.Extension.Dts : posix.extname(path),
    isExternalLibraryImport: false,
  };
}
