import { parse } from "@humanwhocodes/momoa";
import ts from "#typescript";
import { isObject, type JsonSchema } from "../../lib/json.ts";
import { nearestName } from "../../lib/near-names.ts";
import type { BundledValue, CallShape, DescribedSchema, ParsedArgument, Reach } from "../discovery.ts";
import { isReadAt, explainUnknownTag } from "../tags/tags.ts";
import { BudgetExceeded } from "./budget.ts";
import type { Candidate, Parameter, ReadContext, ToolObject } from "./candidate.ts";
import { readDoc, findTag, type Doc, type DocTag } from "./doc-comments.ts";
import { evaluate } from "./evaluate.ts";
import { listParameters, callerParameters, bindsProperty } from "./parameters.ts";
import { reportFault, summarize } from "./report-fault.ts";
import { textPart, Reporter, type DefinitionPart } from "./reporter.ts";
import { findSchemaFault } from "./schema-check.ts";
import { findDefaults, embedSchema, leavesOpen, mergeSchemas, propertiesIn } from "./schema-merge.ts";
import { schemaType, type SchemaSource, type SchemaSources } from "./schema-sources.ts";
import { describe } from "./types/describe.ts";
import { isObjectLike, isUnresolved, mayBeUndefined } from "./types/kinds.ts";
import { walkObject, isOmitted, buildUnlessOmitted } from "./types/object.ts";
import { httpFramework, explainUnresolved, unresolvedName } from "./types/unresolved.ts";
import { createWalker, warnAboutAny } from "./types/walk.ts";
import {
  Revivals,
  toPath,
  pathKey,
  Recursion,
  within,
  type Fault,
  type Path,
  type TypePlace,
  type Walker,
  type Binding,
} from "./types/walker.ts";

export interface Input extends Pick<CallShape, "style" | "params"> {
  readonly schema: JsonSchema;
  readonly rest: boolean;
  readonly context: boolean;
  readonly dates: readonly Reach[];
  readonly urls: readonly Reach[];
  readonly spokenDefaults: readonly Path[];
  readonly parsed: readonly ParsedArgument[];
  /** The node that names a property's header, by header name. */
  readonly headers: ReadonlyMap<string, ts.Node>;
}

/** The input of a function without arguments. */
export const plainInput: Input = {
  schema: { type: "object" },
  style: "positional",
  params: [],
  rest: false,
  context: false,
  dates: [],
  urls: [],
  spokenDefaults: [],
  parsed: [],
  headers: new Map(),
};

/** The arguments of a tool: one per parameter, or the properties of a single destructured parameter. */
export function readInput(candidate: Candidate, reading: ReadContext): Input {
  const { program, budget, reporter, schemas } = reading;
  const { parameters, context } = callerParameters(candidate, reading);
  const lone = parameters.length === 1 && isObjectPattern(parameters[0]!.pattern) ? parameters[0]! : undefined;

  const revivals = new Revivals();
  const recursion = new Recursion(revivals);
  const headers = new Map<string, ts.Node>();
  const spokenDefaults: Path[] = [];
  const parsed: ParsedArgument[] = [];
  const createParameterWalker = (parameter: Parameter, bindings: ReturnType<typeof collectBindings>, faults: Fault[]) =>
    createWalker({
      program,
      direction: "input",
      isExplicit: parameter.node !== undefined,
      budget,
      recursion,
      revivals,
      schemas,
      onParsed: (argument) => parsed.push(argument),
      noteHeader: (name, node) => headers.set(name, node),
      noteDocumentedDefault: (path) => spokenDefaults.push(path),
      docAt: (path) => docAt(candidate.doc, path, lone !== undefined) ?? destructuredDoc(path, parameter, bindings),
      bindingAt: (path) => bindings.get(pathKey(path)),
      onFault: (fault) => faults.push(fault),
    });

  const names = new Set(parameters.map(({ name }) => name));
  /** `@param name` for a property of a destructured parameter that is not the only one. */
  const destructuredDoc = (
    path: Path,
    { pattern }: Parameter,
    bindings: ReturnType<typeof collectBindings>,
  ): Doc | undefined => {
    const [property, ...inner] = path.slice(1);
    if (lone || property === undefined || !isObjectPattern(pattern)) return undefined;
    const variable = bindings.get(pathKey(path.slice(0, 2)))?.node.name.getText();
    const documentedName = [property, variable].find(
      (name) => name !== undefined && !names.has(name) && candidate.doc.params.has(name),
    );
    return documentedName === undefined ? undefined : candidate.doc.params.get([documentedName, ...inner].join("."));
  };

  const misplacedRest = parameters.slice(0, -1).find(({ isRest }) => isRest);
  if (misplacedRest) {
    const message = `${misplacedRest.name} takes any number of values before others, which named arguments cannot express; put it last`;
    reporter.add("error", "unsupported-type", message, misplacedRest.declaration ?? candidate.nameNode);
  }

  const properties: [string, JsonSchema][] = [];
  const required: string[] = [];
  let loneSchema: JsonSchema | undefined;
  for (const parameter of parameters) {
    const node = parameter.declaration ?? candidate.nameNode;
    const start = lone ? [] : [parameter.name];
    const bindings = parameter.pattern ? collectBindings(parameter.pattern, start, program.checker) : new Map();
    const faults: Fault[] = [];
    try {
      const walker = createParameterWalker(parameter, bindings, faults);
      if (reportUnresolved(parameter, node, reading)) continue;
      if (lone) {
        loneSchema = walkArguments(lone, walker);
        continue;
      }
      const isOptional = parameter.isOptional || mayBeUndefined(parameter.type, program.checker);
      const at: TypePlace = within(argumentsRoot, parameter.name, parameter.node);
      if (isOmitted(parameter.type, isOptional, walker)) continue;
      // A rest parameter that JSON cannot represent is never left out: without it, the function makes no sense.
      const mayBeOmitted = isOptional && !parameter.isRest;
      const described = buildUnlessOmitted(mayBeOmitted, at, walker, () => walkParameter(parameter, at, walker));
      if (!described) continue;
      properties.push([parameter.name, described]);
      const isFilledBySchema = parsed.some(
        ({ at: [name, ...inner], absent }) => absent && name === parameter.name && !inner[0],
      );
      if (!isOptional && !isFilledBySchema) required.push(parameter.name);
    } catch (error) {
      if (!(error instanceof BudgetExceeded)) throw error;
      reporter.add("error", error.code, `${error.message} (at ${parameter.name})`, node);
    } finally {
      for (const fault of summarize(faults)) reportFault(fault, node, lone !== undefined, bindings, reporter);
    }
  }

  const schema = recursion.finish(
    loneSchema ?? {
      type: "object",
      properties: Object.fromEntries(properties),
      ...(required.length > 0 ? { required } : {}),
      additionalProperties: false,
    },
  );
  const { checker } = program;
  const isForeign = (file: ts.SourceFile): boolean => program.isLibrary(file) || program.isPackageFile(file);
  reportComment(candidate, { parameters, isFlat: lone !== undefined, checker, isForeign }, reporter);
  return {
    ...assignParams(parameters, Object.keys(propertiesIn(schema)), lone !== undefined),
    schema,
    rest: !lone && (parameters.at(-1)?.isRest ?? false),
    context,
    dates: revivals.paths("date"),
    urls: revivals.paths("url"),
    spokenDefaults,
    // A recursive type that is parsed as a whole is parsed once.
    parsed: parsed.flatMap((argument) =>
      revivals.repeated([argument.at], argument.at.length).map((at) => Object.assign({}, argument, { at })),
    ),
    headers,
  };
}

const argumentsRoot: TypePlace = { path: [], reach: [], level: 0, open: false };

function walkParameter(parameter: Parameter, at: TypePlace, walker: Walker): JsonSchema {
  const schema = walker.walk(parameter.type, at);
  const withDefault: Walker = parameter.initializer
    ? { ...walker, bindingAt: () => ({ initializer: parameter.initializer }) }
    : walker;
  const docs = parameter.declaration ? [readDoc(parameter.declaration)] : [];
  return describe(schema, at, docs, withDefault, parameter.declaration);
}

/** The type of a single destructured parameter as the schema of all arguments. */
function walkArguments(parameter: Parameter, walker: Walker): JsonSchema {
  const root: TypePlace = { ...argumentsRoot, node: parameter.node };
  const { checker } = walker;
  let type = checker.getNonNullableType(parameter.type);
  const isParameter = type.flags & ts.TypeFlags.TypeParameter;
  if (isParameter) type = checker.getBaseConstraintOfType(type) ?? type;
  if (type.flags & ts.TypeFlags.Any) warnAboutAny(root, walker);
  if (type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown)) return { type: "object" };
  if (type.isUnion() || checker.isArrayLikeType(type) || !isObjectLike(type)) {
    const reason =
      "destructured arguments must have one object type, because clients accept no union there; " +
      "give the parameter a name instead";
    return walker.refuse(root, "destructured-union", reason);
  }
  const schema = walker.inferred(parameter.type, root, (it) =>
    walkObject(it, { ...root, open: Boolean(isParameter) }, walker),
  );
  return { ...schema, properties: schema["properties"] ?? {} };
}

/** `@param name` or `@param anything.name` if all arguments are in one object. */
function docAt(doc: Doc, path: Path, isFlat: boolean): Doc | undefined {
  const name = path.join(".");
  if (!isFlat) return doc.params.get(name);
  for (const [key, value] of doc.params) {
    const dot = key.indexOf(".");
    if (dot >= 0 && key.slice(dot + 1) === name) return value;
  }
  return doc.params.get(name);
}

/** True if the parameter's type cannot be resolved; reports the problem. */
function reportUnresolved(parameter: Parameter, node: ts.Node, { program, reporter }: ReadContext): boolean {
  const framework = httpFramework(parameter.node);
  if (framework !== undefined) {
    const message = `a tool receives its arguments, not a request or response of ${framework}: declare what it needs as parameters, as in (city: string), and return the result (at ${parameter.name})`;
    reporter.add("error", "http-handler", message, node);
    return true;
  }
  const missing = unresolvedName(parameter.node, { ...program, direction: "input" });
  if (!missing && !(parameter.node && isUnresolved(parameter.type))) return false;
  const detail =
    missing?.module === undefined && missing?.instead === undefined
      ? reporter.diagnosticWithin(missing?.complaint ?? parameter.node!)
      : undefined;
  const reason = missing ? explainUnresolved(missing) : "the type cannot be found";
  reporter.add("error", "unresolved-type", `${reason}${detail ? `: ${detail}` : ""} (at ${parameter.name})`, node);
  return true;
}

function isObjectPattern(pattern: ts.BindingPattern | undefined): boolean {
  return pattern !== undefined && ts.isObjectBindingPattern(pattern);
}

/** The defaults in a destructuring pattern, by the paths of its properties: `{ retry: { attempts = 2 } }`. */
function collectBindings(
  pattern: ts.BindingPattern,
  start: Path,
  checker: ts.TypeChecker,
  bindings = new Map<string, Binding & { node: ts.BindingElement }>(),
): ReadonlyMap<string, Binding & { node: ts.BindingElement }> {
  if (!ts.isObjectBindingPattern(pattern)) return bindings;
  for (const element of pattern.elements) {
    if (element.dotDotDotToken) continue;
    const name = propertyName(element, checker);
    if (name === undefined) continue;
    const path = [...start, name];
    bindings.set(pathKey(path), { initializer: element.initializer, node: element });
    if (!ts.isIdentifier(element.name)) collectBindings(element.name, path, checker, bindings);
  }
  return bindings;
}

function propertyName(element: ts.BindingElement, checker: ts.TypeChecker): string | undefined {
  const name = element.propertyName ?? element.name;
  if (ts.isComputedPropertyName(name)) {
    const value = evaluate(name.expression, checker);
    return typeof value === "string" ? value : undefined;
  }
  return "text" in name ? name.text : undefined;
}

/**
 * `@inputSchema {…}`: the arguments of a tool as the author's own JSON Schema, which takes precedence over the types. A
 * single parameter whose name is not a property of the schema receives all arguments as one object.
 */
export function readExplicitInput(candidate: Candidate, reading: ReadContext): Input | undefined {
  const { reporter } = reading;
  const tag = findTag(candidate.doc, "inputschema");
  if (!tag) return undefined;
  const schema = readSchema(tag, reporter);
  const properties = Object.keys(propertiesIn(schema));
  const { parameters, context } = callerParameters(candidate, reading);
  const isWhole = receivesWhole(parameters, properties);
  for (const { name, declaration } of isWhole ? [] : parameters) {
    if (properties.includes(name) || reporter.hasErrors) continue;
    const message = `the schema in @inputSchema has no property "${name}", so it never gets a value`;
    reporter.add("warning", "unnamed-argument", message, declaration ?? candidate.nameNode);
  }
  const rest = !isWhole && (parameters.at(-1)?.isRest ?? false);
  return { ...plainInput, schema, ...assignParams(parameters, properties, isWhole), rest, context };
}

/** True for a single parameter whose name is not a property: it receives the whole object. */
function receivesWhole([first, ...others]: readonly Parameter[], properties: readonly string[]): boolean {
  const isLone = first !== undefined && others.length === 0 && !first.isRest;
  return isLone && (first.pattern !== undefined || !properties.includes(first.name));
}

function assignParams(
  parameters: readonly Parameter[],
  properties: readonly string[],
  isWhole: boolean,
): Pick<Input, "style" | "params"> {
  return isWhole
    ? { style: "object", params: properties }
    : { style: "positional", params: parameters.map(({ name }) => name) };
}

type SchemaReading = ReadContext & { readonly schemas: SchemaSources };

/** `@schema S`: a schema describes the arguments of a tool, and parses them before the function receives them. */
export function readNamedInput(candidate: Candidate, reading: SchemaReading): Input | undefined {
  const { program, reporter, schemas } = reading;
  const { checker } = program;
  const tag = findTag(candidate.doc, "schema");
  const moduleInput = candidate.module?.input;
  const fault = (message: string): undefined => {
    if (tag) reporter.addAtTag("error", "invalid-schema", `@schema ${tag.text} ${message}`, tag);
    else reporter.add("error", "invalid-schema", `the export schema ${message}`, candidate.nameNode);
  };
  if (!tag) return moduleInput && inputBySchema(moduleInput, candidate, reading, { fault, isWhole: true });
  const source = schemas.inScope(tag.text, candidate.implementation ?? candidate.nameNode);
  if (!source)
    return fault("is not a constant at the top level of a file: write the name of a schema, as in @schema User");
  const parsedType = schemaType(source, "output", checker);
  const { parameters } = callerParameters(candidate, withoutReports(candidate, reading));
  const [first, ...others] = parameters;
  const isWhole = Boolean(
    first && others.length === 0 && parsedType && checker.isTypeAssignableTo(parsedType, first.type),
  );
  const input = inputBySchema(source, candidate, reading, { fault, isWhole });
  for (const { name, type, isOptional } of parsedType && !reporter.hasErrors ? parameters : []) {
    const property = parsedType!.getProperty(name);
    const part = input?.style === "object" ? parsedType : property && checker.getTypeOfSymbol(property);
    const present = (it: ts.Type): ts.Type => (isOptional ? checker.getNonNullableType(it) : it);
    if (part && checker.isTypeAssignableTo(present(part), present(type))) continue;
    const text = part ? `gives ${checker.typeToString(part)}` : "gives nothing";
    fault(`${text} for ${name}, which is of the type ${checker.typeToString(type)}`);
  }
  return input;
}

/** Reads only types and discards problems: they are reported elsewhere, or the schema takes precedence. */
function withoutReports(candidate: Candidate, { program, budget }: ReadContext): ReadContext {
  return { program, budget, reporter: new Reporter(candidate, program) };
}

interface SchemaInputOptions {
  readonly fault: (message: string) => undefined;
  /** The function parses its arguments itself. */
  readonly isParsed?: boolean;
  /** The function takes all arguments as one object, whatever its parameter is called. */
  readonly isWhole?: boolean;
  /** The schema was derived from the types. */
  readonly isTyped?: boolean;
}

/** The arguments as a schema describes them, completed by types and comments. */
function inputBySchema(
  source: SchemaSource | { readonly described: DescribedSchema; readonly value: BundledValue },
  candidate: Candidate,
  reading: SchemaReading,
  { fault, isParsed, isWhole: takesAll = false, isTyped }: SchemaInputOptions,
): Input | undefined {
  const described = "described" in source ? source.described : reading.schemas.describe(source, "input");
  if (described && "fault" in described) return fault(`cannot be read: ${described.fault}`);
  const typed = readInput(candidate, withoutReports(candidate, reading));
  if (!described) return typed;
  const recursion = new Recursion(new Revivals());
  const own = { type: "object", ...embedSchema(described.json, (name, schema) => recursion.define(name, schema)) };
  if (!("$ref" in own) && own["type"] !== "object")
    return fault("must describe an object, because arguments have names");
  const whole = recursion.finish(own);
  const properties = Object.keys(propertiesIn(whole));
  const { parameters, context } = callerParameters(candidate, withoutReports(candidate, reading));
  const [first] = parameters;
  const isWhole = takesAll || receivesWhole(parameters, properties);
  // A single named parameter has all of its types under its name.
  const isNested = isWhole && parameters.length === 1 && !first!.isRest && typed.style === "positional";
  const selectOpen = (all: readonly Reach[]): Reach[] =>
    all.map((path) => (isNested ? path.slice(1) : path)).filter((path) => isTyped || leavesOpen(whole, toPath(path)));
  const isReferring = JSON.stringify(typed.schema).includes('"$ref"');
  const typedPart = isNested ? propertiesIn(typed.schema)[first!.name] : typed.schema;
  return {
    ...typed,
    schema: mergeSchemas(whole, isReferring ? undefined : typedPart),
    ...assignParams(parameters, properties, isWhole),
    context,
    dates: selectOpen(typed.dates),
    urls: selectOpen(typed.urls),
    spokenDefaults: isParsed ? [] : findDefaults(whole),
    parsed: isParsed ? [] : [{ schema: source.value, at: [] }],
  };
}

function readSchema(tag: DocTag, reporter: Reporter): JsonSchema {
  const { text, part } = extractJson(tag);
  const fault = (message: string, at: DefinitionPart = part): JsonSchema => {
    reporter.add("error", "invalid-input-schema", `@inputSchema ${message}`, tag.node, at);
    return { type: "object" };
  };
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch (error) {
    return fault(`is not JSON: ${(error as Error).message}`, { start: part.start + faultOffset(text), length: 1 });
  }
  if (!isObject(schema) || schema["type"] !== "object") return fault('must be a schema with "type": "object"');
  const invalidity = findSchemaFault(schema);
  return invalidity === undefined ? schema : fault(`is not a valid JSON Schema 2020-12: ${invalidity}`);
}

/** The tag's JSON, up to its closing brace, with spaces instead of leading stars; and its position. */
function extractJson(tag: DocTag): { text: string; part: DefinitionPart } {
  const node = tag.node as ts.JSDocTag;
  const { start } = textPart(tag);
  const comment = node.getSourceFile().text.slice(start, node.parent.end - "*/".length);
  const blank = comment.replace(/(\n[ \t]*)\*/g, "$1 ");
  const text = blank.slice(0, endOfValue(blank)).trimEnd();
  return { text, part: { start, length: text.split("\n")[0]!.length } };
}

/** The end of an object; without one, the end of the line before the next possible tag. */
function endOfValue(text: string): number {
  let depth = 0;
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\\n]|\\.)*"|[{}[\]]/g)) {
    if (token === "{" || token === "[") depth++;
    if ((token === "}" || token === "]") && --depth <= 0) return index + 1;
  }
  const next = /\n\s*@/.exec(text);
  return next?.index ?? text.length;
}

function faultOffset(text: string): number {
  try {
    parse(text, { mode: "json" });
    return 0;
  } catch (error) {
    const { offset } = error as { offset?: number };
    return Math.min(offset ?? 0, Math.max(text.length - 1, 0));
  }
}

interface DescribedParameters {
  /** The parameters that are arguments, without the host's context. */
  readonly parameters: readonly Parameter[];
  /** The single parameter is the arguments object, which a comment may call anything. */
  readonly isFlat: boolean;
  readonly checker: ts.TypeChecker;
  readonly isForeign: (file: ts.SourceFile) => boolean;
}

/** Reports mistakes in the comment of a function: names of parameters that do not exist, and unknown tags. */
function reportComment(
  { doc, implementation, signature }: Candidate,
  described: DescribedParameters,
  reporter: Reporter,
): void {
  for (const tag of doc.tags) {
    if (described.isForeign(tag.node.getSourceFile())) continue;
    const unknown = explainUnknownTag(tag);
    if (unknown !== undefined) reporter.add("warning", "unknown-tag", unknown, tag.node);
    else if (isReadAt("argument", tag.name)) {
      const message = `@${tag.written} describes an argument and has no effect here; write it below a @param`;
      reporter.add("warning", "constraint-without-effect", message, tag.node);
    }
  }
  const parameterNames = [
    ...signature.getParameters().map(({ name }) => name),
    ...(implementation?.parameters.map(({ name }) => name.getText()) ?? []),
  ];
  const commentNames = [...doc.params.keys()];
  for (const [name, node] of doc.paramNodes) {
    // The comment of a library function that is exported under another name cannot be fixed here.
    const isForeign = name === "" || described.isForeign(node.getSourceFile());
    const fault = isForeign ? undefined : findNameFault(name, described, parameterNames, commentNames);
    if (fault === undefined) continue;
    const suggestion = fault.nearest === undefined ? "" : `; did you mean ${fault.nearest}?`;
    reporter.add("warning", "unknown-parameter", `@param ${name}: there is no such ${fault.what}${suggestion}`, node);
  }
}

interface NameFault {
  readonly what: "parameter" | "property";
  readonly nearest: string | undefined;
}

/** `parameterNames` are those in the type and in the implementation, `commentNames` all names in the comment. */
function findNameFault(
  name: string,
  { parameters, isFlat, checker }: DescribedParameters,
  parameterNames: readonly string[],
  commentNames: readonly string[],
): NameFault | undefined {
  const [first = "", ...inner] = steps(name);
  if (isFlat) {
    // `@param options`, `@param options.size` and `@param size` are all read.
    const { type } = parameters[0]!;
    const whole = faultInType([first, ...inner], type, checker);
    if (!whole || inner.length > 0) return whole && faultInType(inner, type, checker);
    const isRoot = parameterNames.includes(first) || commentNames.some((other) => other.startsWith(`${first}.`));
    return isRoot || whole.nearest === undefined ? undefined : whole;
  }
  const known = [...parameters.flatMap(allNames), ...parameterNames];
  if (known.includes(first)) {
    const parameter = parameters.find((candidate) => candidate.name === first);
    return parameter && faultInType(inner, parameter.type, checker);
  }
  const isDestructured = parameters.some((parameter) => bindsProperty(parameter, first, checker));
  return isDestructured ? undefined : { what: "parameter", nearest: nearestName(first, known) };
}

function faultInType(path: readonly string[], type: ts.Type, checker: ts.TypeChecker): NameFault | undefined {
  let at = type;
  for (const step of path) {
    at = unwrapElement(checker.getNonNullableType(at), checker);
    if (!isObjectLike(at) || checker.getIndexInfosOfType(at).length > 0) return undefined;
    const known = checker.getPropertiesOfType(at);
    const property = known.find(({ name }) => name === step);
    const names = known.map(({ name }) => name);
    if (!property) return names.length === 0 ? undefined : { what: "property", nearest: nearestName(step, names) };
    at = checker.getTypeOfSymbol(property);
  }
  return undefined;
}

function unwrapElement(type: ts.Type, checker: ts.TypeChecker): ts.Type {
  return checker.isArrayLikeType(type) ? (checker.getIndexTypeOfType(type, ts.IndexKind.Number) ?? type) : type;
}

/** `list[].at` → `list`, `at`. */
function steps(name: string): string[] {
  return name.split(".").map((step) => step.replace(/\[\]$/, ""));
}

/** The elements of a rest parameter have their own names; a comment may also name the parameter as a whole. */
function allNames({ name, declaration }: Parameter): string[] {
  const parameter = declaration && ts.findAncestor(declaration, ts.isParameter);
  return parameter && ts.isIdentifier(parameter.name) ? [name, parameter.name.text] : [name];
}

/** The arguments of a handler in an object: from its schema, or from its function. */
export function readHandlerInput(
  candidate: Candidate,
  { described, handler, schema, value }: ToolObject,
  reading: SchemaReading,
): Input | undefined {
  const firstOnly = { ...candidate, parameters: listParameters(candidate, reading.program.checker).slice(0, 1) };
  const input = described.input ?? { json: typedInput(firstOnly, reading) };
  const source = { described: input, value: { ...value, path: [...value.path, schema ?? ""] } };
  // LangChain's `invoke` parses its input itself.
  const isParsed = schema === undefined || handler === "invoke";
  const fault = (message: string): undefined => {
    const completed = `the schema of its arguments ${message}`;
    reading.reporter.add("error", "invalid-schema", completed, candidate.nameNode);
  };
  return inputBySchema(source, firstOnly, reading, { fault, isParsed, isWhole: true, isTyped: !described.input });
}

/** Without a schema, the type of the only parameter describes the arguments. */
function typedInput(candidate: Candidate, reading: ReadContext): JsonSchema {
  const { schema, style, params } = readInput(candidate, withoutReports(candidate, reading));
  const whole = style === "object" ? schema : propertiesIn(schema)[params[0] ?? ""];
  if (whole?.["type"] !== "object") return { type: "object" };
  return { ...whole, ...(schema["$defs"] !== undefined && { $defs: schema["$defs"] }) };
}
