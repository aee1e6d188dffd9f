import ts from "#typescript";
import { isObject } from "../lib/json.ts";
import type { Candidate } from "./candidate.ts";
import { hintsIn } from "./described-schemas.ts";
import type { DescribedTool } from "./discovery.ts";
import { docOfSymbol } from "./doc-comments.ts";
import { evaluate } from "./evaluate.ts";
import { HANDLERS } from "./handlers.ts";
import type { DefinitionProgram } from "./program.ts";
import type { SchemaSource, SchemaSources } from "./schema-sources.ts";
import { isHidden } from "./tags.ts";

/**
 * Tools as other libraries have them: objects with a handler, a description, and a schema of the arguments, exported one
 * by one, in a list, or under names. What they hold is known when the module has been loaded; here it is found that they
 * are tools, and which function of the source is the handler.
 */

/** A candidate for each tool in an object; none as long as nothing has been loaded. */
export function toolObjects(program: DefinitionProgram, schemas: SchemaSources, server: string): Candidate[] {
  const { checker } = program;
  const seen = new Set<number>();
  return exportedObjects(program).flatMap(({ exported, target, type, expression, node }) => {
    const doc = docOfSymbol(target);
    if (isHidden(exported.name, doc)) return [];
    return (schemas.describedTools(exported.name) ?? []).flatMap((described): Candidate[] => {
      // Often each tool is exported, and all of them in a list.
      if (seen.size === seen.add(described.id).size) return [];
      const place = inside({ type, expression, node }, described.at, checker);
      const parts = place && toolParts(place.type, checker);
      if (!place || !parts) return [];
      const own = place.expression && functionIn(place.expression, parts.handler.name, checker);
      const held = checker.getNonNullableType(checker.getTypeOfSymbol(parts.handler)).getCallSignatures()[0]!;
      const signature = (own && checker.getTypeAtLocation(own).getCallSignatures()[0]) ?? held;
      const name = toolName(described, exported.name === "default" ? server : exported.name);
      return [
        {
          name,
          export: exported.name,
          doc: { ...doc, description: described.description ?? doc.description },
          signature,
          signatures: [signature],
          ...(own && isFunctionNode(own) && { implementation: own }),
          clashing: [],
          nameNode: place.node,
          object: {
            value: { export: exported.name, path: described.at },
            described,
            handler: parts.handler.name,
            ...(parts.schema && { schema: parts.schema.name }),
          },
        },
      ];
    });
  });
}

interface Place {
  readonly type: ts.Type;
  readonly expression: ts.Expression | undefined;
  /** Where to point. */
  readonly node: ts.Node;
}

/** The exports that hold tools. */
export function exportedObjects(program: DefinitionProgram): (Place & { exported: ts.Symbol; target: ts.Symbol })[] {
  const { checker, entry, isOfPackage } = program;
  const module = checker.getSymbolAtLocation(entry);
  return (module ? checker.getExportsOfModule(module) : []).flatMap((exported) => {
    const target = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
    const declaration = target.valueDeclaration ?? target.declarations?.[0];
    if (!declaration || isOfPackage(declaration.getSourceFile()) || !(target.flags & ts.SymbolFlags.Value)) return [];
    const type = checker.getTypeOfSymbolAtLocation(target, entry);
    if (!holdsTools(type, checker)) return [];
    const expression = ts.isExportAssignment(declaration)
      ? declaration.expression
      : ts.isVariableDeclaration(declaration)
        ? declaration.initializer
        : undefined;
    return [{ exported, target, type, expression, node: ts.getNameOfDeclaration(declaration) ?? declaration }];
  });
}

function holdsTools(type: ts.Type, checker: ts.TypeChecker): boolean {
  if (toolParts(type, checker)) return true;
  // A class holds its prototype.
  const isCalled = type.getCallSignatures().length + type.getConstructSignatures().length > 0;
  if (!(type.flags & ts.TypeFlags.Object) || isCalled) return false;
  const held = checker.isArrayLikeType(type)
    ? checker.getTypeArguments(type as ts.TypeReference)
    : checker.getPropertiesOfType(type).map((property) => checker.getTypeOfSymbol(property));
  return held.some((each) => [each, ...membersOf(each)].some((it) => toolParts(it, checker) !== undefined));
}

function membersOf(type: ts.Type): readonly ts.Type[] {
  return type.isUnion() ? type.types : [type];
}

/** Without a schema, of other names too many are something else. */
const NAMED_HANDLERS: ReadonlySet<string> = new Set(["execute", "handler"]);
const SCHEMAS: readonly string[] = ["inputSchema", "parameters", "schema"];

/** The handler and the schema of a tool; undefined for anything else. */
function toolParts(type: ts.Type, checker: ts.TypeChecker): { handler: ts.Symbol; schema?: ts.Symbol } | undefined {
  const areObjects = membersOf(type).every(({ flags }) => flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection));
  if (!areObjects || type.getCallSignatures().length > 0) return undefined;
  const presentType = (property: ts.Symbol | undefined): ts.Type | undefined =>
    property && checker.getNonNullableType(checker.getTypeOfSymbol(property));
  const isText = (name: string): boolean => {
    const text = presentType(type.getProperty(name));
    return text !== undefined && membersOf(text).some(({ flags }) => flags & ts.TypeFlags.StringLike);
  };
  const handler = HANDLERS.flatMap((name) => type.getProperty(name) ?? []).find(
    (property) => presentType(property)!.getCallSignatures().length > 0,
  );
  const schema = SCHEMAS.flatMap((name) => type.getProperty(name) ?? [])[0];
  const isNamed = isText("name") && handler !== undefined && NAMED_HANDLERS.has(handler.name);
  if (!handler || !isText("description") || (!schema && !isNamed)) return undefined;
  // Commands, routes and plugins look like tools, but take texts, or have lists of names for a schema.
  const [argument] = presentType(handler)!.getCallSignatures()[0]!.parameters;
  const object = schema ?? argument;
  if (object && membersOf(presentType(object)!).some((member) => isValue(member, checker))) return undefined;
  return { handler, ...(schema && { schema }) };
}

/** True for what is no object with properties. */
function isValue(type: ts.Type, checker: ts.TypeChecker): boolean {
  const { StringLike, NumberLike, BooleanLike, BigIntLike } = ts.TypeFlags;
  return Boolean(type.flags & (StringLike | NumberLike | BooleanLike | BigIntLike)) || checker.isArrayLikeType(type);
}

/** The names under which clients may call a tool. */
const NAME = /^[A-Za-z0-9_.-]{1,128}$/;

/** Adds the exports `metadata`, `schema` and `outputSchema` to a default function, as xmcp does. */
export function withMetadata(candidate: Candidate, program: DefinitionProgram, schemas: SchemaSources): Candidate {
  const { checker, entry } = program;
  if (candidate.export !== "default") return candidate;
  const module = checker.getExportsOfModule(checker.getSymbolAtLocation(entry)!);
  const findExport = (name: string): ts.Symbol | undefined => module.find((each) => each.name === name);
  const declared = findExport("metadata")?.valueDeclaration;
  const initializer = declared && ts.isVariableDeclaration(declared) ? declared.initializer : undefined;
  const metadata = initializer ? evaluate(initializer, checker) : {};
  if (!isObject(metadata) || (!initializer && !/\bfrom\s+["']xmcp["']/.test(entry.text))) return candidate;
  const { name, description, annotations } = metadata;
  const schemaNamed = (exported: string): SchemaSource | undefined => {
    const symbol = findExport(exported);
    return symbol && schemas.ofExport(exported, checker.getTypeOfSymbol(symbol), candidate.nameNode);
  };
  const [input, output] = [schemaNamed("schema"), schemaNamed("outputSchema")];
  return {
    ...candidate,
    ...(typeof name === "string" && NAME.test(name) && { name }),
    ...(typeof description === "string" && { doc: { ...candidate.doc, description } }),
    module: {
      ...(isObject(annotations) && { annotations: hintsIn(annotations) }),
      ...(input && { input }),
      ...(output && { output }),
    },
  };
}

function toolName({ name, at }: DescribedTool, exported: string): string {
  const key = at.at(-1);
  return name ?? (key !== undefined && /\D/.test(key) ? key : exported);
}

/** A part of what is exported. */
function inside(place: Place, path: readonly string[], checker: ts.TypeChecker): Place | undefined {
  return path.reduce<Place | undefined>((at, step) => {
    if (!at) return undefined;
    const { type, expression, node } = at;
    const literal = expression && writtenValue(expression, checker);
    const property = type.getProperty(step);
    const declaration = property?.declarations?.find((it) => it.getSourceFile() === place.node.getSourceFile());
    const held = property ? checker.getTypeOfSymbol(property) : type.getNumberIndexType();
    const element = literal && ts.isArrayLiteralExpression(literal) ? literal.elements[Number(step)] : undefined;
    const written = declaration && ts.isPropertyAssignment(declaration) ? declaration.initializer : undefined;
    const shorthand = declaration && ts.isShorthandPropertyAssignment(declaration) ? declaration.name : undefined;
    const name = declaration && ts.getNameOfDeclaration(declaration);
    return held && { type: held, expression: written ?? shorthand ?? element, node: name ?? element ?? node };
  }, place);
}

/** The value of a name, without parentheses and casts. */
function writtenValue(expression: ts.Expression, checker: ts.TypeChecker, levels = 0): ts.Expression {
  if (levels > LEVELS_MAX) return expression;
  if (
    ts.isParenthesizedExpression(expression) ||
    ts.isAsExpression(expression) ||
    ts.isSatisfiesExpression(expression) ||
    ts.isAwaitExpression(expression)
  )
    return writtenValue(expression.expression, checker, levels + 1);
  if (!ts.isIdentifier(expression)) return expression;
  const shorthand = ts.isShorthandPropertyAssignment(expression.parent)
    ? checker.getShorthandAssignmentValueSymbol(expression.parent)
    : checker.getSymbolAtLocation(expression);
  const target = shorthand && shorthand.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(shorthand) : shorthand;
  const declaration = target?.valueDeclaration;
  const initializer = declaration && ts.isVariableDeclaration(declaration) ? declaration.initializer : undefined;
  return initializer ? writtenValue(initializer, checker, levels + 1) : expression;
}

const LEVELS_MAX = 10;

/** The node of a handler in the source: of an object literal, or of what a helper or a constructor is given. */
function functionIn(expression: ts.Expression, handler: string, checker: ts.TypeChecker): ts.Node | undefined {
  const value = writtenValue(expression, checker);
  if (ts.isObjectLiteralExpression(value)) {
    for (const name of [handler, ...HANDLERS]) {
      const property = value.properties.find((each) => each.name && each.name.getText() === name);
      if (!property) continue;
      if (ts.isMethodDeclaration(property)) return property;
      const held = ts.isPropertyAssignment(property) ? property.initializer : property.name;
      return held && ts.isExpression(held) ? writtenValue(held, checker) : held;
    }
    return undefined;
  }
  if (!ts.isCallExpression(value) && !ts.isNewExpression(value)) return undefined;
  for (const argument of value.arguments ?? []) {
    const given = writtenValue(argument, checker);
    if (isFunctionNode(given)) return given;
    const found = ts.isObjectLiteralExpression(given) ? functionIn(given, handler, checker) : undefined;
    if (found) return found;
  }
  return undefined;
}

function isFunctionNode(node: ts.Node): node is ts.ArrowFunction | ts.FunctionExpression | ts.MethodDeclaration {
  return ts.isArrowFunction(node) || ts.isFunctionExpression(node) || ts.isMethodDeclaration(node);
}
