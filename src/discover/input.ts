import ts from "#typescript";
import type { JsonSchema } from "../lib/json.ts";
import { bindingsOf, pathKey } from "./bindings.ts";
import { BudgetExceeded, type Budget } from "./budget.ts";
import type { CallShape } from "./discovery.ts";
import { reportComment } from "./comment-faults.ts";
import { docOf, type Doc } from "./doc-comments.ts";
import type { Candidate, Parameter } from "./exports.ts";
import type { DefinitionProgram } from "./program.ts";
import { reportFault, summarize } from "./report-fault.ts";
import type { Reporter } from "./reporter.ts";
import { takenParameters } from "./taken.ts";
import { describe } from "./types/describe.ts";
import { Revivals } from "./types/revivals.ts";
import { isUnresolved, mayBeNothing } from "./types/kinds.ts";
import { walkObject } from "./types/object.ts";
import { Recursion } from "./types/recursion.ts";
import { sayUnresolved, unresolvedName } from "./types/unresolved.ts";
import { isLeftOut, unlessLeftOut } from "./types/left-out.ts";
import { createWalker, warnOfAny } from "./types/walk.ts";
import type { Fault, Path, TypePlace, Walker } from "./types/walker.ts";

export interface Input extends Pick<CallShape, "style" | "params"> {
  readonly schema: JsonSchema;
  readonly rest: boolean;
  readonly context: boolean;
  readonly dates: readonly Path[];
  readonly urls: readonly Path[];
  readonly spokenDefaults: readonly Path[];
  /** Where a property's header was named, by the name. */
  readonly headers: ReadonlyMap<string, ts.Node>;
}

/**
 * The arguments of a tool. A lone destructured parameter is the arguments object itself; otherwise each parameter is
 * an argument.
 */
export function readInput(candidate: Candidate, program: DefinitionProgram, budget: Budget, reporter: Reporter): Input {
  const { parameters, context } = takenParameters(candidate, program, reporter);
  const lone = parameters.length === 1 && isObjectPattern(parameters[0]!.pattern) ? parameters[0]! : undefined;

  const revivals = new Revivals();
  const recursion = new Recursion(revivals);
  const headers = new Map<string, ts.Node>();
  const spokenDefaults: Path[] = [];
  const walkerFor = (parameter: Parameter, bindings: ReturnType<typeof bindingsOf>, faults: Fault[]) =>
    createWalker({
      program,
      direction: "input",
      written: parameter.node !== undefined,
      budget,
      recursion,
      revivals,
      onHeader: (name, node) => headers.set(name, node),
      onSpokenDefault: (path) => spokenDefaults.push(path),
      docAt: (path) => docAt(candidate.doc, path, lone !== undefined) ?? docOfTaken(path, parameter, bindings),
      bindingAt: (path) => bindings.get(pathKey(path)),
      onFault: (fault) => faults.push(fault),
    });

  const names = new Set(parameters.map(({ name }) => name));
  /** `@param name` of a property of a parameter that is taken apart, beside others. */
  const docOfTaken = (path: Path, { pattern }: Parameter, bindings: ReturnType<typeof bindingsOf>): Doc | undefined => {
    const [property, ...inner] = path.slice(1);
    if (lone || property === undefined || !isObjectPattern(pattern)) return undefined;
    const variable = bindings.get(pathKey(path.slice(0, 2)))?.node.name.getText();
    const spoken = [property, variable].find(
      (name) => name !== undefined && !names.has(name) && candidate.doc.params.has(name),
    );
    return spoken === undefined ? undefined : candidate.doc.params.get([spoken, ...inner].join("."));
  };

  const early = parameters.slice(0, -1).find(({ isRest }) => isRest);
  if (early) {
    const message = `${early.name} takes any number of values before others, which arguments with names cannot give; put it last`;
    reporter.add("error", "unsupported-type", message, early.declaration ?? candidate.nameNode);
  }

  const properties: [string, JsonSchema][] = [];
  const required: string[] = [];
  let flat: JsonSchema | undefined;
  for (const parameter of parameters) {
    const node = parameter.declaration ?? candidate.nameNode;
    const start = lone ? [] : [parameter.name];
    const bindings = parameter.pattern ? bindingsOf(parameter.pattern, start, program.checker) : new Map();
    const faults: Fault[] = [];
    try {
      const walker = walkerFor(parameter, bindings, faults);
      if (reportUnresolved(parameter, node, program, reporter)) continue;
      if (lone) {
        flat = walkArguments(lone, walker);
        continue;
      }
      const isOptional = parameter.isOptional || mayBeNothing(parameter.type, program.checker);
      const at: TypePlace = { path: [parameter.name], level: 1, open: false, node: parameter.node };
      if (isLeftOut(parameter.type, isOptional, walker)) continue;
      // A function that takes any number of what JSON cannot carry is about nothing else.
      const canDoWithout = isOptional && !parameter.isRest;
      const described = unlessLeftOut(canDoWithout, at, walker, () => walkParameter(parameter, at, walker));
      if (!described) continue;
      properties.push([parameter.name, described]);
      if (!isOptional) required.push(parameter.name);
    } catch (error) {
      if (!(error instanceof BudgetExceeded)) throw error;
      reporter.add("error", error.code, `${error.message} (at ${parameter.name})`, node);
    } finally {
      for (const fault of summarize(faults)) reportFault(fault, node, lone !== undefined, bindings, reporter);
    }
  }

  const schema = recursion.finish(
    flat ?? {
      type: "object",
      properties: Object.fromEntries(properties),
      ...(required.length > 0 ? { required } : {}),
      additionalProperties: false,
    },
  );
  const { checker, isLibrary } = program;
  reportComment(candidate, { parameters, isFlat: lone !== undefined, checker, isLibrary }, reporter);
  return {
    style: lone ? "object" : "positional",
    params: lone ? Object.keys((schema["properties"] as object | undefined) ?? {}) : parameters.map(({ name }) => name),
    schema,
    rest: !lone && (parameters.at(-1)?.isRest ?? false),
    context,
    dates: revivals.paths("date"),
    urls: revivals.paths("url"),
    spokenDefaults,
    headers,
  };
}

function walkParameter(parameter: Parameter, at: TypePlace, walker: Walker): JsonSchema {
  const schema = walker.walk(parameter.type, at);
  const withDefault: Walker = parameter.initializer
    ? { ...walker, bindingAt: () => ({ initializer: parameter.initializer }) }
    : walker;
  const docs = parameter.declaration ? [docOf(parameter.declaration)] : [];
  return describe(schema, at, docs, withDefault, parameter.declaration);
}

/** The type of a lone destructured parameter as the schema of all arguments. */
function walkArguments(parameter: Parameter, walker: Walker): JsonSchema {
  const root: TypePlace = { path: [], level: 0, open: false, node: parameter.node };
  const { checker } = walker;
  let type = checker.getNonNullableType(parameter.type);
  const isParameter = type.flags & ts.TypeFlags.TypeParameter;
  if (isParameter) type = checker.getBaseConstraintOfType(type) ?? type;
  if (type.flags & ts.TypeFlags.Any) warnOfAny(root, walker);
  if (type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown)) return { type: "object" };
  if (
    type.isUnion() ||
    checker.isArrayLikeType(type) ||
    !(type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection))
  ) {
    const reason =
      "arguments that are taken apart must be of one object type, because clients take no union there; " +
      "give the parameter a name instead";
    return walker.refuse(root, "destructured-union", reason);
  }
  const schema = walkObject(type, { ...root, open: Boolean(isParameter) }, walker);
  return { ...schema, properties: schema["properties"] ?? {} };
}

/** `@param name` or `@param anything.name` when all arguments come in one object. */
function docAt(doc: Doc, path: Path, isFlat: boolean): Doc | undefined {
  const name = path.join(".");
  if (!isFlat) return doc.params.get(name);
  for (const [key, value] of doc.params) {
    const dot = key.indexOf(".");
    if (dot >= 0 && key.slice(dot + 1) === name) return value;
  }
  return doc.params.get(name);
}

/** True when the parameter's type leads nowhere, which has then been said. */
function reportUnresolved(
  parameter: Parameter,
  node: ts.Node,
  { checker, isLibrary }: DefinitionProgram,
  reporter: Reporter,
): boolean {
  const missing = unresolvedName(parameter.node, { checker, isLibrary, direction: "input" });
  if (!missing && !(parameter.node && isUnresolved(parameter.type))) return false;
  const detail =
    missing?.module === undefined ? reporter.diagnosticWithin(missing?.complaint ?? parameter.node!) : undefined;
  const what = missing ? sayUnresolved(missing) : "the type cannot be found";
  reporter.add("error", "unresolved-type", `${what}${detail ? `: ${detail}` : ""} (at ${parameter.name})`, node);
  return true;
}

function isObjectPattern(pattern: ts.BindingPattern | undefined): boolean {
  return pattern !== undefined && ts.isObjectBindingPattern(pattern);
}
