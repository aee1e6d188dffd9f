import ts from "#typescript";
import type { JsonSchema } from "../../../lib/json.ts";
import type { DefinitionProgram } from "../program.ts";
import { isFunction, libraryName } from "./kinds.ts";
import type { RevivedKind, TypePlace, Walker } from "./walker.ts";

/** Library types that need special treatment: dates, bytes, boxed values, and types that JSON cannot represent. */
export function walkLibraryType(type: ts.Type, place: TypePlace, walker: Walker): JsonSchema | undefined {
  const name = resolveLibraryName(type, walker);
  if (name === undefined) return undefined;
  const refuse = (reason: string): JsonSchema => walker.refuse(place, "unsupported-type", reason);
  const revived = revivedTypes.get(name);
  if (revived) {
    const extra = walker.direction === "input" ? addedField(type, walker) : undefined;
    if (extra !== undefined) {
      const subject = `${walker.checker.typeToString(type)} is a ${name} with a property of its own, ${extra}`;
      return refuse(`${subject}, which JSON cannot represent; put both in an object`);
    }
    if (walker.direction === "input") walker.revivals.add(revived.kind, place.reach);
    return { type: "string", format: revived.format };
  }
  const boxed = boxedTypes.get(name);
  if (boxed) return { type: boxed };
  if (byteTypes.has(name)) {
    if (walker.direction === "output") return { type: "string", contentEncoding: "base64" };
    return refuse(`${name} contains bytes, which JSON cannot represent; use a base64 string`);
  }
  const reason = walker.direction === "output" && contextTypes.has(name) ? "return plain data" : unsupported.get(name);
  return reason === undefined ? undefined : refuse(`${name} cannot be represented in JSON; ${reason}`);
}

/** A required property that an interface or class adds to the library type that it extends. */
export function addedField(type: ts.Type, library: Library): string | undefined {
  if (type.isIntersection()) return undefined;
  const bases = baseTypes(type, library.checker);
  const own = library.checker.getPropertiesOfType(type).find((property) => {
    const { flags, valueDeclaration } = property;
    if (flags & ts.SymbolFlags.Optional || !valueDeclaration) return false;
    return (
      !library.isLibrary(valueDeclaration.getSourceFile()) && !bases.some((base) => declares(base, property, library))
    );
  });
  return own?.name;
}

/** True if a library type has the property itself: with the same values, or as a method. */
function declares(base: ts.Type, property: ts.Symbol, { checker, isLibrary }: Library): boolean {
  const inherited = base.getProperty(property.name);
  if (!inherited?.declarations?.some((declaration) => isLibrary(declaration.getSourceFile()))) return false;
  const type = checker.getTypeOfSymbol(inherited);
  return isFunction(type) || checker.isTypeAssignableTo(type, checker.getTypeOfSymbol(property));
}

/** Types that the host treats as bytes when they are the whole result. */
export function isBytes(type: ts.Type, library: Library): boolean {
  const name = resolveLibraryName(type, library) ?? "";
  return byteTypes.has(name) || bodyTypes.has(name);
}

/** A type that fails as part of a result. Members of type `Function` and `Symbol` are left out instead. */
export function cannotBeSerialized(type: ts.Type, isLibrary: Library["isLibrary"]): boolean {
  const name = libraryName(type, isLibrary) ?? "";
  return unsupported.has(name) && !possiblyPlain.has(name);
}

/** Plain objects and lists can also have these types. */
const possiblyPlain = new Set(
  (
    "Function Symbol ToolContext TransformContext PromiseLike Iterable ArrayLike ConcatArray Iterator IterableIterator IteratorObject " +
    "AsyncIterable AsyncIterator AsyncIterableIterator AsyncIteratorObject"
  ).split(" "),
);

/** A `Blob` or a `Response`: a union with one cannot promise a schema for its other members either. */
export function isBody(type: ts.Type, library: Library): boolean {
  return bodyTypes.has(resolveLibraryName(type, library) ?? "");
}

type Library = Pick<DefinitionProgram, "checker" | "isLibrary">;

/**
 * The name of the library type that determines the JSON form of a type: the type itself, its branded type (`Date & {
 * __brand: "utc" }`), or the base of a class or interface. A `toJSON` of the author takes precedence.
 */
function resolveLibraryName(type: ts.Type, library: Library, levels = 0): string | undefined {
  const { checker, isLibrary } = library;
  const own = libraryName(type, isLibrary);
  if (own !== undefined && (isSpecial(own) || (levels === 0 && boxedTypes.has(own)))) return own;
  if (levels >= basesMax || hasOwnJson(type, isLibrary)) return undefined;
  for (const base of type.isIntersection() ? type.types : baseTypes(type, checker)) {
    const name = resolveLibraryName(base, library, levels + 1);
    if (name !== undefined) return name;
  }
  return undefined;
}

const basesMax = 10;

function isSpecial(name: string): boolean {
  return revivedTypes.has(name) || byteTypes.has(name) || unsupported.has(name);
}

function hasOwnJson(type: ts.Type, isLibrary: Library["isLibrary"]): boolean {
  const declaration = type.getProperty("toJSON")?.valueDeclaration;
  return declaration !== undefined && !isLibrary(declaration.getSourceFile());
}

function baseTypes(type: ts.Type, checker: ts.TypeChecker): readonly ts.Type[] {
  const declared = (type as Partial<ts.TypeReference>).target ?? type;
  return declared.isClassOrInterface() ? checker.getBaseTypes(declared) : [];
}

/** Built-in interfaces that arrays implement, such as `Iterable`: accept an array. */
export function isInterfaceOfArrays(type: ts.Type, isLibrary: (file: ts.SourceFile) => boolean): boolean {
  return interfacesOfArrays.has(libraryName(type, isLibrary) ?? "");
}

/** A type whose values the host serializes as a list when they are the whole result. */
export function isSerializedAsList(type: ts.Type, isLibrary: (file: ts.SourceFile) => boolean): boolean {
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

/** Serialized as base64 anywhere in a result. */
const byteTypes = new Set(["Uint8Array", "Buffer", "ArrayBuffer"]);

/** Read to the end when they are the whole result. */
const bodyTypes = new Set(["Blob", "File", "Response"]);

/** Types that the host passes to a function, which cannot return them. */
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
