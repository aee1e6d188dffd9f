import ts from "#typescript";
import type { Candidate, Parameter } from "./exports.ts";
import { parametersOf } from "./parameters.ts";
import type { DefinitionProgram } from "./program.ts";
import type { Reporter } from "./reporter.ts";
import { isFunction, isUnresolved, membersOf } from "./types/kinds.ts";

/** The parameters that callers fill in, and whether the host's context comes after them. */
export interface Taken {
  readonly parameters: readonly Parameter[];
  readonly context: boolean;
}

/**
 * Tells the host's context from the arguments: by its type, which is one of "berth", or by the name `context` where
 * nothing is said of the type. Reports a context that stands in the wrong place, and an argument that looks like one.
 */
export function takenParameters(candidate: Candidate, program: DefinitionProgram, reporter: Reporter): Taken {
  const all = parametersOf(candidate, program.checker);
  const last = all.at(-1);
  const context = last !== undefined && isContext(last, program);
  const parameters: Parameter[] = [];
  for (const parameter of all) {
    const node = parameter.declaration ?? candidate.nameNode;
    const found = parameter.isRest ? undefined : hostContextIn(parameter.type, program);
    if (found && found.missing.length > 0) {
      const names = found.missing.map((name) => `"${name}"`).join(", ");
      const message = `the host's context has no ${names}; take ToolContext of "berth" as it is (at ${parameter.name})`;
      reporter.add("error", "context-extended", message, node);
    }
    if (parameter === last && context) continue;
    if (found || isMissingContext(parameter)) {
      const message = `the host's context comes after all arguments: make ${parameter.name} the last parameter`;
      reporter.add("error", "context-not-last", message, node);
      continue;
    }
    if (looksLikeContext(parameter, program)) {
      const { name } = parameter;
      const message =
        `${name} is an argument that clients give, because its type is not ToolContext of "berth"; ` +
        `for the host's context write ${parameter === last ? "" : "as the last parameter "}${name}: ToolContext, ` +
        'and import type { ToolContext } from "berth"';
      reporter.add("warning", "not-the-context", message, node);
    }
    parameters.push(parameter);
  }
  return { parameters, context };
}

function isContext(parameter: Parameter, program: DefinitionProgram): boolean {
  if (parameter.isRest) return false;
  if (hostContextIn(parameter.type, program) || isMissingContext(parameter)) return true;
  const saysNothing = parameter.type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown) && !isUnresolved(parameter.type);
  return parameter.name === "context" && Boolean(saysNothing) && !parameter.initializer;
}

/** Their names in "berth". */
const contextNames = new Set(["ToolContext", "TransformContext"]);

/**
 * Members of a type that the host's context does not have; undefined when it shares none with the context.
 * `Pick<ToolContext, "signal">` and `ToolContext & { … }` are seen through by where their members were declared.
 */
function hostContextIn(type: ts.Type, program: DefinitionProgram): { missing: readonly string[] } | undefined {
  const { checker } = program;
  const present = checker.getNonNullableType(type);
  const bound =
    present.flags & ts.TypeFlags.Instantiable ? (checker.getBaseConstraintOfType(present) ?? present) : present;
  if (!(bound.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection))) return undefined;
  const members = checker.getPropertiesOfType(bound);
  const others = members.filter((member) => !isOfHost(member, program));
  if (others.length === members.length) return undefined;
  const missing = others.filter((member) => !(member.flags & ts.SymbolFlags.Optional)).map(({ name }) => name);
  return { missing };
}

function isOfHost(member: ts.Symbol, { isLibrary }: DefinitionProgram): boolean {
  return (member.declarations ?? []).some(
    ({ parent }) =>
      ts.isInterfaceDeclaration(parent) && contextNames.has(parent.name.text) && isLibrary(parent.getSourceFile()),
  );
}

/** `ToolContext` of a module that is not there: nothing else can be meant. */
function isMissingContext({ node, type, isRest }: Parameter): boolean {
  return !isRest && node !== undefined && isUnresolved(type) && writtenName(node) === "ToolContext";
}

/** An object called like the context, or of a type that is. A text or a list of that name is plainly an argument. */
function looksLikeContext({ name, node, type, isRest }: Parameter, program: DefinitionProgram): boolean {
  if (isRest || isUnresolved(type)) return false;
  const { checker } = program;
  const members = membersOf(checker.getNonNullableType(type));
  if (members.some((member) => hostContextIn(member, program))) return true;
  const isPlain = members.every(
    (member) =>
      !(member.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection | ts.TypeFlags.Any | ts.TypeFlags.Unknown)) ||
      checker.isArrayLikeType(member) ||
      isFunction(member),
  );
  if (isPlain) return false;
  const names = [type.aliasSymbol?.name, type.symbol?.name, node && writtenName(node)];
  return name === "context" || names.some((each) => each?.endsWith("Context"));
}

function writtenName(node: ts.TypeNode): string | undefined {
  if (ts.isTypeReferenceNode(node)) {
    return ts.isQualifiedName(node.typeName) ? node.typeName.right.text : node.typeName.text;
  }
  return ts.isImportTypeNode(node) && node.qualifier ? node.qualifier.getText().split(".").at(-1) : undefined;
}
