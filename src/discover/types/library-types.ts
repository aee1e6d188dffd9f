import ts from "#typescript";
import type { JsonSchema } from "../../lib/json.ts";
import type { DefinitionProgram } from "../program.ts";
import { isFunction, libraryName } from "./kinds.ts";
import type { RevivedKind, TypePlace, Walker } from "./walker.ts";

/** Types of the language and the host that have a meaning of their own: dates, bytes, boxed values, and what JSON lacks. */
export function walkLibraryType(type: ts.Type, place: TypePlace, walker: Walker): JsonSchema | undefined {
  const name = knownName(type, walker);
  if (name === undefined) return undefined;
  const revived = revivedTypes[name];
  if (revived) {
    const extra = walker.direction === "input" ? ownField(type, walker) : undefined;
    if (extra !== undefined) {
      const what = `${walker.checker.typeToString(type)} is a ${name} with a property of its own, ${extra}`;
      return walker.refuse(place, "unsupported-type", `${what}, which JSON cannot carry; put both in an object`);
    }
    if (walker.direction === "input") walker.revivals.add(revived.kind, place.reach);
    return { type: "string", format: revived.format };
  }
  const boxed = boxedTypes[name];
  if (boxed) return { type: boxed };
  if (byteTypes.has(name)) {
    if (walker.direction === "output") return { type: "string", contentEncoding: "base64" };
    return walker.refuse(
      place,
      "unsupported-type",
      `${name} holds bytes, which JSON cannot carry; use a base64 string`,
    );
  }
  const reason = walker.direction === "output" && contextTypes.has(name) ? "return plain data" : unsupported[name];
  if (reason === undefined) return undefined;
  return walker.refuse(place, "unsupported-type", `${name} cannot be represented in JSON; ${reason}`);
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
  return Object.hasOwn(unsupported, name) && !perhapsWritten.has(name);
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
  if (own !== undefined && (isKnown(own) || (levels === 0 && Object.hasOwn(boxedTypes, own)))) return own;
  if (levels >= basesMax || hasOwnJson(type, isLibrary)) return undefined;
  for (const base of type.isIntersection() ? type.types : basesOf(type, checker)) {
    const name = knownName(base, library, levels + 1);
    if (name !== undefined) return name;
  }
  return undefined;
}

const basesMax = 10;

function isKnown(name: string): boolean {
  return Object.hasOwn(revivedTypes, name) || byteTypes.has(name) || Object.hasOwn(unsupported, name);
}

function hasOwnJson(type: ts.Type, isLibrary: Library["isLibrary"]): boolean {
  const declaration = type.getProperty("toJSON")?.valueDeclaration;
  return declaration !== undefined && !isLibrary(declaration.getSourceFile());
}

function basesOf(type: ts.Type, checker: ts.TypeChecker): readonly ts.Type[] {
  const declared = (type as Partial<ts.TypeReference>).target ?? type;
  return declared.isClassOrInterface() ? checker.getBaseTypes(declared) : [];
}

/** An interface of the language that every array has: an argument of it is one. */
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

const revivedTypes: Readonly<Record<string, { kind: RevivedKind; format: string } | undefined>> = Object.assign(
  Object.create(null),
  { Date: { kind: "date", format: "date-time" }, URL: { kind: "url", format: "uri" } },
);

const boxedTypes: Readonly<Record<string, string | undefined>> = Object.assign(Object.create(null), {
  String: "string",
  Number: "number",
  Boolean: "boolean",
});

/** Written as base64 wherever they stand in a result. */
const byteTypes = new Set(["Uint8Array", "Buffer", "ArrayBuffer"]);

/** Read to their end when they are the whole result. */
const bodyTypes = new Set(["Blob", "File", "Response"]);

/** Types that the host hands to a function, which cannot return them. */
const contextTypes = new Set("ToolContext TransformContext AbortSignal AbortController".split(" "));

const unsupported: Readonly<Record<string, string>> = Object.assign(Object.create(null), {
  Map: "use a plain object, such as Record<string, T>",
  ReadonlyMap: "use a plain object, such as Record<string, T>",
  Set: "use an array",
  ReadonlySet: "use an array",
  WeakMap: "use a plain object",
  WeakSet: "use an array",
  WeakRef: "use the value itself",
  Promise: "await it first",
  PromiseLike: "await it first",
  RegExp: "use its source text",
  Function: "use plain data",
  Symbol: "use a string",
  BigInt: "use a number or a string",
  Error: "use its message",
  EvalError: "use its message",
  RangeError: "use its message",
  ReferenceError: "use its message",
  SyntaxError: "use its message",
  TypeError: "use its message",
  URIError: "use its message",
  AggregateError: "use its message",
  URLSearchParams: "use a string or a plain object",
  Headers: "use a plain object",
  Request: "use plain data",
  Response: "use its text or its data",
  Blob: "use a base64 string, or return it as the whole result",
  File: "use a base64 string, or return it as the whole result",
  SharedArrayBuffer: "use a base64 string",
  DataView: "use a base64 string",
  Uint8ClampedArray: "use an array of numbers",
  Int8Array: "use an array of numbers",
  Uint16Array: "use an array of numbers",
  Int16Array: "use an array of numbers",
  Uint32Array: "use an array of numbers",
  Int32Array: "use an array of numbers",
  Float32Array: "use an array of numbers",
  Float64Array: "use an array of numbers",
  BigInt64Array: "use an array of strings",
  BigUint64Array: "use an array of strings",
  FormData: "use a plain object",
  ReadableStream: "use its text or its bytes",
  CryptoKey: "use a JSON Web Key or its text",
  ToolContext: "the host passes it as the last parameter",
  TransformContext: "the host passes it as the last parameter",
  AbortSignal: "use context.signal",
  AbortController: "use context.signal",
  Iterator: "use an array",
  Iterable: "return an array",
  ArrayLike: "use an array",
  ConcatArray: "use an array",
  IterableIterator: "use an array",
  IteratorObject: "use an array",
  ArrayIterator: "use an array",
  MapIterator: "use an array",
  SetIterator: "use an array",
  StringIterator: "use an array",
  RegExpStringIterator: "use an array",
  Generator: "use an array",
  AsyncIterator: "use an array",
  AsyncIterable: "use an array",
  AsyncIterableIterator: "use an array",
  AsyncIteratorObject: "use an array",
  AsyncGenerator: "use an array",
});
