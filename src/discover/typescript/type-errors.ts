import ts from "#typescript";
import { PROBLEMS_MAX, TYPE_ERROR, type Problem } from "../../lib/problem.ts";
import { packageName, typesOf } from "../../packages/package-name.ts";
import { ambientName, type DefinitionProgram } from "./program.ts";
import { locateRange } from "./reporter.ts";
import { findImport } from "./types/unresolved.ts";

/**
 * The checker's own errors in the definition's TypeScript files, in its words. They do not prevent it from being
 * served: the code runs whatever its types are. `reported` are the problems that have been found already; errors that
 * they quote are not repeated.
 */
export function typeErrors(definition: DefinitionProgram, reported: readonly Problem[]): Problem[] {
  const { own, relativeName } = definition;
  const all = own.flatMap((file) => readDiagnostics(file, definition).map((diagnostic) => ({ file, diagnostic })));
  const quoted = reported.map(({ message }) => message).join("\n");
  return all
    .filter(({ file, diagnostic }) => concernsAuthor(diagnostic, file, definition))
    .map(({ file, diagnostic }) => ({ file, diagnostic, message: formatMessage(diagnostic) }))
    .filter(
      ({ message }) => !quoted.includes(VALUE_AS_TYPE.exec(message)?.[1]?.concat(" is a value, not a type") ?? message),
    )
    .map(({ file, diagnostic, message }, index) => {
      // Problems beyond the limit are only counted, and computing a frame takes long in a long file.
      const place = index < PROBLEMS_MAX ? framedPlace(file, diagnostic) : barePlace(file, diagnostic);
      return Object.assign(place, {
        severity: "warning",
        code: TYPE_ERROR,
        message,
        file: relativeName(file),
      } as const);
    });
}

const VALUE_AS_TYPE = /^'([^']+)' refers to a value, but is being used as a type here/;

function framedPlace(file: ts.SourceFile, { start = 0, length = 1 }: ts.Diagnostic): Place {
  return locateRange(file.text, start, length);
}

function barePlace(file: ts.SourceFile, { start = 0 }: ts.Diagnostic): Place {
  const { line, character } = file.getLineAndCharacterOfPosition(start);
  return { line: line + 1, column: character + 1 };
}

type Place = Pick<Problem, "line" | "column" | "frame">;

/** A definition on which the checker fails can still be discovered and run. */
function readDiagnostics(file: ts.SourceFile, { program }: DefinitionProgram): readonly ts.Diagnostic[] {
  try {
    return program.getSemanticDiagnostics(file);
  } catch {
    return [];
  }
}

/** Omits advice to change compiler settings, which a definition does not have. */
function formatMessage({ code, messageText }: ts.Diagnostic): string {
  const text = ts.flattenDiagnosticMessageText(messageText, " ").replace(/\s+/g, " ");
  if (code === NO_DECLARATIONS) return withoutTypes(/'([^']*)'/.exec(text)![1]!, text);
  return text.replace(/ Do you need to .*$/, "");
}

/** Could not find a declaration file for module …. */
const NO_DECLARATIONS = 7016;

function withoutTypes(specifier: string, text: string): string {
  const types = typesOf(packageName(specifier));
  const advice = text.includes("npm i --save-dev") ? `add ${types}, if there is such a package, or` : "";
  return `"${specifier}" has no types, so everything from it is any: ${advice} declare what you use in a .d.ts file.`.replace(
    / {2}/g,
    " ",
  );
}

/**
 * The checker sees the definition, the language and Berth's ambient types, which describe less than what exists at run
 * time: packages and some modules of Node.js have no types here. Errors that follow from that are not the author's.
 */
function concernsAuthor(diagnostic: ts.Diagnostic, file: ts.SourceFile, definition: DefinitionProgram): boolean {
  const { category, code, start } = diagnostic;
  if (category !== ts.DiagnosticCategory.Error || start === undefined) return false;
  if (implicitAny.has(code) || irrelevant.has(code) || isAboutFiles(code)) return false;
  if (code === REQUIRED_AFTER_OPTIONAL) return !isContext(nodeAt(file, start).parent);
  // The checker reports a module of Node.js that is imported by its bare name in the same way.
  if (missingNames.has(code) && ts.isStringLiteral(nodeAt(file, start))) return false;
  if (missingNames.has(code)) return !isGlobalOfGuests(file.text.slice(start, start + (diagnostic.length ?? 0)));
  if (missingExports.has(code) || code === namespaceAsType) return isOwnName(nodeAt(file, start), definition);
  if (missingProperties.has(code)) {
    const node = nodeAt(file, start);
    return !isHostObject(node, definition) && !hasUnknownBase(node, definition);
  }
  if (notIterable.has(code)) return !hasUnknownBase(nodeAt(file, start), definition);
  return true;
}

/** A required parameter cannot follow an optional parameter. */
const REQUIRED_AFTER_OPTIONAL = 1016;

/** The host always passes its context, so arguments before it can be optional. */
function isContext(node: ts.Node): boolean {
  if (!ts.isParameter(node) || node.parent.parameters.at(-1) !== node) return false;
  return /^_?(?:context|ctx)$/.test(node.name.getText()) || /\bToolContext\b/.test(node.type?.getText() ?? "");
}

/** Errors about the resolution of modules and references, and about settings. */
function isAboutFiles(code: number): boolean {
  return code >= 5000 && code < 7000;
}

/** … implicitly has an 'any' type: often because of packages. Arguments of tools are checked separately. */
const implicitAny: ReadonlySet<number> = new Set([
  7005, 7006, 7008, 7009, 7010, 7011, 7013, 7019, 7020, 7022, 7023, 7024, 7025, 7031, 7032, 7033, 7034, 7051, 7055,
  7057,
]);

const irrelevant: ReadonlySet<number> = new Set([
  2306, // File … is not a module
  2307, // Cannot find module …; the bundler reports missing files
  2550, // Property … does not exist on type …. Do you need to change your target library?
  2568, // The same, for a type that needs a newer library
  2578, // Unused '@ts-expect-error' directive: with complete types it may be used
  2583, // Cannot find name …. Do you need to change your target library?
  2688, // Cannot find type definition file for …
  2726, // Cannot find lib definition for …
  2727, // The same, with a suggestion
  2732, // Cannot find module …. Consider using '--resolveJsonModule'
  2792, // Cannot find module …. Did you mean to set 'moduleResolution'?
]);

/** Cannot find name …, with and without a suggestion; Cannot find namespace …. */
const missingNames: ReadonlySet<number> = new Set([2304, 2552, 2503, 2580, 2584, 2591]);

/** Module … has no exported member …, in the forms that it takes. */
const missingExports: ReadonlySet<number> = new Set([2305, 2614, 2694, 2724]);

/** Cannot use namespace … as a type: it comes from a module that the checker knows only by name. */
const namespaceAsType = 2709;

/** Property … does not exist on type …, with and without a suggestion. */
const missingProperties: ReadonlySet<number> = new Set([2339, 2551, 2576]);

/** Type … must have a '[Symbol.asyncIterator]()' method, and the same without `async`. */
const notIterable: ReadonlySet<number> = new Set([2488, 2504, 2763, 2764, 2765, 2766]);

/** Globals of Node.js, and names of types for them, that the ambient types do not declare. */
const globalsOfGuests: ReadonlySet<string> = new Set(
  (
    "NodeJS AlgorithmIdentifier BroadcastChannel ByteLengthQueuingStrategy CompressionStream CountQueuingStrategy " +
    "CryptoKeyPair CustomEvent DecompressionStream EcdsaParams EcKeyGenParams EcKeyImportParams HmacImportParams " +
    "HmacKeyGenParams KeyUsage RsaHashedImportParams RsaPssParams MessageChannel MessageEvent MessagePort PerformanceEntry PerformanceMark PerformanceMeasure " +
    "PerformanceObserver PerformanceObserverEntryList PerformanceResourceTiming ReadableByteStreamController " +
    "ReadableStreamBYOBReader ReadableStreamBYOBRequest ReadableStreamDefaultController ReadableStreamDefaultReader " +
    "SubtleCrypto TextDecoderStream TextEncoderStream TransformStream TransformStreamDefaultController WebAssembly " +
    "WritableStream WritableStreamDefaultController WritableStreamDefaultWriter global"
  ).split(" "),
);

function isGlobalOfGuests(name: string): boolean {
  return globalsOfGuests.has(name);
}

/** True for names from the definition's own files and "berth", whose types are complete. */
function isOwnName(node: ts.Node, { isOwnImport }: DefinitionProgram): boolean {
  const isImport = (it: ts.Node) => ts.isImportDeclaration(it) || ts.isExportDeclaration(it) || ts.isImportTypeNode(it);
  let first = node;
  while (ts.isQualifiedName(first.parent)) first = first.parent;
  while (ts.isQualifiedName(first)) first = first.left;
  const specifier = findSpecifier(ts.findAncestor(findImport(first) ?? first, isImport));
  if (!specifier || !ts.isStringLiteral(specifier)) return true;
  return isOwnImport(specifier.text) || specifier.text === "berth";
}

function findSpecifier(node: ts.Node | undefined): ts.Node | undefined {
  if (!node) return undefined;
  if (!ts.isImportTypeNode(node)) return (node as ts.ImportDeclaration | ts.ExportDeclaration).moduleSpecifier;
  return ts.isLiteralTypeNode(node.argument) ? node.argument.literal : undefined;
}

/** True if the object without the property is from Node.js, whose objects have more than the ambient types declare. */
function isHostObject(node: ts.Node, { checker }: DefinitionProgram): boolean {
  const access = ts.findAncestor(node, ts.isPropertyAccessExpression);
  if (!access) return false;
  if (ts.isMetaProperty(access.expression)) return true;
  const type = checker.getApparentType(checker.getTypeAtLocation(access.expression));
  return (type.symbol?.declarations ?? []).some((declaration) => {
    const isAmbient = declaration.getSourceFile().fileName === ambientName;
    return isAmbient && !ts.findAncestor(declaration, isModuleOfBerth);
  });
}

/** True if the object extends a class without types, such as a stream of Node.js, and may inherit the property. */
function hasUnknownBase(node: ts.Node, { checker }: DefinitionProgram): boolean {
  const access = ts.findAncestor(node, ts.isPropertyAccessExpression);
  const object = access?.name === node ? access.expression : node;
  const seen = new Set<ts.Symbol>();
  const extendsUnknown = (symbol: ts.Symbol | undefined): boolean => {
    if (!symbol || seen.has(symbol)) return false;
    seen.add(symbol);
    const clauses = (symbol.declarations ?? []).flatMap<ts.HeritageClause>((declaration) =>
      ts.isClassDeclaration(declaration) || ts.isInterfaceDeclaration(declaration)
        ? (declaration.heritageClauses ?? [])
        : [],
    );
    return clauses.some(({ types }) =>
      types.some((clauseType) => {
        const base = checker.getTypeAtLocation(clauseType);
        return (base.flags & ts.TypeFlags.Any) !== 0 || extendsUnknown(base.symbol);
      }),
    );
  };
  const type = checker.getApparentType(checker.getTypeAtLocation(object));
  return (type.isUnionOrIntersection() ? type.types : [type]).some(({ symbol }) => extendsUnknown(symbol));
}

function isModuleOfBerth(node: ts.Node): boolean {
  return ts.isModuleDeclaration(node) && node.name.text === "berth";
}

/** The innermost node at an offset. */
function nodeAt(file: ts.SourceFile, offset: number): ts.Node {
  let node: ts.Node = file;
  for (;;) {
    const inner = ts.forEachChild(node, (child) =>
      child.getStart(file) <= offset && offset < child.end ? child : undefined,
    );
    if (!inner) return node;
    node = inner;
  }
}
