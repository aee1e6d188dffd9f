import ts from "#typescript";
import { isObject, type JsonSchema } from "../../lib/json.ts";
import { isReadAt } from "../tags/tags.ts";
import { Budget } from "./budget.ts";
import type { Candidate, Parameter, Reading } from "./candidate.ts";
import { docOf, noDoc, tagOf, type Doc, type DocTag } from "./doc-comments.ts";
import { readInput } from "./input.ts";
import { unionOf, resultOf } from "./output.ts";
import { parametersOf, takenParameters } from "./parameters.ts";
import type { DefinitionProgram } from "./program.ts";
import { listNames } from "./report-fault.ts";
import { Reporter } from "./reporter.ts";
import { propertiesIn } from "./schema-merge.ts";
import { isFunction } from "./types/kinds.ts";
import { sayUnresolved } from "./types/unresolved.ts";

/** Some signatures of a function, as one that takes exactly what one of them takes. */
interface Shape {
  readonly positions: readonly Position[];
  readonly context: boolean;
  readonly isStreaming: boolean;
  readonly signatures: readonly number[];
  /** The signature whose comment describes it. */
  readonly described: number;
}

interface Position {
  readonly parameter: Parameter;
  /** Absent for what is not among the arguments. */
  readonly schema: JsonSchema | undefined;
  readonly isOptional: boolean;
}

/**
 * A function with several signatures as one with a single signature: all of them together where one schema can say
 * what they take, otherwise the most general one, or the one that `@signature` names. Undefined when there is nothing to
 * read.
 */
export function settle(candidate: Candidate, { program, reporter }: Reading): Candidate | undefined {
  if (isUnreadable(candidate, reporter)) return undefined;
  const { signatures } = candidate;
  if (signatures.length < 2) return candidate;
  const tag = chosenBy(candidate);
  if (tag) {
    if (signatures[tag.number - 1]) return only(candidate, [tag.number - 1]);
    const message = `@signature needs a number from 1 to ${signatures.length}, not "${tag.tag.text}"; it is ignored`;
    reporter.addAtTag("warning", "unknown-signature", message, tag.tag);
  }

  // What gives back a function, as one that takes its arguments later, is for code alone.
  const isCurried = (signature: ts.Signature): boolean => isFunction(signature.getReturnType());
  const called = signatures.flatMap((signature, index) => (isCurried(signature) ? [] : [index]));
  const indexes = called.length > 0 ? called : signatures.map((_, index) => index);
  if (indexes.length === 1) return only(candidate, indexes);
  const outcomes = indexes.map((index) => readOne(candidate, index, program));
  const shapes = outcomes.flatMap((outcome) => ("shape" in outcome ? [outcome.shape] : []));
  if (shapes.length === 0) return only(candidate, [0]);
  const merged = mergeAll(shapes, candidate, program.checker);
  const best = mostGeneral(merged);
  // The host's context comes after what is given, in each of them.
  const one = only(candidate, best.signatures, best.described);
  const context = best.context ? parametersOf(one, program.checker).slice(-1) : [];
  const parameters = [...best.positions.map(({ parameter }) => parameter), ...context];
  const settled = { ...one, parameters };
  warn(settled, merged, outcomes, program.checker, reporter);
  return settled;
}

/** True when the function's own type leads nowhere, or two `export *` name it, so that there is nothing to read. */
function isUnreadable({ name, missing, clashing, nameNode }: Candidate, reporter: Reporter): boolean {
  if (clashing.length > 0) {
    const files = clashing.map((file) => `"./${file}"`).join(" and ");
    const remedy = `write export { ${name} } from … for the one that you mean`;
    reporter.add(
      "error",
      "clashing-exports",
      `${files} export different functions of this name, so the module exports neither; ${remedy}`,
      nameNode,
    );
    return true;
  }
  if (!missing) return false;
  const detail = missing.module === undefined ? reporter.diagnosticWithin(missing.complaint) : undefined;
  reporter.add("error", "unresolved-type", `${sayUnresolved(missing)}${detail ? `: ${detail}` : ""}`, missing.node);
  return true;
}

/**
 * `@signature 2` in the function's comment, or `@signature` alone in the comment of the one that is meant. Other tools
 * have a tag of this name, too, with a call as its text.
 */
function chosenBy({ doc, signatures, implementation }: Candidate): { number: number; tag: DocTag } | undefined {
  const docs = signatures.map(({ declaration }) => declaration && docOf(declaration));
  const own = docs.findIndex((each) => each && tagOf(each, "signature")?.text === "");
  if (own >= 0) return { number: own + 1, tag: tagOf(docs[own]!, "signature")! };
  const tag = [doc, implementation && docOf(implementation), ...docs]
    .flatMap((each) => each?.tags ?? [])
    .find(({ name, text }) => name === "signature" && /^\d+$/.test(text));
  return tag && { number: Number(tag.text), tag };
}

/** The function with some of its signatures: the comment of one describes it, its results are those of all of them. */
function only(candidate: Candidate, indexes: readonly number[], described = indexes[0]!): Candidate {
  const signatures = indexes.map((index) => candidate.signatures[index]!);
  const signature = candidate.signatures[described]!;
  const docs = [...new Set([signature, ...signatures])].map(({ declaration }) => declaration && docOf(declaration));
  const own = docs.filter((doc) => doc !== undefined);
  const whole = docOfWhole(candidate);
  // The comment of another name of a function goes before the function's own.
  const isAlias = whole === candidate.doc && signature.declaration?.kind !== ts.SyntaxKind.CallSignature;
  const doc = docOfAll(isAlias ? [whole, ...own] : [...own, whole]);
  const paramNodes = new Map([whole, ...own.slice(0, 1)].flatMap((each) => Array.from(each.paramNodes)));
  return { ...candidate, signature, signatures, doc: { ...doc, paramNodes } };
}

/** The comment on the whole function. The comment of a signature counts only with its tags about the function. */
function docOfWhole({ doc, signatures, implementation }: Candidate): Doc {
  const { comment } = doc;
  const isOfSignature = signatures.some(({ declaration }) => declaration && docOf(declaration).comment === comment);
  if (!isOfSignature) return doc;
  const whole = implementation ? docOf(implementation) : noDoc;
  const tags = doc.tags.filter((tag) => !isReadAt("argument", tag.name) && !isReadAt("signature", tag.name));
  return { ...whole, tags: [...whole.tags, ...tags] };
}

/** Joins comments; what an earlier one says goes before what a later one says. */
function docOfAll(all: readonly Doc[]): Omit<Doc, "paramNodes"> {
  const first = (text: (doc: Doc) => string) => all.map(text).find(Boolean) ?? "";
  return {
    description: first((each) => each.description),
    returns: first((each) => each.returns),
    tags: [...new Map(all.flatMap(({ tags }) => tags).map((tag) => [tag.node, tag])).values()],
    params: new Map(all.toReversed().flatMap(({ params }) => Array.from(params))),
    paramNames: all.map(({ paramNames }) => paramNames).find(({ length }) => length > 0) ?? [],
  };
}

type Outcome = { readonly shape: Shape } | { readonly index: number; readonly fault: string };

function readOne(candidate: Candidate, index: number, program: DefinitionProgram): Outcome {
  const one = only(candidate, [index]);
  const reporter = new Reporter(candidate, program);
  const reading = { program, reporter, budget: new Budget() };
  const { parameters, context } = takenParameters(one, reading);
  const { schema, style } = readInput(one, reading);
  const fault = reporter.problems.find(({ severity }) => severity === "error");
  if (fault) return { index, fault: fault.message.slice(candidate.name.length + 2) };
  const properties = propertiesIn(schema);
  const required = (schema["required"] ?? []) as string[];
  const positions = parameters.map((parameter): Position => {
    const isWhole = style === "object";
    const own = isWhole ? schema : properties[parameter.name];
    return { parameter, schema: own, isOptional: !isWhole && !required.includes(parameter.name) };
  });
  const { isStreaming } = resultOf(one, program);
  return { shape: { positions, context, isStreaming, signatures: [index], described: index } };
}

function mergeAll(shapes: readonly Shape[], candidate: Candidate, checker: ts.TypeChecker): Shape[] {
  const merged = [...shapes];
  for (let left = 0; left < merged.length; left += 1) {
    for (let right = 0; right < merged.length; right += 1) {
      const both = left === right ? undefined : merge(merged[left]!, merged[right]!, candidate, checker);
      if (!both) continue;
      merged[Math.min(left, right)] = both;
      merged.splice(Math.max(left, right), 1);
      // What is merged may take in what it did not before.
      return mergeAll(merged, candidate, checker);
    }
  }
  return merged;
}

/** One shape that takes what either takes, and nothing else; undefined where there is none. */
function merge(left: Shape, right: Shape, candidate: Candidate, checker: ts.TypeChecker): Shape | undefined {
  if (left.context !== right.context || left.isStreaming !== right.isStreaming) return undefined;
  if (left.context && left.positions.length !== right.positions.length) return undefined;
  const signatures = [...left.signatures, ...right.signatures].sort((a, b) => a - b);
  if (covers(left, right)) return { ...left, signatures };
  if (covers(right, left)) return { ...right, signatures };
  const described = Math.min(left.described, right.described);
  const isLonger = left.positions.length === right.positions.length + 1;
  if (isLonger && right.positions.every((position, index) => isSame(position, left.positions[index]!))) {
    const [last] = left.positions.slice(-1);
    const optional = { ...last!, parameter: { ...last!.parameter, isOptional: true }, isOptional: true };
    return { ...left, positions: [...left.positions.slice(0, -1), optional], signatures, described };
  }
  if (left.positions.length !== right.positions.length) return undefined;
  const different = left.positions.flatMap((position, index) =>
    isSame(position, right.positions[index]!) ? [] : [index],
  );
  const [at] = different;
  if (at === undefined || different.length > 1) return undefined;
  const position = either(left.positions[at]!, right.positions[at]!, at, candidate, checker);
  return position && { ...left, positions: left.positions.with(at, position), signatures, described };
}

/** A position that takes what either takes. */
function either(
  left: Position,
  right: Position,
  at: number,
  { implementation }: Candidate,
  checker: ts.TypeChecker,
): Position | undefined {
  const [one, other] = [left.parameter, right.parameter];
  const own = implementation?.parameters[at]?.name;
  const name = one.name === other.name ? one.name : own && ts.isIdentifier(own) ? own.text : undefined;
  const isPlain = !one.isRest && !other.isRest && !one.pattern && !other.pattern;
  if (name === undefined || !isPlain || !left.schema || !right.schema) return undefined;
  const isOptional = left.isOptional || right.isOptional;
  const type = unionOf(checker, [one.type, other.type]);
  const schema = { anyOf: [...alternativesOf(left.schema), ...alternativesOf(right.schema)] };
  return { parameter: { ...one, name, type, node: undefined, isOptional }, schema, isOptional };
}

/** True if this takes everything that the other takes, by position. */
function covers(shape: Shape, other: Shape): boolean {
  const hasRest = shape.positions.at(-1)?.parameter.isRest === true;
  const length = hasRest ? Math.max(shape.positions.length, other.positions.length) : shape.positions.length;
  if (length < other.positions.length) return false;
  return Array.from({ length }).every((_, index) => {
    const position = shape.positions[index] ?? shape.positions.at(-1)!;
    const given = other.positions[index];
    if (!given) return position.isOptional || position.parameter.isRest;
    const { isRest } = position.parameter;
    if (isRest && !given.parameter.isRest) return takes(itemsOf(position.schema), given.schema);
    if (given.isOptional && !position.isOptional) return false;
    return given.parameter.isRest === isRest && takes(position.schema, given.schema);
  });
}

/** The element of a list of any length; undefined where elements differ by place. */
function itemsOf(schema: JsonSchema | undefined): JsonSchema | undefined {
  const { items, prefixItems } = schema ?? {};
  return prefixItems === undefined && isObject(items) ? items : undefined;
}

function isSame(left: Position, right: Position): boolean {
  if (left.isOptional !== right.isOptional || left.parameter.isRest !== right.parameter.isRest) return false;
  return (
    left.parameter.name === right.parameter.name && takes(left.schema, right.schema) && takes(right.schema, left.schema)
  );
}

function takes(schema: JsonSchema | undefined, given: JsonSchema | undefined): boolean {
  if (!schema || !given) return schema === given;
  const known = alternativesOf(schema);
  const plain = new Set(known.map((each) => JSON.stringify(each)));
  return alternativesOf(given).every((each) => {
    const isOfPlainType = "const" in each && plain.has(JSON.stringify({ type: each["type"] }));
    // References are to definitions of their own schema.
    const text = JSON.stringify(each);
    return plain.has("{}") || isOfPlainType || (plain.has(text) && !text.includes('"$ref"'));
  });
}

const annotations = new Set(["description", "title", "default", "examples", "deprecated", "x-mcp-header"]);

/** The schemas of which a value has to fit one, without what is said about them. */
function alternativesOf(schema: JsonSchema): JsonSchema[] {
  const said = Object.entries(schema).filter(([keyword]) => !annotations.has(keyword));
  const { anyOf, enum: values, type, ...rest }: JsonSchema = Object.fromEntries(said);
  if (Array.isArray(anyOf)) return (anyOf as JsonSchema[]).flatMap(alternativesOf);
  if (Array.isArray(values))
    return values.map((value) => ({ type: value === null ? "null" : typeof value, const: value as unknown }));
  if (Array.isArray(type) && Object.keys(rest).length === 0) return type.map((each) => ({ type: each as unknown }));
  return [type === undefined ? rest : { type, ...rest }];
}

/** The one that can be given the most; of equal ones the last, as authors put the most general signature there. */
function mostGeneral(shapes: readonly Shape[]): Shape {
  const needed = ({ positions }: Shape) => positions.filter(({ isOptional }) => !isOptional).length;
  return shapes.reduce((best, shape) => {
    const more = shape.positions.length - best.positions.length || needed(best) - needed(shape);
    return more >= 0 ? shape : best;
  });
}

function warn(
  settled: Candidate,
  merged: readonly Shape[],
  outcomes: readonly Outcome[],
  checker: ts.TypeChecker,
  reporter: Reporter,
): void {
  const faults = outcomes.flatMap((outcome) => ("fault" in outcome ? [outcome] : []));
  if (merged.length === 1 && faults.length === 0) return;
  const { signatures } = mostGeneral(merged);
  const isOne = signatures.length === 1;
  const offered = isOne
    ? `number ${listNumbers(signatures)} is offered: ${checker.signatureToString(settled.signature)}`
    : `numbers ${listNumbers(signatures)} are offered together`;
  const [first] = faults;
  const left = first ? `; ${listNumbers(faults.map(({ index }) => index))} cannot be: ${first.fault}` : "";
  const others = merged.length > 1 ? "; no single schema covers them all; @signature <number> chooses another" : "";
  const message = `of its ${outcomes.length} signatures ${offered}${others}${left}`;
  reporter.add("warning", "overloaded", message, settled.nameNode);
}

function listNumbers(indexes: readonly number[]): string {
  return listNames(
    indexes.map((index) => `${index + 1}`),
    Infinity,
  );
}
