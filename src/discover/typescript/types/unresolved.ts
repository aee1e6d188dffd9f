import { isBuiltin } from "node:module";
import ts from "#typescript";
import { NODE_TYPES } from "../../../packages/package-name.ts";
import { followAlias, isUnresolved, valueInScope } from "./kinds.ts";
import type { Walker } from "./walker.ts";
import { aliasAt, declaredNode } from "./written-types.ts";

/** The first name in a written type that cannot be resolved, with what is known about the reason. */
export interface UnresolvedName {
  readonly node: ts.Node;
  readonly name: string;
  /** The module that should export it, unless that is a file of the definition. */
  readonly module?: string;
  /** The node at which the checker reports it: this one, or the import statement. */
  readonly complaint: ts.Node;
  /** The type to write instead, if the name is that of a value. */
  readonly instead?: string;
}

/** Explains why a name cannot be resolved, as far as its import shows. */
export function explainUnresolved({ name, module, instead }: UnresolvedName): string {
  if (instead !== undefined) return `${name} is a value, not a type: write ${instead}`;
  const subject = `the type ${name} cannot be found`;
  if (module === undefined && name.startsWith("NodeJS."))
    return `${subject}: add the package ${NODE_TYPES}, which has it`;
  if (module === undefined) return subject;
  const reason = isBuiltin(module)
    ? "and discovery knows only those of its types that berth.d.ts declares"
    : "which is not among the files of this definition";
  const hint = module === "xmcp" ? "; write the type itself, as in { name }: { name: string }" : "";
  return `${subject}: it is imported from "${module}", ${reason}${hint}`;
}

/** The HTTP framework whose request or response type this is: a tool receives its arguments instead. */
export function httpFramework(node: ts.TypeNode | undefined): string | undefined {
  let name = node && ts.isTypeReferenceNode(node) ? node.typeName : undefined;
  while (name && ts.isQualifiedName(name)) name = name.left;
  const module = name && importedModule(findImport(name));
  return module !== undefined && HTTP_FRAMEWORKS.has(module) ? module : undefined;
}

const HTTP_FRAMEWORKS: ReadonlySet<string> = new Set("express fastify hono koa next/server @vercel/node".split(" "));

/** The module of the import that contains a node. */
export function importedModule(node: ts.Node | undefined): string | undefined {
  const specifier = ts.findAncestor(node, ts.isImportDeclaration)?.moduleSpecifier;
  return specifier && ts.isStringLiteral(specifier) ? specifier.text : undefined;
}

type Context = Pick<Walker, "checker" | "isLibrary" | "direction">;

/** Also searches the definition's own aliases and the bases of its interfaces, which look valid to the checker. */
export function unresolvedName(
  node: ts.Node | undefined,
  context: Context,
  seen = new Set<ts.Node>(),
): UnresolvedName | undefined {
  const { checker, isLibrary } = context;
  if (!node || seen.has(node)) return undefined;
  seen.add(node);
  const name = nameIn(node);
  if (name && !resolves(name, checker)) {
    const instead = typeInstead(name, checker);
    return {
      node: name,
      name: name.getText(),
      ...findOrigin(name, checker),
      ...(instead !== undefined && { instead }),
    };
  }
  if (ts.isImportTypeNode(node) && isUnresolved(checker.getTypeFromTypeNode(node))) {
    const { argument, qualifier } = node;
    const module = ts.isLiteralTypeNode(argument) && ts.isStringLiteral(argument.literal) ? argument.literal.text : "";
    const name = qualifier?.getText() ?? node.getText();
    if (module !== "" && !module.startsWith(".")) return { node, name, module, complaint: node };
  }
  const alias = ts.isTypeReferenceNode(node) ? declaredNode(aliasAt(node, checker)) : undefined;
  const aliasTarget = alias && !isLibrary(alias.getSourceFile()) ? alias : undefined;
  return (
    unresolvedName(aliasTarget, context, seen) ??
    (name && needsEveryKey(node, context)
      ? unresolvedBase(checker.getSymbolAtLocation(name), context, seen)
      : undefined) ??
    ts.forEachChild(node, (child) => unresolvedName(child, context, seen))
  );
}

/** The first unresolved name among the bases of an interface or class, whose properties are then incomplete. */
export function unresolvedBase(
  symbol: ts.Symbol | undefined,
  context: Context,
  seen = new Set<ts.Node>(),
): UnresolvedName | undefined {
  const target = followAlias(symbol, context.checker);
  for (const declaration of target?.declarations ?? []) {
    if (!ts.isInterfaceDeclaration(declaration) && !ts.isClassLike(declaration)) continue;
    if (context.isLibrary(declaration.getSourceFile())) continue;
    for (const { token, types } of declaration.heritageClauses ?? []) {
      if (token !== ts.SyntaxKind.ExtendsKeyword) continue;
      for (const base of types) {
        // For `extends mixin(Base)`, the checker knows the result of the call.
        const missing = ts.isCallExpression(base.expression) ? undefined : unresolvedName(base, context, seen);
        if (missing) return missing;
      }
    }
  }
  return undefined;
}

/**
 * `Pick<Own, "name">` and `Own["name"]` need only the body, whatever else there is. A result may contain more than its
 * schema describes, except if its keys are the values.
 */
function needsEveryKey({ parent }: ts.Node, { direction }: Context): boolean {
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
  // For a name that it cannot find, the checker creates a symbol without declarations.
  if (!symbol.declarations?.length) return symbol.name === "globalThis" || symbol.name === "undefined";
  if (!(symbol.flags & ts.SymbolFlags.Alias)) return true;
  const aliased = checker.getAliasedSymbol(symbol);
  if (checker.isUnknownSymbol(aliased)) return false;
  // If the checker knows only the name of a module, every name in it is a value and none is a type.
  const isNameOnly = aliased.declarations?.every((it) => ts.isModuleDeclaration(it) && !it.body) ?? false;
  return !isNameOnly || ts.isTypeQueryNode(name.parent);
}

/** The type of a value whose name is written in place of a type: `z.infer<typeof Options>` for a zod schema. */
function typeInstead(name: ts.Node, checker: ts.TypeChecker): string | undefined {
  if (!ts.isIdentifier(name) || !ts.isTypeReferenceNode(name.parent)) return undefined;
  const declaration = followAlias(valueInScope(name.text, name, checker), checker)?.valueDeclaration;
  if (!declaration || !ts.isVariableDeclaration(declaration)) return undefined;
  let root: ts.Expression | undefined = declaration.initializer;
  while (root && (ts.isCallExpression(root) || ts.isPropertyAccessExpression(root))) root = root.expression;
  const module = (root && importedModule(findImport(root))) ?? "";
  const [, infer] = INFERRED.find(([modules]) => modules.test(module)) ?? [];
  return infer?.(root!.getText(), name.text) ?? `typeof ${name.text}`;
}

/** How schema libraries name the type of the values that a schema allows. */
const INFERRED: readonly (readonly [modules: RegExp, infer: (root: string, schema: string) => string])[] = [
  [/^zod\b/, (_, schema) => `z.infer<typeof ${schema}>`],
  [/^valibot$/, (root, schema) => `${/^v$/.test(root) ? "v." : ""}InferOutput<typeof ${schema}>`],
  [/^arktype$/, (_, schema) => `typeof ${schema}.infer`],
  [/^(?:@sinclair\/)?typebox$/, (_, schema) => `Static<typeof ${schema}>`],
];

/** The import of a name: its module, or the node in the import that names what the module does not export. */
function findOrigin(name: ts.Node, checker: ts.TypeChecker): Pick<UnresolvedName, "module" | "complaint"> {
  let first = name;
  while (ts.isQualifiedName(first)) first = first.left;
  const declaration = findImport(first);
  const statement = declaration && ts.findAncestor(declaration, ts.isImportDeclaration);
  if (!statement || !ts.isStringLiteral(statement.moduleSpecifier)) return { complaint: name };
  const { moduleSpecifier } = statement;
  return checker.getSymbolAtLocation(moduleSpecifier) && !isBuiltin(moduleSpecifier.text)
    ? { complaint: declaration }
    : { module: moduleSpecifier.text, complaint: moduleSpecifier };
}

/** The node that imports a name. The checker has no symbols for a module that it knows only by name. */
export function findImport(name: ts.Node): ts.Node | undefined {
  const text = name.getText();
  for (const statement of name.getSourceFile().statements) {
    const clause = ts.isImportDeclaration(statement) ? statement.importClause : undefined;
    if (clause?.name?.text === text) return clause;
    const bindings = clause?.namedBindings;
    const elements = !bindings ? [] : ts.isNamespaceImport(bindings) ? [bindings] : bindings.elements;
    const match = elements.find((element) => element.name.text === text);
    if (match) return match;
  }
  return undefined;
}
