import ts from "#typescript";
import type { JsonSchema } from "../../../lib/json.ts";
import type { ParsedArgument } from "../../discovery.ts";
import { constrain } from "../../tags/tags.ts";
import type { DefinitionProgram } from "../program.ts";
import type { SchemaSources } from "../schema-sources.ts";
import { resolveList, findMappedList, walkArray, walkArraySubtype, walkMappedList, walkTuple } from "./array.ts";
import { warnAboutTags } from "./describe.ts";
import { mergeInferredSchema, callerType } from "./inferred.ts";
import {
  isFunction,
  isUndefinedOrVoid,
  isNull,
  isGeneric,
  isUnresolved,
  schemaKey,
  libraryName,
  typeName,
} from "./kinds.ts";
import { isInterfaceOfArrays, walkLibraryType } from "./library-types.ts";
import { walkAnyObject, explainNonData, walkObject } from "./object.ts";
import { walkTemplate, walkTemplates } from "./template.ts";
import { literalSchema, literalValue, walkUnion } from "./union.ts";
import { explainUnresolved, unresolvedName } from "./unresolved.ts";
import { Revivals, Recursion, type Fault, type TypePlace, type Walker } from "./walker.ts";
import { aliasDocs } from "./written-types.ts";

/** Converts types to JSON Schema 2020-12. Knows no tools or parameters. Throws only `BudgetExceeded`. */
export interface WalkOptions
  extends
    Pick<Walker, "direction" | "isExplicit" | "budget">,
    Partial<Pick<Walker, "docAt" | "bindingAt" | "noteHeader" | "noteDocumentedDefault" | "recursion" | "revivals">> {
  readonly program: Pick<DefinitionProgram, "checker" | "isLibrary">;
  readonly onFault: (fault: Fault) => void;
  readonly schemas?: SchemaSources | undefined;
  /** Called for a value to be parsed by the schema from which its type is inferred. */
  readonly onParsed?: (parsed: ParsedArgument) => void;
}

const ignore = (): undefined => undefined;

export function createWalker(options: WalkOptions): Walker {
  const { onFault, budget } = options;
  const { checker, isLibrary } = options.program;
  const revivals = options.revivals ?? new Revivals();
  const recursion = options.recursion ?? new Recursion(revivals);
  /** The faults of the current attempt. */
  let pendingFaults: Fault[] | undefined;
  let isInferred = false;
  const report = (fault: Fault): void => {
    if (pendingFaults) pendingFaults.push(fault);
    else onFault(fault);
  };
  /** Returns the faults of `build` instead of reporting them. */
  const collectFaults = <T>(build: () => T): { readonly value: T; readonly faults: readonly Fault[] } => {
    const outer = pendingFaults;
    const faults: Fault[] = (pendingFaults = []);
    try {
      return { value: build(), faults };
    } finally {
      pendingFaults = outer;
    }
  };
  const walker: Walker = {
    docAt: ignore,
    bindingAt: ignore,
    noteHeader: ignore,
    noteDocumentedDefault: ignore,
    ...options,
    checker,
    isLibrary,
    revivals,
    recursion,
    walk(type, place) {
      budget.spendNode(place.level);
      const schema = walker.inferred(type, place, (it) => walkKind(it, place, walker));
      const docs = aliasDocs(place.node, type, checker).toReversed();
      const tags = docs.flatMap((doc) => doc.tags);
      warnAboutTags(tags, place, walker);
      return constrain(schema, tags, (fault) => {
        if (fault.code === "pattern-unusable") walker.refuse(place, fault.code, fault.message, fault.tag.node);
        if (fault.code === "constraint-malformed") walker.warn(place, fault.code, fault.message, fault.tag.node);
      });
    },
    inferred(type, place, build) {
      const inferred = isInferred ? undefined : options.schemas?.lookUp(type, place.node);
      if (!inferred) return build(type);
      const undo = recursion.mark();
      isInferred = true;
      try {
        const { value: typed, faults } = collectFaults(() => build(callerType(inferred, type, place, walker)));
        return mergeInferredSchema(inferred, typed, place, walker, { ...options, undo, faults }) ?? typed;
      } finally {
        isInferred = false;
      }
    },
    refuse(place, code, reason, node) {
      report({ severity: "error", code, message: reason, path: place.path, node });
      return {};
    },
    attempt(build) {
      const undoSteps = [recursion.mark(), revivals.mark()];
      const { value, faults } = collectFaults(build);
      const errors = faults.filter(({ severity }) => severity === "error");
      const [fault] = errors;
      // What is misspelled or malformed must be fixed by the author, wherever it is.
      if (fault && errors.every(({ code }) => code === "unsupported-type")) {
        for (const item of undoSteps) item();
        return { fault };
      }
      for (const item of faults) report(item);
      return { value };
    },
    leaveOut(leftOut, fault) {
      report({ ...fault, severity: "warning", code: "argument-left-out", leftOut });
    },
    report,
    warn(place, code, message, node) {
      // For a library type, the author's line is the one that names it.
      const own = node && isLibrary(node.getSourceFile()) ? undefined : node;
      report({ severity: "warning", code, message, path: place.path, node: own });
    },
  };
  return walker;
}

function walkKind(type: ts.Type, place: TypePlace, walker: Walker): JsonSchema {
  const { checker } = walker;
  const { TypeFlags } = ts;
  const is = (flags: ts.TypeFlags) => Boolean(type.flags & flags);

  if (isUnresolved(type)) {
    return walker.isExplicit ? walker.refuse(place, "unresolved-type", "the type cannot be found", place.node) : {};
  }
  if (is(TypeFlags.Any)) warnAboutAny(place, walker);
  if (is(TypeFlags.Any | TypeFlags.Unknown)) return {};
  if (is(templateLike)) return walkTemplate(type);
  if (isGeneric(type)) return walkOpenEnded(type, place, walker);
  if (is(TypeFlags.Boolean)) return { type: "boolean" };
  const literal = literalValue(type, checker);
  if (literal !== undefined) return literalSchema(literal);
  if (is(TypeFlags.String)) return { type: "string" };
  if (is(TypeFlags.Number | TypeFlags.Enum) && !type.isUnion()) return { type: "number" };
  if (isNull(type)) return { type: "null" };
  const anyObject = walkAnyObject(type, place, walker);
  if (anyObject) return anyObject;
  const sole = type.isUnion() ? soleValue(type) : undefined;
  if (sole) return walkKind(sole, place, walker);
  if (type.isUnion() && isKnownExceptNull(type, place, walker)) {
    const reference = walker.recursion.enter(recursionKey(type, place, isNull), "", place.reach, () => ({}));
    return { anyOf: [reference, { type: "null" }] };
  }
  if (type.isUnion()) return recursively(type, place, walker, () => walkUnion(type, place, walker));
  if (isUndefinedOrVoid(type)) return unsupported(place, walker, "JSON has no undefined; use null");
  if (is(TypeFlags.Never)) return unsupported(place, walker, "no value has the type never");
  if (is(TypeFlags.BigIntLike)) return unsupported(place, walker, "JSON has no bigint; use a number or a string");
  if (is(TypeFlags.ESSymbolLike)) return unsupported(place, walker, "JSON has no symbol; use a string");
  return walkObjectKind(type, place, walker);
}

/** A type that accepts anything is allowed if it is intended, but then it is `unknown`. */
export function warnAboutAny(place: TypePlace, walker: Walker): void {
  if (walker.direction === "output") return;
  const reason = walker.isExplicit ? "the type any accepts anything" : "without a type it accepts anything";
  walker.warn(place, "any-accepted", `${reason}: write the type, or unknown if you mean anything`, place.node);
}

function walkObjectKind(type: ts.Type, place: TypePlace, walker: Walker): JsonSchema {
  const { checker, direction } = walker;
  const enter = (build: () => JsonSchema): JsonSchema => recursively(type, place, walker, build);
  if (type.isIntersection()) {
    // A primitive with a brand is the primitive; an array with extra members is the array.
    const carrier = type.types.find((member) => !(member.flags & objectLike) || checker.isArrayLikeType(member));
    if (carrier) {
      const templates = type.types.filter(({ flags }) => flags & templateLike);
      if (templates.length > 1) return walkTemplates(templates);
      warnAboutMembers(type, carrier, place, walker);
      return walker.walk(carrier, { ...place, node: undefined });
    }
    if (type.types.some(isGeneric)) return walkIntersectedParameter(type, place, walker);
  }
  if (walker.direction === "input" && isInterfaceOfArrays(type, walker.isLibrary))
    return enter(() => walkArray(type as ts.TypeReference, place, walker));
  const isOwn = libraryName(type, walker.isLibrary) === undefined;
  const reason = isOwn && direction === "input" ? explainNonData(type, walker) : undefined;
  if (reason) return unsupported(place, walker, reason);
  const librarySchema = walkLibraryType(type, place, walker);
  if (librarySchema) return librarySchema;
  if (checker.isTupleType(type)) return enter(() => walkTuple(type as ts.TupleTypeReference, place, walker));
  if (checker.isArrayType(type)) return enter(() => walkArray(type as ts.TypeReference, place, walker));
  const list = resolveList(type, checker);
  if (list) return walker.walk(list, { ...place, level: place.level + 1, node: undefined });
  const mapped = findMappedList(type, checker);
  if (mapped) return enter(() => walkMappedList(type, mapped, place, walker));
  const isOwnJson = direction === "output" && jsonForm(type, checker) !== undefined;
  if (checker.isArrayLikeType(type) && !isOwnJson) return enter(() => walkArraySubtype(type, place, walker));
  if (isFunction(type)) {
    const text = checker.typeToString(type);
    const suggestion =
      direction === "output"
        ? "; call it, and return its result"
        : "; leave it out, and return what would be passed to it";
    return unsupported(place, walker, `this is a function, which JSON cannot represent: ${text}${suggestion}`);
  }
  const serialized = walker.direction === "output" ? jsonForm(type, checker) : undefined;
  if (serialized) return walker.walk(serialized, { ...place, level: place.level + 1, node: undefined });
  return enter(() => walkObject(type, place, walker));
}

/** A list in JSON has no members of its own. Members that only brand a type are never read. */
function warnAboutMembers(type: ts.IntersectionType, carrier: ts.Type, place: TypePlace, walker: Walker): void {
  const { checker, direction } = walker;
  if (direction === "output" || !checker.isArrayLikeType(carrier)) return;
  const members = type.types.filter((part) => part !== carrier && !checker.isArrayLikeType(part));
  const names = members
    .flatMap((part) => checker.getPropertiesOfType(part))
    .filter(({ flags, name }) => !(flags & ts.SymbolFlags.Optional) && !BRAND.test(name))
    .map(({ name }) => `"${name}"`);
  if (names.length === 0) return;
  const explanation = `a list cannot have ${names.slice(0, NAMES_SHOWN).join(", ")} in JSON, so callers pass only the list`;
  walker.warn(place, "list-members", `${explanation}: use an object that contains the list`, place.node);
}

/** Common names of brands: `__brand`, `_tag`, a unique symbol. */
const BRAND = /^_|brand|^tag$/i;
const NAMES_SHOWN = 3;

const templateLike = ts.TypeFlags.TemplateLiteral | ts.TypeFlags.StringMapping;

const objectLike =
  ts.TypeFlags.Object | ts.TypeFlags.Intersection | (ts.TypeFlags.Instantiable & ~ts.TypeFlags.TemplateLiteral);

/** The argument for a type parameter satisfies its constraint, but may have more properties than the constraint. */
function walkOpenEnded(type: ts.Type, place: TypePlace, walker: Walker): JsonSchema {
  // `keyof T`: the caller's object may have more keys than the constraint of T names.
  if (type.flags & ts.TypeFlags.Index) return { type: ["string", "number"] };
  const declared = type.symbol?.declarations?.find(ts.isTypeParameterDeclaration)?.constraint;
  const missing = walker.isExplicit ? unresolvedName(declared, walker) : undefined;
  if (missing) return walker.refuse(place, "unresolved-type", explainUnresolved(missing), declared);
  const constraint = walker.checker.getBaseConstraintOfType(type);
  if (!constraint || constraint === type) return {};
  return walker.walk(constraint, { ...place, open: true, node: declared });
}

function walkIntersectedParameter(type: ts.Type, place: TypePlace, walker: Walker): JsonSchema {
  const constraint = walker.checker.getBaseConstraintOfType(type) ?? type;
  const at: TypePlace = { ...place, open: true, node: undefined };
  return walkAnyObject(constraint, at, walker) ?? walkObject(constraint, at, walker);
}

function recursively(type: ts.Type, place: TypePlace, walker: Walker, build: () => JsonSchema): JsonSchema {
  return walker.recursion.enter(recursionKey(type, place), suggestedName(type, place), place.reach, build);
}

/** A name for `$defs`. A union with null or undefined loses its alias, which may still be in the source. */
function suggestedName(type: ts.Type, { node }: TypePlace): string {
  const parts = node && ts.isUnionTypeNode(node) ? node.types : [node];
  const reference = parts.find((part) => part && ts.isTypeReferenceNode(part) && ts.isIdentifier(part.typeName));
  return typeName(type) ?? (reference as ts.TypeReferenceNode | undefined)?.typeName.getText() ?? "Type";
}

function recursionKey(type: ts.Type, place: TypePlace, without?: (member: ts.Type) => boolean): string {
  return `${place.open ? "open" : "closed"}:${schemaKey(type, without)}`;
}

/** `Tree | null` inside of `Tree`, if `Tree` is a union whose members are now in a union with null. */
function isKnownExceptNull(type: ts.UnionType, place: TypePlace, walker: Walker): boolean {
  return type.types.some(isNull) && walker.recursion.isKnown(recursionKey(type, place, isNull));
}

/** The `T` in `T | undefined`. */
function soleValue(type: ts.UnionType): ts.Type | undefined {
  const values = type.types.filter((member) => !isUndefinedOrVoid(member));
  return values.length === 1 ? values[0] : undefined;
}

/** The type that `JSON.stringify` writes for an object with a `toJSON`. */
function jsonForm(type: ts.Type, checker: ts.TypeChecker): ts.Type | undefined {
  const method = type.getProperty("toJSON");
  const signature = method && checker.getTypeOfSymbol(method).getCallSignatures()[0];
  return signature?.getReturnType();
}

function unsupported(place: TypePlace, walker: Walker, reason: string): JsonSchema {
  return walker.refuse(place, "unsupported-type", reason);
}
