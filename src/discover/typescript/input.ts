import { parse } from "@humanwhocodes/momoa";
import ts from "#typescript";
import { isObject, type JsonSchema } from "../../lib/json.ts";
import { nearestName } from "../../lib/near-names.ts";
import type { BundledValue, CallShape, DescribedSchema, ParsedArgument, Reach } from "../discovery.ts";
import { isReadAt, unknownTag } from "../tags/tags.ts";
import { BudgetExceeded } from "./budget.ts";
import type { Candidate, Parameter, Reading, ToolObject } from "./candidate.ts";
import { docOf, tagOf, type Doc, type DocTag } from "./doc-comments.ts";
import { evaluate } from "./evaluate.ts";
import { parametersOf, takenParameters, takes } from "./parameters.ts";
import { reportFault, summarize } from "./report-fault.ts";
import { textPart, Reporter, type DefinitionPart } from "./reporter.ts";
import { faultOfSchema } from "./schema-check.ts";
import { defaultsIn, embedSchema, leavesOpen, mergeSchemas, propertiesIn } from "./schema-merge.ts";
import { schemaType, type SchemaSource, type SchemaSources } from "./schema-sources.ts";
import { describe } from "./types/describe.ts";
import { isObjectLike, isUnresolved, mayBeNothing } from "./types/kinds.ts";
import { walkObject, isLeftOut, unlessLeftOut } from "./types/object.ts";
import { httpFramework, sayUnresolved, unresolvedName } from "./types/unresolved.ts";
import { createWalker, warnOfAny } from "./types/walk.ts";
import {
  Revivals,
  namesIn,
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
  /** Where a property's header was named, by the name. */
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

/**
 * The arguments of a tool. A lone destructured parameter is the arguments object itself; otherwise each parameter is
 * an argument.
 */
export function readInput(candidate: Candidate, reading: Reading): Input {
  const { program, budget, reporter, schemas } = reading;
  const { parameters, context } = takenParameters(candidate, reading);
  const lone = parameters.length === 1 && isObjectPattern(parameters[0]!.pattern) ? parameters[0]! : undefined;

  const revivals = new Revivals();
  const recursion = new Recursion(revivals);
  const headers = new Map<string, ts.Node>();
  const spokenDefaults: Path[] = [];
  const parsed: ParsedArgument[] = [];
  const walkerFor = (parameter: Parameter, bindings: ReturnType<typeof bindingsOf>, faults: Fault[]) =>
    createWalker({
      program,
      direction: "input",
      written: parameter.node !== undefined,
      budget,
      recursion,
      revivals,
      schemas,
      onParsed: (argument) => parsed.push(argument),
      noteHeader: (name, node) => headers.set(name, node),
      noteSpokenDefault: (path) => spokenDefaults.push(path),
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
    const message = `${early.name} takes any number of values before others, which named arguments cannot express; put it last`;
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
      if (reportUnresolved(parameter, node, reading)) continue;
      if (lone) {
        flat = walkArguments(lone, walker);
        continue;
      }
      const isOptional = parameter.isOptional || mayBeNothing(parameter.type, program.checker);
      const at: TypePlace = within(argumentsRoot, parameter.name, parameter.node);
      if (isLeftOut(parameter.type, isOptional, walker)) continue;
      // A function that takes any number of what JSON cannot carry is about nothing else.
      const canDoWithout = isOptional && !parameter.isRest;
      const described = unlessLeftOut(canDoWithout, at, walker, () => walkParameter(parameter, at, walker));
      if (!described) continue;
      properties.push([parameter.name, described]);
      const isFilledIn = parsed.some(
        ({ at: [name, ...inner], absent }) => absent && name === parameter.name && !inner[0],
      );
      if (!isOptional && !isFilledIn) required.push(parameter.name);
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
  const { checker } = program;
  const isForeign = (file: ts.SourceFile): boolean => program.isLibrary(file) || program.isOfPackage(file);
  reportComment(candidate, { parameters, isFlat: lone !== undefined, checker, isForeign }, reporter);
  return {
    ...shareOut(parameters, Object.keys(propertiesIn(schema)), lone !== undefined),
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
  const docs = parameter.declaration ? [docOf(parameter.declaration)] : [];
  return describe(schema, at, docs, withDefault, parameter.declaration);
}

/** The type of a lone destructured parameter as the schema of all arguments. */
function walkArguments(parameter: Parameter, walker: Walker): JsonSchema {
  const root: TypePlace = { ...argumentsRoot, node: parameter.node };
  const { checker } = walker;
  let type = checker.getNonNullableType(parameter.type);
  const isParameter = type.flags & ts.TypeFlags.TypeParameter;
  if (isParameter) type = checker.getBaseConstraintOfType(type) ?? type;
  if (type.flags & ts.TypeFlags.Any) warnOfAny(root, walker);
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
function reportUnresolved(parameter: Parameter, node: ts.Node, { program, reporter }: Reading): boolean {
  const framework = httpFramework(parameter.node);
  if (framework !== undefined) {
    const message = `a tool gets its arguments, and no request or response of ${framework}: take what it needs as parameters, as in (city: string), and return its result (at ${parameter.name})`;
    reporter.add("error", "http-handler", message, node);
    return true;
  }
  const missing = unresolvedName(parameter.node, { ...program, direction: "input" });
  if (!missing && !(parameter.node && isUnresolved(parameter.type))) return false;
  const detail =
    missing?.module === undefined && missing?.instead === undefined
      ? reporter.diagnosticWithin(missing?.complaint ?? parameter.node!)
      : undefined;
  const what = missing ? sayUnresolved(missing) : "the type cannot be found";
  reporter.add("error", "unresolved-type", `${what}${detail ? `: ${detail}` : ""} (at ${parameter.name})`, node);
  return true;
}

function isObjectPattern(pattern: ts.BindingPattern | undefined): boolean {
  return pattern !== undefined && ts.isObjectBindingPattern(pattern);
}

/** Facts that a destructuring pattern states about the properties it takes, by path: `{ retry: { attempts = 2 } }`. */
function bindingsOf(
  pattern: ts.BindingPattern,
  start: Path,
  checker: ts.TypeChecker,
  found = new Map<string, Binding & { node: ts.BindingElement }>(),
): ReadonlyMap<string, Binding & { node: ts.BindingElement }> {
  if (!ts.isObjectBindingPattern(pattern)) return found;
  for (const element of pattern.elements) {
    if (element.dotDotDotToken) continue;
    const name = nameOf(element, checker);
    if (name === undefined) continue;
    const path = [...start, name];
    found.set(pathKey(path), { initializer: element.initializer, node: element });
    if (!ts.isIdentifier(element.name)) bindingsOf(element.name, path, checker, found);
  }
  return found;
}

function nameOf(element: ts.BindingElement, checker: ts.TypeChecker): string | undefined {
  const name = element.propertyName ?? element.name;
  if (ts.isComputedPropertyName(name)) {
    const value = evaluate(name.expression, checker);
    return typeof value === "string" ? value : undefined;
  }
  return "text" in name ? name.text : undefined;
}

/**
 * `@inputSchema {…}`: the arguments of a tool as JSON Schema in the author's own words, which go before the types. A
 * lone parameter that none of the schema's properties is named after takes all arguments as one object.
 */
export function readGivenInput(candidate: Candidate, reading: Reading): Input | undefined {
  const { reporter } = reading;
  const tag = tagOf(candidate.doc, "inputschema");
  if (!tag) return undefined;
  const schema = readSchema(tag, reporter);
  const properties = Object.keys(propertiesIn(schema));
  const { parameters, context } = takenParameters(candidate, reading);
  const isWhole = takesWhole(parameters, properties);
  for (const { name, declaration } of isWhole ? [] : parameters) {
    if (properties.includes(name) || reporter.hasErrors) continue;
    const message = `the schema in @inputSchema has no property "${name}", so it never gets a value`;
    reporter.add("warning", "unnamed-argument", message, declaration ?? candidate.nameNode);
  }
  const rest = !isWhole && (parameters.at(-1)?.isRest ?? false);
  return { ...plainInput, schema, ...shareOut(parameters, properties, isWhole), rest, context };
}

/** True if the parameters are one alone that no property is named after: it takes the whole object. */
function takesWhole([first, ...others]: readonly Parameter[], properties: readonly string[]): boolean {
  const isLone = first !== undefined && others.length === 0 && !first.isRest;
  return isLone && (first.pattern !== undefined || !properties.includes(first.name));
}

function shareOut(
  parameters: readonly Parameter[],
  properties: readonly string[],
  isWhole: boolean,
): Pick<Input, "style" | "params"> {
  return isWhole
    ? { style: "object", params: properties }
    : { style: "positional", params: parameters.map(({ name }) => name) };
}

type SchemaReading = Reading & { readonly schemas: SchemaSources };

/** `@schema S`: the arguments of a tool are what a schema takes, and are parsed by it before the function gets them. */
export function readNamedInput(candidate: Candidate, reading: SchemaReading): Input | undefined {
  const { program, reporter, schemas } = reading;
  const { checker } = program;
  const tag = tagOf(candidate.doc, "schema");
  const ofModule = candidate.module?.input;
  const fault = (message: string): undefined => {
    if (tag) reporter.addAtTag("error", "invalid-schema", `@schema ${tag.text} ${message}`, tag);
    else reporter.add("error", "invalid-schema", `the export schema ${message}`, candidate.nameNode);
  };
  if (!tag) return ofModule && inputBySchema(ofModule, candidate, reading, { fault, isWhole: true });
  const source = schemas.inScope(tag.text, candidate.implementation ?? candidate.nameNode);
  if (!source)
    return fault("names no constant at the top level of a file: write the name of a schema, as in @schema User");
  const given = schemaType(source, "output", checker);
  const { parameters } = takenParameters(candidate, quietly(candidate, reading));
  const [first, ...others] = parameters;
  const isWhole = Boolean(first && others.length === 0 && given && checker.isTypeAssignableTo(given, first.type));
  const input = inputBySchema(source, candidate, reading, { fault, isWhole });
  for (const { name, type, isOptional } of given && !reporter.hasErrors ? parameters : []) {
    const property = given!.getProperty(name);
    const part = input?.style === "object" ? given : property && checker.getTypeOfSymbol(property);
    const present = (it: ts.Type): ts.Type => (isOptional ? checker.getNonNullableType(it) : it);
    if (part && checker.isTypeAssignableTo(present(part), present(type))) continue;
    const text = part ? `gives ${checker.typeToString(part)}` : "gives nothing";
    fault(`${text} for ${name}, which is of the type ${checker.typeToString(type)}`);
  }
  return input;
}

/** Reads types alone, and reports nothing: it was reported, or a schema says what counts. */
function quietly(candidate: Candidate, { program, budget }: Reading): Reading {
  return { program, budget, reporter: new Reporter(candidate, program) };
}

interface BySchema {
  readonly fault: (message: string) => undefined;
  /** The function parses its arguments itself. */
  readonly isParsed?: boolean;
  /** All arguments are one object, whatever the parameter is called. */
  readonly isWhole?: boolean;
  /** The schema is that of the types. */
  readonly isTyped?: boolean;
}

/** The arguments as a schema has them, with what the types and comments say besides. */
function inputBySchema(
  source: SchemaSource | { readonly described: DescribedSchema; readonly value: BundledValue },
  candidate: Candidate,
  reading: SchemaReading,
  { fault, isParsed, isWhole: takesAll = false, isTyped }: BySchema,
): Input | undefined {
  const described = "described" in source ? source.described : reading.schemas.describe(source, "input");
  if (described && "fault" in described) return fault(`cannot be read: ${described.fault}`);
  const typed = readInput(candidate, quietly(candidate, reading));
  if (!described) return typed;
  const recursion = new Recursion(new Revivals());
  const own = { type: "object", ...embedSchema(described.json, (name, schema) => recursion.define(name, schema)) };
  if (!("$ref" in own) && own["type"] !== "object") return fault("describes no object, and arguments have names");
  const whole = recursion.finish(own);
  const properties = Object.keys(propertiesIn(whole));
  const { parameters, context } = takenParameters(candidate, quietly(candidate, reading));
  const [first] = parameters;
  const isWhole = takesAll || takesWhole(parameters, properties);
  // A lone parameter with a name has all of its types under that.
  const isUnder = isWhole && parameters.length === 1 && !first!.isRest && typed.style === "positional";
  const open = (all: readonly Reach[]): Reach[] =>
    all.map((path) => (isUnder ? path.slice(1) : path)).filter((path) => isTyped || leavesOpen(whole, namesIn(path)));
  const isReferring = JSON.stringify(typed.schema).includes('"$ref"');
  const besides = isUnder ? propertiesIn(typed.schema)[first!.name] : typed.schema;
  return {
    ...typed,
    schema: mergeSchemas(whole, isReferring ? undefined : besides),
    ...shareOut(parameters, properties, isWhole),
    context,
    dates: open(typed.dates),
    urls: open(typed.urls),
    spokenDefaults: isParsed ? [] : defaultsIn(whole),
    parsed: isParsed ? [] : [{ schema: source.value, at: [] }],
  };
}

function readSchema(tag: DocTag, reporter: Reporter): JsonSchema {
  const { text, part } = jsonIn(tag);
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
  const broken = faultOfSchema(schema);
  return broken === undefined ? schema : fault(`is not a valid JSON Schema 2020-12: ${broken}`);
}

/**
 * The tag's JSON and where it stands. The comment's stars become spaces, so that positions stay as they are; it goes to
 * the brace that closes it, whatever TypeScript takes for a tag on the way.
 */
function jsonIn(tag: DocTag): { text: string; part: DefinitionPart } {
  const node = tag.node as ts.JSDocTag;
  const { start } = textPart(tag);
  const comment = node.getSourceFile().text.slice(start, node.parent.end - "*/".length);
  const blank = comment.replace(/(\n[ \t]*)\*/g, "$1 ");
  const text = blank.slice(0, endOfValue(blank)).trimEnd();
  return { text, part: { start, length: text.split("\n")[0]!.length } };
}

/** The end of an object; without one, of the line that could begin another tag. */
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

interface Described {
  /** Those that are arguments; the host's context is none. */
  readonly parameters: readonly Parameter[];
  /** Its lone parameter is all arguments in one object, which a comment may call as it likes. */
  readonly isFlat: boolean;
  readonly checker: ts.TypeChecker;
  readonly isForeign: (file: ts.SourceFile) => boolean;
}

/** Says what the comment of a function means to say and does not: names of no parameter, and tags that are none. */
function reportComment({ doc, implementation, signature }: Candidate, described: Described, reporter: Reporter): void {
  for (const tag of doc.tags) {
    if (described.isForeign(tag.node.getSourceFile())) continue;
    const unknown = unknownTag(tag);
    if (unknown !== undefined) reporter.add("warning", "unknown-tag", unknown, tag.node);
    else if (isReadAt("argument", tag.name)) {
      const message = `@${tag.written} describes an argument and has no effect here; write it below a @param`;
      reporter.add("warning", "constraint-without-effect", message, tag.node);
    }
  }
  const written = [
    ...signature.getParameters().map(({ name }) => name),
    ...(implementation?.parameters.map(({ name }) => name.getText()) ?? []),
  ];
  const all = [...doc.params.keys()];
  for (const [name, node] of doc.paramNodes) {
    // A function of the language that is exported under another name brings a comment that nobody here can mend.
    const isOthers = name === "" || described.isForeign(node.getSourceFile());
    const fault = isOthers ? undefined : findNameFault(name, described, written, all);
    if (fault === undefined) continue;
    const suggestion = fault.meant === undefined ? "" : `; did you mean ${fault.meant}?`;
    reporter.add("warning", "unknown-parameter", `@param ${name}: there is no such ${fault.what}${suggestion}`, node);
  }
}

interface NameFault {
  readonly what: "parameter" | "property";
  readonly meant: string | undefined;
}

/**
 * The fault of a name in a comment; `written` are the names of all parameters, as the type and as the implementation
 * call them, and `all` the names in the comment.
 */
function findNameFault(
  name: string,
  { parameters, isFlat, checker }: Described,
  written: readonly string[],
  all: readonly string[],
): NameFault | undefined {
  const [first = "", ...inner] = steps(name);
  if (isFlat) {
    // `@param options`, `@param options.size` and `@param size` are all read.
    const { type } = parameters[0]!;
    const whole = faultInType([first, ...inner], type, checker);
    if (!whole || inner.length > 0) return whole && faultInType(inner, type, checker);
    const isRoot = written.includes(first) || all.some((other) => other.startsWith(`${first}.`));
    return isRoot || whole.meant === undefined ? undefined : whole;
  }
  const known = [...parameters.flatMap(namesOf), ...written];
  if (known.includes(first)) {
    const parameter = parameters.find((each) => each.name === first);
    return parameter && faultInType(inner, parameter.type, checker);
  }
  const isTaken = parameters.some((parameter) => takes(parameter, first, checker));
  return isTaken ? undefined : { what: "parameter", meant: nearestName(first, known) };
}

function faultInType(path: readonly string[], type: ts.Type, checker: ts.TypeChecker): NameFault | undefined {
  let at = type;
  for (const step of path) {
    at = elementOf(checker.getNonNullableType(at), checker);
    if (!isObjectLike(at) || checker.getIndexInfosOfType(at).length > 0) return undefined;
    const known = checker.getPropertiesOfType(at);
    const property = known.find(({ name }) => name === step);
    const names = known.map(({ name }) => name);
    if (!property) return names.length === 0 ? undefined : { what: "property", meant: nearestName(step, names) };
    at = checker.getTypeOfSymbol(property);
  }
  return undefined;
}

function elementOf(type: ts.Type, checker: ts.TypeChecker): ts.Type {
  return checker.isArrayLikeType(type) ? (checker.getIndexTypeOfType(type, ts.IndexKind.Number) ?? type) : type;
}

/** `list[].at` → `list`, `at`. */
function steps(name: string): string[] {
  return name.split(".").map((step) => step.replace(/\[\]$/, ""));
}

/** The tail of a rest parameter has names of its own; a comment may well name the whole. */
function namesOf({ name, declaration }: Parameter): string[] {
  const parameter = declaration && ts.findAncestor(declaration, ts.isParameter);
  return parameter && ts.isIdentifier(parameter.name) ? [name, parameter.name.text] : [name];
}

/** The arguments of a handler in an object: as its schema has them, or as its function takes them. */
export function readHandlerInput(
  candidate: Candidate,
  { described, handler, schema, value }: ToolObject,
  reading: SchemaReading,
): Input | undefined {
  const alone = { ...candidate, parameters: parametersOf(candidate, reading.program.checker).slice(0, 1) };
  const input = described.input ?? { json: typedInput(alone, reading) };
  const source = { described: input, value: { ...value, path: [...value.path, schema ?? ""] } };
  // LangChain's `invoke` parses what it is given.
  const isParsed = schema === undefined || handler === "invoke";
  const fault = (message: string): undefined => {
    const whole = `the schema of its arguments ${message}`;
    reading.reporter.add("error", "invalid-schema", whole, candidate.nameNode);
  };
  return inputBySchema(source, alone, reading, { fault, isParsed, isWhole: true, isTyped: !described.input });
}

/** Without a schema, the type of the only parameter says what it takes. */
function typedInput(candidate: Candidate, reading: Reading): JsonSchema {
  const { schema, style, params } = readInput(candidate, quietly(candidate, reading));
  const whole = style === "object" ? schema : propertiesIn(schema)[params[0] ?? ""];
  if (whole?.["type"] !== "object") return { type: "object" };
  return { ...whole, ...(schema["$defs"] !== undefined && { $defs: schema["$defs"] }) };
}
