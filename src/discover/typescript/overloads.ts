import ts from "#typescript";
import { isObject, type JsonSchema } from "../../lib/json.ts";
import { isReadAt } from "../tags/tags.ts";
import { Budget } from "./budget.ts";
import type { Candidate, Parameter, ReadContext } from "./candidate.ts";
import { readDoc, noDoc, findTag, type Doc, type DocTag } from "./doc-comments.ts";
import { readInput } from "./input.ts";
import { createUnion, resolveResult } from "./output.ts";
import { listParameters, callerParameters } from "./parameters.ts";
import type { DefinitionProgram } from "./program.ts";
import { listNames } from "./report-fault.ts";
import { Reporter } from "./reporter.ts";
import { propertiesIn } from "./schema-merge.ts";
import { isFunction } from "./types/kinds.ts";
import { explainUnresolved } from "./types/unresolved.ts";

/** Some signatures of a function, merged into one that accepts exactly what any of them accepts. */
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
  /** Absent if the parameter is not an argument. */
  readonly schema: JsonSchema | undefined;
  readonly isOptional: boolean;
}

/**
 * Reduces a function with several signatures to a single one: all of them merged if one schema can describe what they
 * accept, otherwise the most general one, or the one named by `@signature`. Undefined if there is nothing to read.
 */
export function resolveOverloads(candidate: Candidate, { program, reporter }: ReadContext): Candidate | undefined {
  if (isUnreadable(candidate, reporter)) return undefined;
  const { signatures } = candidate;
  if (signatures.length < 2) return candidate;
  const tag = findChosen(candidate);
  if (tag) {
    if (signatures[tag.number - 1]) return withSignatures(candidate, [tag.number - 1]);
    const message = `@signature needs a number from 1 to ${signatures.length}, not "${tag.tag.text}"; it is ignored`;
    reporter.addAtTag("warning", "unknown-signature", message, tag.tag);
  }

  // A signature that returns a function, to take its arguments later, is only for code.
  const isCurried = (signature: ts.Signature): boolean => isFunction(signature.getReturnType());
  const callable = signatures.flatMap((signature, index) => (isCurried(signature) ? [] : [index]));
  const indexes = callable.length > 0 ? callable : signatures.map((_, index) => index);
  if (indexes.length === 1) return withSignatures(candidate, indexes);
  const outcomes = indexes.map((index) => readOne(candidate, index, program));
  const shapes = outcomes.flatMap((outcome) => ("shape" in outcome ? [outcome.shape] : []));
  if (shapes.length === 0) return withSignatures(candidate, [0]);
  const merged = mergeAll(shapes, candidate, program.checker);
  const best = mostGeneral(merged);
  // In each of them, the host's context comes after the arguments.
  const one = withSignatures(candidate, best.signatures, best.described);
  const context = best.context ? listParameters(one, program.checker).slice(-1) : [];
  const parameters = [...best.positions.map(({ parameter }) => parameter), ...context];
  const settled = { ...one, parameters };
  warn(settled, merged, outcomes, program.checker, reporter);
  return settled;
}

/** True if the function's own type cannot be resolved, or two `export *` provide it; reports the problem. */
function isUnreadable({ name, missing, clashing, nameNode }: Candidate, reporter: Reporter): boolean {
  if (clashing.length > 0) {
    const files = clashing.map((file) => `"./${file}"`).join(" and ");
    const hint = `write export { ${name} } from … for the one that you mean`;
    reporter.add(
      "error",
      "clashing-exports",
      `${files} export different functions of this name, so the module exports neither; ${hint}`,
      nameNode,
    );
    return true;
  }
  if (!missing) return false;
  const detail = missing.module === undefined ? reporter.diagnosticWithin(missing.complaint) : undefined;
  reporter.add("error", "unresolved-type", `${explainUnresolved(missing)}${detail ? `: ${detail}` : ""}`, missing.node);
  return true;
}

/** `@signature 2` in the function's comment, or `@signature` without a number in the comment of the chosen one. */
function findChosen({ doc, signatures, implementation }: Candidate): { number: number; tag: DocTag } | undefined {
  const docs = signatures.map(({ declaration }) => declaration && readDoc(declaration));
  const own = docs.findIndex((candidateDoc) => candidateDoc && findTag(candidateDoc, "signature")?.text === "");
  if (own >= 0) return { number: own + 1, tag: findTag(docs[own]!, "signature")! };
  const tag = [doc, implementation && readDoc(implementation), ...docs]
    .flatMap((candidateDoc) => candidateDoc?.tags ?? [])
    .find(({ name, text }) => name === "signature" && /^\d+$/.test(text));
  return tag && { number: Number(tag.text), tag };
}

/** The function with some of its signatures: one provides the comment, and its results are those of all of them. */
function withSignatures(candidate: Candidate, indexes: readonly number[], described = indexes[0]!): Candidate {
  const signatures = indexes.map((index) => candidate.signatures[index]!);
  const signature = candidate.signatures[described]!;
  const docs = [...new Set([signature, ...signatures])].map(({ declaration }) => declaration && readDoc(declaration));
  const own = docs.filter((doc) => doc !== undefined);
  const whole = functionDoc(candidate);
  // The comment of an alias takes precedence over the function's own.
  const isAlias = whole === candidate.doc && signature.declaration?.kind !== ts.SyntaxKind.CallSignature;
  const doc = mergeDocs(isAlias ? [whole, ...own] : [...own, whole]);
  const paramNodes = new Map([whole, ...own.slice(0, 1)].flatMap((ownDoc) => Array.from(ownDoc.paramNodes)));
  return { ...candidate, signature, signatures, doc: { ...doc, paramNodes } };
}

/** The comment of the whole function. The comment of a signature counts only with its tags about the function. */
function functionDoc({ doc, signatures, implementation }: Candidate): Doc {
  const { comment } = doc;
  const isOfSignature = signatures.some(({ declaration }) => declaration && readDoc(declaration).comment === comment);
  if (!isOfSignature) return doc;
  const whole = implementation ? readDoc(implementation) : noDoc;
  const tags = doc.tags.filter((tag) => !isReadAt("argument", tag.name) && !isReadAt("signature", tag.name));
  return { ...whole, tags: [...whole.tags, ...tags] };
}

/** Merges comments; earlier ones take precedence over later ones. */
function mergeDocs(all: readonly Doc[]): Omit<Doc, "paramNodes"> {
  const firstText = (text: (doc: Doc) => string) => all.map(text).find(Boolean) ?? "";
  return {
    description: firstText((each) => each.description),
    returns: firstText((each) => each.returns),
    tags: [...new Map(all.flatMap(({ tags }) => tags).map((tag) => [tag.node, tag])).values()],
    params: new Map(all.toReversed().flatMap(({ params }) => Array.from(params))),
    paramNames: all.map(({ paramNames }) => paramNames).find(({ length }) => length > 0) ?? [],
  };
}

type Outcome = { readonly shape: Shape } | { readonly index: number; readonly fault: string };

function readOne(candidate: Candidate, index: number, program: DefinitionProgram): Outcome {
  const one = withSignatures(candidate, [index]);
  const reporter = new Reporter(candidate, program);
  const reading = { program, reporter, budget: new Budget() };
  const { parameters, context } = callerParameters(one, reading);
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
  const { isStreaming } = resolveResult(one, program);
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
      // The merged shape may cover shapes that its parts did not.
      return mergeAll(merged, candidate, checker);
    }
  }
  return merged;
}

/** One shape that accepts exactly what either accepts; undefined if there is none. */
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
  const position = mergePositions(left.positions[at]!, right.positions[at]!, at, candidate, checker);
  return position && { ...left, positions: left.positions.with(at, position), signatures, described };
}

/** A position that accepts what either accepts. */
function mergePositions(
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
  const type = createUnion(checker, [one.type, other.type]);
  const schema = { anyOf: [...listAlternatives(left.schema), ...listAlternatives(right.schema)] };
  return { parameter: { ...one, name, type, node: undefined, isOptional }, schema, isOptional };
}

/** True if `shape` accepts everything that `other` accepts, by position. */
function covers(shape: Shape, other: Shape): boolean {
  const hasRest = shape.positions.at(-1)?.parameter.isRest === true;
  const length = hasRest ? Math.max(shape.positions.length, other.positions.length) : shape.positions.length;
  if (length < other.positions.length) return false;
  return Array.from({ length }).every((_, index) => {
    const position = shape.positions[index] ?? shape.positions.at(-1)!;
    const counterpart = other.positions[index];
    if (!counterpart) return position.isOptional || position.parameter.isRest;
    const { isRest } = position.parameter;
    if (isRest && !counterpart.parameter.isRest) return accepts(listItems(position.schema), counterpart.schema);
    if (counterpart.isOptional && !position.isOptional) return false;
    return counterpart.parameter.isRest === isRest && accepts(position.schema, counterpart.schema);
  });
}

/** The element of a list of any length; undefined if elements differ by position. */
function listItems(schema: JsonSchema | undefined): JsonSchema | undefined {
  const { items, prefixItems } = schema ?? {};
  return prefixItems === undefined && isObject(items) ? items : undefined;
}

function isSame(left: Position, right: Position): boolean {
  if (left.isOptional !== right.isOptional || left.parameter.isRest !== right.parameter.isRest) return false;
  return (
    left.parameter.name === right.parameter.name &&
    accepts(left.schema, right.schema) &&
    accepts(right.schema, left.schema)
  );
}

function accepts(schema: JsonSchema | undefined, other: JsonSchema | undefined): boolean {
  if (!schema || !other) return schema === other;
  const alternatives = listAlternatives(schema);
  const plain = new Set(alternatives.map((alternative) => JSON.stringify(alternative)));
  return listAlternatives(other).every((alternative) => {
    const isOfPlainType = "const" in alternative && plain.has(JSON.stringify({ type: alternative["type"] }));
    // References are to definitions of their own schema.
    const text = JSON.stringify(alternative);
    return plain.has("{}") || isOfPlainType || (plain.has(text) && !text.includes('"$ref"'));
  });
}

const annotations = new Set(["description", "title", "default", "examples", "deprecated", "x-mcp-header"]);

/** The schemas of which a value must match one, without annotations. */
function listAlternatives(schema: JsonSchema): JsonSchema[] {
  const keywords = Object.entries(schema).filter(([keyword]) => !annotations.has(keyword));
  const { anyOf, enum: values, type, ...rest }: JsonSchema = Object.fromEntries(keywords);
  if (Array.isArray(anyOf)) return (anyOf as JsonSchema[]).flatMap(listAlternatives);
  if (Array.isArray(values))
    return values.map((value) => ({ type: value === null ? "null" : typeof value, const: value as unknown }));
  if (Array.isArray(type) && Object.keys(rest).length === 0) return type.map((one) => ({ type: one as unknown }));
  return [type === undefined ? rest : { type, ...rest }];
}

/** The shape that accepts the most arguments; of equal ones the last, which authors write last for this reason. */
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
  const failures = first ? `; ${listNumbers(faults.map(({ index }) => index))} cannot be offered: ${first.fault}` : "";
  const others = merged.length > 1 ? "; no single schema covers them all; @signature <number> chooses another" : "";
  const message = `of its ${outcomes.length} signatures ${offered}${others}${failures}`;
  reporter.add("warning", "overloaded", message, settled.nameNode);
}

function listNumbers(indexes: readonly number[]): string {
  return listNames(
    indexes.map((index) => `${index + 1}`),
    Infinity,
  );
}
