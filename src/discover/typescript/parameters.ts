import ts from "#typescript";
import type { Candidate, Parameter, ReadContext } from "./candidate.ts";
import type { DefinitionProgram } from "./program.ts";
import { expandTuple, resolveList } from "./types/array.ts";
import { isFunction, isObjectLike, isUnresolved, unionMembers } from "./types/kinds.ts";

/** The parameters that callers provide, and whether the host's context follows them. */
interface CallerParameters {
  readonly parameters: readonly Parameter[];
  readonly context: boolean;
}

/** Separates the host's context, by its type or by the name `context`, from the arguments. Reports a misplaced one. */
export function callerParameters(
  candidate: Candidate,
  { program, reporter }: Pick<ReadContext, "program" | "reporter">,
): CallerParameters {
  const all = listParameters(candidate, program.checker);
  const last = all.at(-1);
  const context = last !== undefined && isHostContext(last, program);
  const parameters: Parameter[] = [];
  const { thisParameter } = candidate.signature as { thisParameter?: ts.Symbol };
  const receiver = thisParameter && program.checker.getTypeOfSymbol(thisParameter);
  if (receiver && !program.checker.isTypeAssignableTo(program.checker.getUndefinedType(), receiver)) {
    const node = thisParameter.valueDeclaration ?? candidate.nameNode;
    const message =
      "callers cannot provide this: take it as a parameter with another name, or do not export the function";
    reporter.add("error", "this-parameter", message, node);
  }
  for (const parameter of all) {
    const node = parameter.declaration ?? candidate.nameNode;
    const hostContext = parameter.isRest ? undefined : findHostContext(parameter.type, program);
    if (hostContext && hostContext.missing.length > 0) {
      const names = hostContext.missing.map((name) => `"${name}"`).join(", ");
      const message = `the host's context has no ${names}; use ToolContext of "berth" unchanged (at ${parameter.name})`;
      reporter.add("error", "context-extended", message, node);
    }
    if (parameter === last && context) continue;
    if (hostContext || isMissingContext(parameter)) {
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
  if (findHostContext(parameter.type, program) || isMissingContext(parameter)) return true;
  const isUntyped = parameter.type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown) && !isUnresolved(parameter.type);
  return CONTEXT_NAMES.test(parameter.name) && Boolean(isUntyped) && !parameter.initializer;
}

const CONTEXT_NAMES = /^_?(?:context|ctx)$/;

/** Names of context types in "berth". */
const contextNames = new Set(["ToolContext", "TransformContext"]);

/** The members of a type that the host's context lacks; undefined if it shares none with the context. */
function findHostContext(type: ts.Type, program: DefinitionProgram): { missing: readonly string[] } | undefined {
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

/** `ToolContext` from a module that does not exist: nothing else can be meant. */
function isMissingContext({ node, type, isRest }: Parameter): boolean {
  return !isRest && node !== undefined && isUnresolved(type) && writtenName(node) === "ToolContext";
}

/** An object with the name or the type name of a context. A string or a list of that name is clearly an argument. */
function looksLikeContext({ name, node, type, isRest }: Parameter, program: DefinitionProgram): boolean {
  if (isRest || isUnresolved(type)) return false;
  const { checker } = program;
  const members = unionMembers(checker.getNonNullableType(type));
  if (members.some((member) => findHostContext(member, program))) return true;
  const isPlain = members.every(
    (member) =>
      !(isObjectLike(member) || member.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown)) ||
      checker.isArrayLikeType(member) ||
      isFunction(member),
  );
  if (isPlain) return false;
  const names = [type.aliasSymbol?.name, type.symbol?.name, node && writtenName(node)];
  return name === "context" || names.some((typeName) => typeName?.endsWith("Context"));
}

function writtenName(node: ts.TypeNode): string | undefined {
  if (ts.isTypeReferenceNode(node)) {
    return ts.isQualifiedName(node.typeName) ? node.typeName.right.text : node.typeName.text;
  }
  return ts.isImportTypeNode(node) && node.qualifier ? node.qualifier.getText().split(".").at(-1) : undefined;
}

/** The parameters of a function, with labeled rest tuples expanded: `(...args: [a: string])` has `a`. */
export function listParameters(candidate: Candidate, checker: ts.TypeChecker): readonly Parameter[] {
  if (candidate.parameters) return candidate.parameters;
  const { signature, implementation, doc } = candidate;
  const location = implementation ?? candidate.nameNode;
  const drafts = signature.getParameters().flatMap((symbol) => createDrafts(symbol, location, checker));

  const usedNames = new Set<string>();
  const uniqueName = (base: string, others: ReadonlySet<string | undefined> = usedNames) => {
    let name = base;
    for (let count = 2; usedNames.has(name) || others.has(name); count += 1) name = `${base}${count}`;
    usedNames.add(name);
    return name;
  };
  const ownParameters = implementation?.parameters.filter((parameter) => !isThis(parameter)) ?? [];
  const isSame = (draft: Draft, own: ts.ParameterDeclaration | undefined): own is ts.ParameterDeclaration =>
    own !== undefined && !own.dotDotDotToken === !draft.isRest;
  const patternAt = (draft: Draft, index: number): ts.BindingPattern | undefined => {
    const own = ownParameters[index];
    return isSame(draft, own) && ts.isObjectBindingPattern(own.name) ? own.name : draft.pattern;
  };
  /** True for names such as `far` in `{ far }`, unless `@param far.speed` describes a property `speed`. */
  const isProperty = (name: string, { type }: Draft): boolean => {
    const inner = [...doc.params.keys()].filter((other) => other.startsWith(`${name}.`));
    const isWhole = inner.some((other) => type.getProperty(other.split(".")[1] ?? "") !== undefined);
    return (
      !isWhole &&
      drafts.length > 1 &&
      drafts.some((draft, index) =>
        bindsProperty({ type: draft.type, pattern: patternAt(draft, index) }, name, checker),
      )
    );
  };
  /** A comment may omit a parameter without a name, and continue with the next one or with its properties. */
  const documentedName = (draft: Draft, index: number): string | undefined => {
    const documented = doc.paramNames[index];
    const isOther =
      documented !== undefined && (drafts.some(({ name }) => name === documented) || isProperty(documented, draft));
    return isOther ? undefined : documented;
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
    const fallbackName = (): string => documentedName(draft, index) ?? (drafts.length === 1 ? "args" : "options");
    const type = same ? parameterType(draft, same, checker) : draft.type;
    return {
      name: name === undefined ? uniqueName(fallbackName(), written) : uniqueName(name),
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

/** True if a parameter is destructured and the name is that of one of its properties or variables. */
export function bindsProperty(
  { type, pattern }: Pick<Parameter, "type" | "pattern">,
  name: string,
  checker: ts.TypeChecker,
): boolean {
  if (!pattern || !ts.isObjectBindingPattern(pattern)) return false;
  const isVariable = pattern.elements.some((element) => ts.isIdentifier(element.name) && element.name.text === name);
  return isVariable || checker.getNonNullableType(type).getProperty(name) !== undefined;
}

type Draft = Omit<Parameter, "name"> & { readonly name?: string | undefined };

function createDrafts(symbol: ts.Symbol, location: ts.Node, checker: ts.TypeChecker): Draft[] {
  const declared = symbol.valueDeclaration;
  const declaration = declared && ts.isParameter(declared) ? declared : undefined;
  const type = checker.getTypeOfSymbolAtLocation(symbol, declared ?? location);
  const isRest = Boolean(declaration?.dotDotDotToken) || isRestSymbol(symbol);
  if (isRest) {
    const list = resolveList(type, checker);
    const pattern = declaration && ts.isArrayBindingPattern(declaration.name) ? declaration.name : undefined;
    if (list && checker.isTupleType(list))
      return createTupleDrafts(list as ts.TupleTypeReference, pattern ?? symbol.name, checker);
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
        (isRest && unionMembers(type).every((list) => !checker.isTupleType(list))) ||
        isOptional(declared) ||
        Boolean(symbol.flags & ts.SymbolFlags.Optional),
      isRest,
    },
  ];
}

/** `binding` is the rest parameter's name, or the pattern that destructures it. */
function createTupleDrafts(
  tuple: ts.TupleTypeReference,
  binding: string | ts.ArrayBindingPattern,
  checker: ts.TypeChecker,
): Draft[] {
  const { labeledElementDeclarations } = tuple.target;
  const isSpread = (index: number) => Boolean((tuple.target.elementFlags[index] ?? 0) & ts.ElementFlags.Variadic);
  return expandTuple(tuple, checker).map(({ type, isOptional, isRest, index: written }, index) => {
    const label = isSpread(written) && !isRest ? undefined : labeledElementDeclarations?.[written];
    const element = typeof binding === "string" ? undefined : binding.elements[index];
    const elementName =
      element && ts.isBindingElement(element) && ts.isIdentifier(element.name) ? element.name.text : undefined;
    const labelName = label && ts.isIdentifier(label.name) ? label.name.text : elementName;
    const prefix = typeof binding === "string" ? binding : "args";
    return {
      name: labelName ?? (label ? undefined : `${prefix}_${index}`),
      type: isRest ? createArrayType(type, checker) : type,
      node: isRest ? undefined : label?.type,
      declaration: label,
      initializer: label && ts.isParameter(label) ? label.initializer : undefined,
      pattern: label && ts.isParameter(label) && !ts.isIdentifier(label.name) ? label.name : undefined,
      isOptional: isOptional || isRest,
      isRest,
    };
  });
}

export function createArrayType(type: ts.Type, checker: ts.TypeChecker): ts.Type {
  return (checker as unknown as { createArrayType(element: ts.Type): ts.Type }).createArrayType(type);
}

/** In a generic wrapper, the checker types a parameter with a default as `unknown`; its default is more precise. */
function parameterType({ type }: Draft, own: ts.ParameterDeclaration, checker: ts.TypeChecker): ts.Type {
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

/** True for an untyped parameter that its function does not read: its name begins with `_`, or it is unused. */
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
