import ts from "#typescript";
import type { JsonSchema } from "../../../lib/json.ts";
import type { DefinitionProgram } from "../program.ts";
import { isFunction, libraryName } from "./kinds.ts";
import type { RevivedKind, TypePlace, Walker } from "./walker.ts";

/** Types of the language and the host that have a meaning of their own: dates, bytes, boxed values, and what JSON lacks. */
export function walkLibraryType(type: ts.Type, place: TypePlace, walker: Walker): JsonSchema | undefined {
  const name = knownName(type, walker);
  if (name === undefined) return undefined;
  const refuse = (reason: string): JsonSchema => walker.refuse(place, "unsupported-type", reason);
  const revived = revivedTypes.get(name);
  if (revived) {
    const extra = walker.direction === "input" ? ownField(type, walker) : undefined;
    if (extra !== undefined) {
      const what = `${walker.checker.typeToString(type)} is a ${name} with a property of its own, ${extra}`;
      return refuse(`${what}, which JSON cannot carry; put both in an object`);
    }
    if (walker.direction === "input") walker.revivals.add(revived.kind, place.reach);
    return { type: "string", format: revived.format };
  }
  const boxed = boxedTypes.get(name);
  if (boxed) return { type: boxed };
  if (byteTypes.has(name)) {
    if (walker.direction === "output") return { type: "string", contentEncoding: "base64" };
    return refuse(`${name} holds bytes, which JSON cannot carry; use a base64 string`);
  }
  const reason = walker.direction === "output" && contextTypes.has(name) ? "return plain data" : unsupported.get(name);
  return reason === undefined ? undefined : refuse(`${name} cannot be represented in JSON; ${reason}`);
}

/** A property that an interface or class adds to the library type that it extends, and that each value must have. */
export function ownField(type: ts.Type, library: Library): string | undefined {
  if (type.isIntersection()) return undefined;
  const bases = basesOf(type, library.checker);
  const own = library.checker.getPropertiesOfType(type).find((property) => {
    const { flags, valueDeclaration } = property;
    if (flags & ts.SymbolFlags.Optional || !valueDeclaration) return false;
    return !library.isLibrary(valueDeclaration.getSourceFile()) && !bases.some((base) => has(base, property, library));
  });
  return own?.name;
}

/** A library type has the property itself: with the same values, or as a method, of which only the result is narrower. */
function has(base: ts.Type, property: ts.Symbol, { checker, isLibrary }: Library): boolean {
  const known = base.getProperty(property.name);
  if (!known?.declarations?.some((declaration) => isLibrary(declaration.getSourceFile()))) return false;
  const type = checker.getTypeOfSymbol(known);
  return isFunction(type) || checker.isTypeAssignableTo(type, checker.getTypeOfSymbol(property));
}

/** Types that the host takes for bytes when they are the whole result. */
export function isBytes(type: ts.Type, library: Library): boolean {
  const name = knownName(type, library) ?? "";
  return byteTypes.has(name) || bodyTypes.has(name);
}

/** A type whose values a result cannot hold, so that the call fails. `Function` and `Symbol` may be members, left out. */
export function isNeverWritten(type: ts.Type, isLibrary: Library["isLibrary"]): boolean {
  const name = libraryName(type, isLibrary) ?? "";
  return unsupported.has(name) && !perhapsWritten.has(name);
}

/** Plain objects and lists may be values of these types, too. */
const perhapsWritten = new Set(
  (
    "Function Symbol ToolContext TransformContext PromiseLike Iterable ArrayLike ConcatArray Iterator IterableIterator IteratorObject " +
    "AsyncIterable AsyncIterator AsyncIterableIterator AsyncIteratorObject"
  ).split(" "),
);

/** A `Blob` or a `Response`: nothing beside it in a union can be promised by a schema either. */
export function isBody(type: ts.Type, library: Library): boolean {
  return bodyTypes.has(knownName(type, library) ?? "");
}

type Library = Pick<DefinitionProgram, "checker" | "isLibrary">;

/**
 * The name of the library type that a type is written to JSON as: the type itself, the one that has a brand
 * (`Date & { __brand: "utc" }`), or the one that a class or interface extends. A `toJSON` of the author's own decides
 * instead.
 */
function knownName(type: ts.Type, library: Library, levels = 0): string | undefined {
  const { checker, isLibrary } = library;
  const own = libraryName(type, isLibrary);
  if (own !== undefined && (isKnown(own) || (levels === 0 && boxedTypes.has(own)))) return own;
  if (levels >= basesMax || hasOwnJson(type, isLibrary)) return undefined;
  for (const base of type.isIntersection() ? type.types : basesOf(type, checker)) {
    const name = knownName(base, library, levels + 1);
    if (name !== undefined) return name;
  }
  return undefined;
}

const basesMax = 10;

function isKnown(name: string): boolean {
  return revivedTypes.has(name) || byteTypes.has(name) || unsupported.has(name);
}

function hasOwnJson(type: ts.Type, isLibrary: Library["isLibrary"]): boolean {
  const declaration = type.getProperty("toJSON")?.valueDeclaration;
  return declaration !== undefined && !isLibrary(declaration.getSourceFile());
}

function basesOf(type: ts.Type, checker: ts.TypeChecker): readonly ts.Type[] {
  const declared = (type as Partial<ts.TypeReference>).target ?? type;
  return declared.isClassOrInterface() ? checker.getBaseTypes(declared) : [];
}

/** Built-in interfaces that arrays implement, such as `Iterable`: accept an array. */
export function isInterfaceOfArrays(type: ts.Type, isLibrary: (file: ts.SourceFile) => boolean): boolean {
  return interfacesOfArrays.has(libraryName(type, isLibrary) ?? "");
}

/** A type whose values the host writes as a list when they are the whole result. */
export function isWrittenAsList(type: ts.Type, isLibrary: (file: ts.SourceFile) => boolean): boolean {
  return isInterfaceOfArrays(type, isLibrary) || iterators.has(libraryName(type, isLibrary) ?? "");
}

const iterators = new Set(
  "IterableIterator IteratorObject ArrayIterator MapIterator SetIterator StringIterator RegExpStringIterator".split(
    " ",
  ),
);

const interfacesOfArrays = new Set(["Iterable", "ArrayLike", "ConcatArray"]);

const revivedTypes: ReadonlyMap<string, { readonly kind: RevivedKind; readonly format: string }> = new Map([
  ["Date", { kind: "date", format: "date-time" }],
  ["URL", { kind: "url", format: "uri" }],
]);

const boxedTypes: ReadonlyMap<string, string> = new Map([
  ["String", "string"],
  ["Number", "number"],
  ["Boolean", "boolean"],
]);

/** Written as base64 wherever they stand in a result. */
const byteTypes = new Set(["Uint8Array", "Buffer", "ArrayBuffer"]);

/** Read to their end when they are the whole result. */
const bodyTypes = new Set(["Blob", "File", "Response"]);

/** Types that the host hands to a function, which cannot return them. */
const contextTypes = new Set("ToolContext TransformContext AbortSignal AbortController".split(" "));

/** Types without a JSON form, by what to use instead. */
const alternatives: Readonly<Record<string, string>> = {
  "use a plain object, such as Record<string, T>": "Map ReadonlyMap",
  "use an array":
    "Set ReadonlySet WeakSet Iterator ArrayLike ConcatArray IterableIterator IteratorObject ArrayIterator " +
    "MapIterator SetIterator StringIterator RegExpStringIterator Generator AsyncIterator AsyncIterable " +
    "AsyncIterableIterator AsyncIteratorObject AsyncGenerator",
  "use a plain object": "WeakMap Headers FormData",
  "use the value itself": "WeakRef",
  "await it first": "Promise PromiseLike",
  "use its source text": "RegExp",
  "use plain data": "Function Request",
  "use a string": "Symbol",
  "use a number or a string": "BigInt",
  "use its message": "Error EvalError RangeError ReferenceError SyntaxError TypeError URIError AggregateError",
  "use a string or a plain object": "URLSearchParams",
  "use its text or its data": "Response",
  "use a base64 string, or return it as the whole result": "Blob File",
  "use a base64 string": "SharedArrayBuffer DataView",
  "use an array of numbers":
    "Uint8ClampedArray Int8Array Uint16Array Int16Array Uint32Array Int32Array Float32Array Float64Array",
  "use an array of strings": "BigInt64Array BigUint64Array",
  "use its text or its bytes": "ReadableStream",
  "use a JSON Web Key or its text": "CryptoKey",
  "the host passes it as the last parameter": "ToolContext TransformContext",
  "use context.signal": "AbortSignal AbortController",
  "return an array": "Iterable",
};

const unsupported: ReadonlyMap<string, string> = new Map(
  Object.entries(alternatives).flatMap(([hint, names]) => names.split(" ").map((name) => [name, hint])),
);
