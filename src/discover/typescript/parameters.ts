import ts from "#typescript";
import type { Candidate, Parameter, Reading } from "./candidate.ts";
import type { DefinitionProgram } from "./program.ts";
import { elementsOfTuple, knownList } from "./types/array.ts";
import { isFunction, isObjectLike, isUnresolved, membersOf } from "./types/kinds.ts";

/** The parameters that callers fill in, and whether the host's context comes after them. */
interface Taken {
  readonly parameters: readonly Parameter[];
  readonly context: boolean;
}

/**
 * Tells the host's context from the arguments: by its type, which is one of "berth", or by the name `context` where
 * nothing is said of the type. Reports a context that stands in the wrong place, and an argument that looks like one.
 */
export function takenParameters(
  candidate: Candidate,
  { program, reporter }: Pick<Reading, "program" | "reporter">,
): Taken {
  const all = parametersOf(candidate, program.checker);
  const last = all.at(-1);
  const context = last !== undefined && isHostContext(last, program);
  const parameters: Parameter[] = [];
  const { thisParameter } = candidate.signature as { thisParameter?: ts.Symbol };
  const receiver = thisParameter && program.checker.getTypeOfSymbol(thisParameter);
  if (receiver && !program.checker.isTypeAssignableTo(program.checker.getUndefinedType(), receiver)) {
    const node = thisParameter.valueDeclaration ?? candidate.nameNode;
    const message = "callers cannot give this: take it as a parameter with another name, or do not export the function";
    reporter.add("error", "this-parameter", message, node);
  }
  for (const parameter of all) {
    const node = parameter.declaration ?? candidate.nameNode;
    const found = parameter.isRest ? undefined : hostContextIn(parameter.type, program);
    if (found && found.missing.length > 0) {
      const names = found.missing.map((name) => `"${name}"`).join(", ");
      const message = `the host's context has no ${names}; use ToolContext of "berth" unchanged (at ${parameter.name})`;
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
        `${name} is an argument that clients send, because its type is not ToolContext of "berth"; ` +
        `for the host's context write ${parameter === last ? "" : "as the last parameter "}${name}: ToolContext, ` +
        'and import type { ToolContext } from "berth"';
      reporter.add("warning", "not-the-context", message, node);
    }
    parameters.push(parameter);
  }
  return { parameters, context };
}

export function isHostContext(parameter: Parameter, program: DefinitionProgram): boolean {
  if (parameter.isRest) return false;
  if (hostContextIn(parameter.type, program) || isMissingContext(parameter)) return true;
  const saysNothing = parameter.type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown) && !isUnresolved(parameter.type);
  return CONTEXT_NAMES.test(parameter.name) && Boolean(saysNothing) && !parameter.initializer;
}

const CONTEXT_NAMES = /^_?(?:context|ctx)$/;

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
  if (!isObjectLike(bound)) return undefined;
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
      !(isObjectLike(member) || member.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown)) ||
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

/**
 * The parameters of a function, with labelled rest tuples written out: `(...args: [a: string, b?: number])` has the
 * parameters `a` and `b`.
 */
export function parametersOf(candidate: Candidate, checker: ts.TypeChecker): readonly Parameter[] {
  if (candidate.parameters) return candidate.parameters;
  const { signature, implementation, doc } = candidate;
  const location = implementation ?? candidate.nameNode;
  const drafts = signature.getParameters().flatMap((symbol) => draftsOf(symbol, location, checker));

  const taken = new Set<string>();
  const uniqueName = (wanted: string, others: ReadonlySet<string | undefined> = taken) => {
    let name = wanted;
    for (let count = 2; taken.has(name) || others.has(name); count += 1) name = `${wanted}${count}`;
    taken.add(name);
    return name;
  };
  const ownParameters = implementation?.parameters.filter((parameter) => !isThis(parameter)) ?? [];
  const isSame = (draft: Draft, own: ts.ParameterDeclaration | undefined): own is ts.ParameterDeclaration =>
    own !== undefined && !own.dotDotDotToken === !draft.isRest;
  const patternAt = (draft: Draft, index: number): ts.BindingPattern | undefined => {
    const own = ownParameters[index];
    return isSame(draft, own) && ts.isObjectBindingPattern(own.name) ? own.name : draft.pattern;
  };
  /** Such as `far` of `{ far }`, unless it stands in `@param far.speed` and `speed` is a property, too. */
  const isProperty = (name: string, { type }: Draft): boolean => {
    const inner = [...doc.params.keys()].filter((other) => other.startsWith(`${name}.`));
    const isWhole = inner.some((other) => type.getProperty(other.split(".")[1] ?? "") !== undefined);
    return (
      !isWhole &&
      drafts.length > 1 &&
      drafts.some((draft, index) => takes({ type: draft.type, pattern: patternAt(draft, index) }, name, checker))
    );
  };
  /** A comment may leave out a parameter that has no name, and go on with the next or with what it is taken apart into. */
  const spokenName = (draft: Draft, index: number): string | undefined => {
    const spoken = doc.paramNames[index];
    const isOther = spoken !== undefined && (drafts.some(({ name }) => name === spoken) || isProperty(spoken, draft));
    return isOther ? undefined : spoken;
  };
  const writtenNames = drafts.map(({ name }, index) => {
    const own = ownParameters[index];
    return name ?? (own && ts.isIdentifier(own.name) ? own.name.text : undefined);
  });
  const written = new Set(writtenNames);
  const finish = (draft: Draft, index: number): Parameter => {
    const own = ownParameters[index];
    const same = isSame(draft, own) ? own : undefined;
    const name = writtenNames[index];
    const madeUp = (): string => spokenName(draft, index) ?? (drafts.length === 1 ? "args" : "options");
    const type = same ? typeOf(draft, same, checker) : draft.type;
    return {
      name: name === undefined ? uniqueName(madeUp(), written) : uniqueName(name),
      type,
      node: draft.node,
      declaration: same ?? draft.declaration,
      initializer: draft.initializer ?? same?.initializer,
      pattern: patternAt(draft, index),
      isOptional: draft.isOptional || Boolean(same?.initializer) || isIgnored(type, same ?? draft.declaration),
      isRest: draft.isRest,
    };
  };
  return drafts.map(finish);
}

/** True where a parameter is taken apart, and the name is that of a property of it or of a variable for one. */
export function takes(
  { type, pattern }: Pick<Parameter, "type" | "pattern">,
  name: string,
  checker: ts.TypeChecker,
): boolean {
  if (!pattern || !ts.isObjectBindingPattern(pattern)) return false;
  const isVariable = pattern.elements.some((element) => ts.isIdentifier(element.name) && element.name.text === name);
  return isVariable || checker.getNonNullableType(type).getProperty(name) !== undefined;
}

type Draft = Omit<Parameter, "name"> & { readonly name?: string | undefined };

function draftsOf(symbol: ts.Symbol, location: ts.Node, checker: ts.TypeChecker): Draft[] {
  const declared = symbol.valueDeclaration;
  const declaration = declared && ts.isParameter(declared) ? declared : undefined;
  const type = checker.getTypeOfSymbolAtLocation(symbol, declared ?? location);
  const isRest = Boolean(declaration?.dotDotDotToken) || isRestSymbol(symbol);
  if (isRest) {
    const list = knownList(type, checker);
    const pattern = declaration && ts.isArrayBindingPattern(declaration.name) ? declaration.name : undefined;
    if (list && checker.isTupleType(list))
      return elementsOf(list as ts.TupleTypeReference, pattern ?? symbol.name, checker);
  }
  const name = declaration && !ts.isIdentifier(declaration.name) ? undefined : symbol.name;
  return [
    {
      name,
      type,
      node: declaration?.type,
      declaration: declared,
      initializer: declaration?.initializer,
      pattern: declaration && !ts.isIdentifier(declaration.name) ? declaration.name : undefined,
      isOptional:
        (isRest && membersOf(type).every((list) => !checker.isTupleType(list))) ||
        isOptional(declared) ||
        Boolean(symbol.flags & ts.SymbolFlags.Optional),
      isRest,
    },
  ];
}

/** `named`: the rest parameter's name, or the names that it is taken apart into. */
function elementsOf(
  tuple: ts.TupleTypeReference,
  named: string | ts.ArrayBindingPattern,
  checker: ts.TypeChecker,
): Draft[] {
  const { labeledElementDeclarations } = tuple.target;
  const isSpread = (index: number) => Boolean((tuple.target.elementFlags[index] ?? 0) & ts.ElementFlags.Variadic);
  return elementsOfTuple(tuple, checker).map(({ type, isOptional, isRest, index: written }, index) => {
    const label = isSpread(written) && !isRest ? undefined : labeledElementDeclarations?.[written];
    const taken = typeof named === "string" ? undefined : named.elements[index];
    const takenName = taken && ts.isBindingElement(taken) && ts.isIdentifier(taken.name) ? taken.name.text : undefined;
    const labelName = label && ts.isIdentifier(label.name) ? label.name.text : takenName;
    const prefix = typeof named === "string" ? named : "args";
    return {
      name: labelName ?? (label ? undefined : `${prefix}_${index}`),
      type: isRest ? arrayOf(type, checker) : type,
      node: isRest ? undefined : label?.type,
      declaration: label,
      initializer: label && ts.isParameter(label) ? label.initializer : undefined,
      pattern: label && ts.isParameter(label) && !ts.isIdentifier(label.name) ? label.name : undefined,
      isOptional: isOptional || isRest,
      isRest,
    };
  });
}

export function arrayOf(type: ts.Type, checker: ts.TypeChecker): ts.Type {
  return (checker as unknown as { createArrayType(element: ts.Type): ts.Type }).createArrayType(type);
}

/** A parameter with a default inside a generic wrapper is `unknown` to the checker; its default knows better. */
function typeOf({ type }: Draft, own: ts.ParameterDeclaration, checker: ts.TypeChecker): ts.Type {
  const isKnown = !(type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown)) || own.type;
  if (isKnown || !own.initializer) return type;
  return checker.getBaseTypeOfLiteralType(checker.getTypeAtLocation(own.initializer));
}

function isRestSymbol(symbol: ts.Symbol): boolean {
  const restParameter = 1 << 15;
  const { links } = symbol as { links?: { checkFlags?: number } };
  return Boolean((links?.checkFlags ?? 0) & restParameter);
}

function isOptional(declared: ts.Node | undefined): boolean {
  if (!declared) return false;
  if (ts.isParameter(declared)) return Boolean(declared.questionToken ?? declared.initializer);
  return ts.isNamedTupleMember(declared) && declared.questionToken !== undefined;
}

/** True for a parameter of any type that its function does not read: its name begins with `_`, or is not used. */
function isIgnored(type: ts.Type, declared: ts.Node | undefined): boolean {
  const takesAnything = type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown) && !isUnresolved(type);
  if (!takesAnything || !declared || !ts.isParameter(declared) || !ts.isIdentifier(declared.name)) return false;
  const { name, parent } = declared;
  const isUsedIn = (node: ts.Node): boolean =>
    (ts.isIdentifier(node) && node !== name && [name.text, "arguments"].includes(node.text)) ||
    ts.forEachChild(node, (child) => isUsedIn(child) || undefined) === true;
  return name.text.startsWith("_") || ("body" in parent && parent.body !== undefined && !isUsedIn(parent));
}

function isThis(parameter: ts.ParameterDeclaration): boolean {
  return ts.isIdentifier(parameter.name) && parameter.name.text === "this";
}
