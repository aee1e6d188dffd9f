import { isBuiltin } from "node:module";
import ts from "#typescript";
import { NODE_TYPES } from "../../../packages/package-name.ts";
import { followAlias, isUnresolved, valueInScope } from "./kinds.ts";
import type { Walker } from "./walker.ts";
import { aliasAt, declaredNode } from "./written-types.ts";

/** The first name in a written type that leads nowhere, with what is known about why. */
export interface UnresolvedName {
  readonly node: ts.Node;
  readonly name: string;
  /** The module that it should have come from, where that is no file of the definition. */
  readonly module?: string;
  /** Where the checker complains about it: here, or in the import statement. */
  readonly complaint: ts.Node;
  /** The type to write, where the name is one of a value. */
  readonly instead?: string;
}

/** Why a name leads nowhere, as far as its import says. */
export function sayUnresolved({ name, module, instead }: UnresolvedName): string {
  if (instead !== undefined) return `${name} is a value, not a type: write ${instead}`;
  const what = `the type ${name} cannot be found`;
  if (module === undefined && name.startsWith("NodeJS.")) return `${what}: add the package ${NODE_TYPES}, which has it`;
  if (module === undefined) return what;
  const why = isBuiltin(module)
    ? "of whose types discovery knows only those that berth.d.ts declares"
    : "which is not among the files of this definition";
  const hint = module === "xmcp" ? "; write the type itself, as in { name }: { name: string }" : "";
  return `${what}: it is imported from "${module}", ${why}${hint}`;
}

/** The framework whose requests and responses a type is about: a tool gets its arguments instead. */
export function httpFramework(node: ts.TypeNode | undefined): string | undefined {
  let name = node && ts.isTypeReferenceNode(node) ? node.typeName : undefined;
  while (name && ts.isQualifiedName(name)) name = name.left;
  const module = name && importedModule(importOf(name));
  return module !== undefined && HTTP_FRAMEWORKS.has(module) ? module : undefined;
}

const HTTP_FRAMEWORKS: ReadonlySet<string> = new Set("express fastify hono koa next/server @vercel/node".split(" "));

/** The module of an import that a node is in. */
export function importedModule(node: ts.Node | undefined): string | undefined {
  const specifier = ts.findAncestor(node, ts.isImportDeclaration)?.moduleSpecifier;
  return specifier && ts.isStringLiteral(specifier) ? specifier.text : undefined;
}

type Known = Pick<Walker, "checker" | "isLibrary" | "direction">;

/**
 * Looks through the definition's own aliases, and at what its interfaces extend: `Partial<Missing>` and
 * `interface Own extends Missing` are types that look sound.
 */
export function unresolvedName(
  node: ts.Node | undefined,
  known: Known,
  seen = new Set<ts.Node>(),
): UnresolvedName | undefined {
  const { checker, isLibrary } = known;
  if (!node || seen.has(node)) return undefined;
  seen.add(node);
  const name = nameIn(node);
  if (name && !resolves(name, checker)) {
    const instead = typeInstead(name, checker);
    return { node: name, name: name.getText(), ...originOf(name, checker), ...(instead !== undefined && { instead }) };
  }
  if (ts.isImportTypeNode(node) && isUnresolved(checker.getTypeFromTypeNode(node))) {
    const { argument, qualifier } = node;
    const module = ts.isLiteralTypeNode(argument) && ts.isStringLiteral(argument.literal) ? argument.literal.text : "";
    const name = qualifier?.getText() ?? node.getText();
    if (module !== "" && !module.startsWith(".")) return { node, name, module, complaint: node };
  }
  const alias = ts.isTypeReferenceNode(node) ? declaredNode(aliasAt(node, checker)) : undefined;
  const behind = alias && !isLibrary(alias.getSourceFile()) ? alias : undefined;
  return (
    unresolvedName(behind, known, seen) ??
    (name && needsEveryKey(node, known) ? unresolvedBase(checker.getSymbolAtLocation(name), known, seen) : undefined) ??
    ts.forEachChild(node, (child) => unresolvedName(child, known, seen))
  );
}

/**
 * The first unresolved name among those that an interface or a class extends, at any level. What stands in its own body
 * is then not all that it has, which the checker does not tell.
 */
export function unresolvedBase(
  symbol: ts.Symbol | undefined,
  known: Known,
  seen = new Set<ts.Node>(),
): UnresolvedName | undefined {
  const target = followAlias(symbol, known.checker);
  for (const declaration of target?.declarations ?? []) {
    if (!ts.isInterfaceDeclaration(declaration) && !ts.isClassLike(declaration)) continue;
    if (known.isLibrary(declaration.getSourceFile())) continue;
    for (const { token, types } of declaration.heritageClauses ?? []) {
      if (token !== ts.SyntaxKind.ExtendsKeyword) continue;
      for (const base of types) {
        // Of `extends mixin(Base)` the checker knows what the call gives.
        const missing = ts.isCallExpression(base.expression) ? undefined : unresolvedName(base, known, seen);
        if (missing) return missing;
      }
    }
  }
  return undefined;
}

/**
 * `Pick<Own, "name">` and `Own["name"]` take what stands in the body, whatever else there is. A result may hold more
 * than its schema tells, except where its keys are the values.
 */
function needsEveryKey({ parent }: ts.Node, { direction }: Known): boolean {
  if (ts.isTypeOperatorNode(parent) && parent.operator === ts.SyntaxKind.KeyOfKeyword) return true;
  if (direction === "output" || ts.isIndexedAccessTypeNode(parent)) return false;
  return !(ts.isTypeReferenceNode(parent) && ts.isIdentifier(parent.typeName) && parent.typeName.text === "Pick");
}

function nameIn(node: ts.Node): ts.Node | undefined {
  if (ts.isTypeReferenceNode(node)) return node.typeName;
  if (ts.isTypeQueryNode(node)) return ts.isImportTypeNode(node.exprName) ? undefined : node.exprName;
  return ts.isExpressionWithTypeArguments(node) ? node.expression : undefined;
}

function resolves(name: ts.Node, checker: ts.TypeChecker): boolean {
  const symbol = checker.getSymbolAtLocation(name);
  if (!symbol || checker.isUnknownSymbol(symbol)) return false;
  // For a name that it cannot find the checker makes up a symbol, declared nowhere.
  if (!symbol.declarations?.length) return symbol.name === "globalThis" || symbol.name === "undefined";
  if (!(symbol.flags & ts.SymbolFlags.Alias)) return true;
  const aliased = checker.getAliasedSymbol(symbol);
  if (checker.isUnknownSymbol(aliased)) return false;
  // Of a module of which the checker knows the name alone any name is a value, and none a type.
  const isNameAlone = aliased.declarations?.every((it) => ts.isModuleDeclaration(it) && !it.body) ?? false;
  return !isNameAlone || ts.isTypeQueryNode(name.parent);
}

/** The type of a value that is written in place of a type: `z.infer<typeof Options>` of a schema of zod. */
function typeInstead(name: ts.Node, checker: ts.TypeChecker): string | undefined {
  if (!ts.isIdentifier(name) || !ts.isTypeReferenceNode(name.parent)) return undefined;
  const declaration = followAlias(valueInScope(name.text, name, checker), checker)?.valueDeclaration;
  if (!declaration || !ts.isVariableDeclaration(declaration)) return undefined;
  let root: ts.Expression | undefined = declaration.initializer;
  while (root && (ts.isCallExpression(root) || ts.isPropertyAccessExpression(root))) root = root.expression;
  const module = (root && importedModule(importOf(root))) ?? "";
  const [, infer] = INFERRED.find(([modules]) => modules.test(module)) ?? [];
  return infer?.(root!.getText(), name.text) ?? `typeof ${name.text}`;
}

/** How libraries of schemas name the type of a value that a schema allows. */
const INFERRED: readonly (readonly [modules: RegExp, infer: (root: string, schema: string) => string])[] = [
  [/^zod\b/, (_, schema) => `z.infer<typeof ${schema}>`],
  [/^valibot$/, (root, schema) => `${/^v$/.test(root) ? "v." : ""}InferOutput<typeof ${schema}>`],
  [/^arktype$/, (_, schema) => `typeof ${schema}.infer`],
  [/^(?:@sinclair\/)?typebox$/, (_, schema) => `Static<typeof ${schema}>`],
];

/** The import that brought a name in: its module, or the place in it that names what the module does not have. */
function originOf(name: ts.Node, checker: ts.TypeChecker): Pick<UnresolvedName, "module" | "complaint"> {
  let first = name;
  while (ts.isQualifiedName(first)) first = first.left;
  const declaration = importOf(first);
  const statement = declaration && ts.findAncestor(declaration, ts.isImportDeclaration);
  if (!statement || !ts.isStringLiteral(statement.moduleSpecifier)) return { complaint: name };
  const { moduleSpecifier } = statement;
  return checker.getSymbolAtLocation(moduleSpecifier) && !isBuiltin(moduleSpecifier.text)
    ? { complaint: declaration }
    : { module: moduleSpecifier.text, complaint: moduleSpecifier };
}

/**
 * The place in an import that brings a name into its file. The checker has no symbol for a type of a module of which it
 * knows the name alone (`declare module "node:stream"`).
 */
export function importOf(name: ts.Node): ts.Node | undefined {
  const text = name.getText();
  for (const statement of name.getSourceFile().statements) {
    const clause = ts.isImportDeclaration(statement) ? statement.importClause : undefined;
    if (clause?.name?.text === text) return clause;
    const bindings = clause?.namedBindings;
    const named = !bindings ? [] : ts.isNamespaceImport(bindings) ? [bindings] : bindings.elements;
    const found = named.find((each) => each.name.text === text);
    if (found) return found;
  }
  return undefined;
}
