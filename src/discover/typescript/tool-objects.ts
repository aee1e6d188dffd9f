import ts from "#typescript";
import { isObject } from "../../lib/json.ts";
import type { DescribedTool } from "../discovery.ts";
import { isHidden } from "../tags/tags.ts";
import type { Candidate } from "./candidate.ts";
import { readHints } from "./described-schemas.ts";
import { symbolDoc } from "./doc-comments.ts";
import { evaluate } from "./evaluate.ts";
import { isTransparent, moduleExports, nameNode, type ModuleExport } from "./exports.ts";
import { HANDLERS } from "./handlers.ts";
import type { DefinitionProgram } from "./program.ts";
import type { SchemaSource, SchemaSources } from "./schema-sources.ts";
import { followAlias, isCallable, isFunction, isObjectLike, unionMembers } from "./types/kinds.ts";

/**
 * Tools of other libraries: objects with a handler, a description, and a schema of the arguments, exported one by one,
 * in a list, or under names. Their contents are known once the module has been loaded; here they are recognized by
 * their types, and their handlers are located in the source.
 */

/** A candidate for each tool in the objects; none until the module has been loaded. */
export function toolObjects(
  objects: readonly ExportedObject[],
  program: DefinitionProgram,
  schemas: SchemaSources,
  server: string,
): Candidate[] {
  const { checker } = program;
  const seen = new Set<number>();
  return objects.flatMap((object) => {
    const { exported, target } = object;
    const doc = symbolDoc(target);
    if (isHidden(exported.name, doc)) return [];
    return (schemas.describedTools(exported.name) ?? []).flatMap((described): Candidate[] => {
      // Often each tool is exported, and also a list of all of them.
      if (seen.size === seen.add(described.id).size) return [];
      const part = findPart(object, described.at, checker);
      const parts = part && toolParts(part.type, checker);
      if (!parts) return [];
      const own = part.source && findFunction(part.source, parts.handler.name, checker);
      const declaredSignature = checker
        .getNonNullableType(checker.getTypeOfSymbol(parts.handler))
        .getCallSignatures()[0]!;
      const signature = (own && checker.getTypeAtLocation(own).getCallSignatures()[0]) ?? declaredSignature;
      return [
        {
          name: toolName(described, exported.name === "default" ? server : exported.name),
          export: exported.name,
          doc: { ...doc, description: described.description ?? doc.description },
          signature,
          signatures: [signature],
          ...(own && isFunctionNode(own) && { implementation: own }),
          clashing: [],
          nameNode: part.node,
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

interface Part {
  readonly type: ts.Type;
  /** Its declaration, or its expression in a list. */
  readonly source: ts.Node | undefined;
  /** The node for problems about it. */
  readonly node: ts.Node;
}

/** An export that contains tools. */
export interface ExportedObject extends ModuleExport, Part {}

export function exportedObjects(program: DefinitionProgram): ExportedObject[] {
  const { checker, entry, isPackageFile } = program;
  return moduleExports(program).flatMap(({ exported, target }) => {
    const source = target.valueDeclaration ?? target.declarations?.[0];
    if (!source || isPackageFile(source.getSourceFile()) || !(target.flags & ts.SymbolFlags.Value)) return [];
    const type = checker.getTypeOfSymbolAtLocation(target, entry);
    return containsTools(type, checker) ? [{ exported, target, type, source, node: nameNode(source) }] : [];
  });
}

function containsTools(type: ts.Type, checker: ts.TypeChecker): boolean {
  if (toolParts(type, checker)) return true;
  // A class has a property `prototype`.
  if (!(type.flags & ts.TypeFlags.Object) || isFunction(type)) return false;
  const values = checker.isArrayLikeType(type)
    ? checker.getTypeArguments(type as ts.TypeReference)
    : checker.getPropertiesOfType(type).map((property) => checker.getTypeOfSymbol(property));
  return values.some((value) => [value, ...unionMembers(value)].some((it) => toolParts(it, checker) !== undefined));
}

/** Without a schema, objects with other handlers are too often something else. */
const NAMED_HANDLERS: ReadonlySet<string> = new Set(["execute", "handler"]);
const SCHEMAS: readonly string[] = ["inputSchema", "parameters", "schema"];

/** The handler and the schema of a tool; undefined for anything else. */
function toolParts(type: ts.Type, checker: ts.TypeChecker): { handler: ts.Symbol; schema?: ts.Symbol } | undefined {
  if (!unionMembers(type).every(isObjectLike) || isCallable(type)) return undefined;
  const presentType = (property: ts.Symbol | undefined): ts.Type | undefined =>
    property && checker.getNonNullableType(checker.getTypeOfSymbol(property));
  const isText = (name: string): boolean => {
    const text = presentType(type.getProperty(name));
    return text !== undefined && unionMembers(text).some(({ flags }) => flags & ts.TypeFlags.StringLike);
  };
  const handler = HANDLERS.flatMap((name) => type.getProperty(name) ?? []).find((it) => isCallable(presentType(it)!));
  const schema = SCHEMAS.flatMap((name) => type.getProperty(name) ?? [])[0];
  const isNamed = isText("name") && handler !== undefined && NAMED_HANDLERS.has(handler.name);
  if (!handler || !isText("description") || (!schema && !isNamed)) return undefined;
  // Commands, routes and plugins look like tools, but take strings, or use a list of names as a schema.
  const [argument] = presentType(handler)!.getCallSignatures()[0]!.parameters;
  const object = schema ?? argument;
  if (object && unionMembers(presentType(object)!).some((member) => isValue(member, checker))) return undefined;
  return { handler, ...(schema && { schema }) };
}

/** True for types other than objects with properties. */
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
  const exports = new Map(moduleExports(program).map(({ exported }) => [exported.name, exported]));
  const declared = exports.get("metadata")?.valueDeclaration;
  const initializer = declared && ts.isVariableDeclaration(declared) ? declared.initializer : undefined;
  const metadata = initializer ? evaluate(initializer, checker) : {};
  if (!isObject(metadata) || (!initializer && !/\bfrom\s+["']xmcp["']/.test(entry.text))) return candidate;
  const { name, description, annotations } = metadata;
  const schemaNamed = (exported: string): SchemaSource | undefined => {
    const symbol = exports.get(exported);
    return symbol && schemas.forExport(exported, checker.getTypeOfSymbol(symbol), candidate.nameNode);
  };
  const [input, output] = [schemaNamed("schema"), schemaNamed("outputSchema")];
  return {
    ...candidate,
    ...(typeof name === "string" && NAME.test(name) && { name }),
    ...(typeof description === "string" && { doc: { ...candidate.doc, description } }),
    module: {
      ...(isObject(annotations) && { annotations: readHints(annotations) }),
      ...(input && { input }),
      ...(output && { output }),
    },
  };
}

function toolName({ name, at: [key] }: DescribedTool, exported: string): string {
  return name ?? (key !== undefined && /\D/.test(key) ? key : exported);
}

/** The value of an object under a name or in a list; without a step, the object itself. */
function findPart(object: Part, [step]: readonly string[], checker: ts.TypeChecker): Part | undefined {
  if (step === undefined) return object;
  const property = object.type.getProperty(step);
  const type = property ? checker.getTypeOfSymbol(property) : object.type.getNumberIndexType();
  const list = object.source && findValue(object.source, checker);
  const element = list && ts.isArrayLiteralExpression(list) ? list.elements[Number(step)] : undefined;
  const declaration = property?.declarations?.find((it) => it.getSourceFile() === object.node.getSourceFile());
  const node = declaration ? nameNode(declaration) : (element ?? object.node);
  return type && { type, source: declaration ?? element, node };
}

/** The value of a declaration, a property or a name, without parentheses and casts. */
function findValue(node: ts.Node, checker: ts.TypeChecker, levels = 0): ts.Node {
  let next: ts.Node | undefined;
  if (ts.isVariableDeclaration(node) || ts.isPropertyAssignment(node)) next = node.initializer;
  else if (isTransparent(node) || ts.isAwaitExpression(node) || ts.isExportAssignment(node)) next = node.expression;
  else if (ts.isIdentifier(node) || ts.isShorthandPropertyAssignment(node)) {
    const symbol = ts.isIdentifier(node)
      ? checker.getSymbolAtLocation(node)
      : checker.getShorthandAssignmentValueSymbol(node);
    next = followAlias(symbol, checker)?.declarations?.find(ts.isVariableDeclaration)?.initializer;
  }
  return next && levels < LEVELS_MAX ? findValue(next, checker, levels + 1) : node;
}

const LEVELS_MAX = 10;

/** The node of a handler in the source: in an object literal, or in the argument of a helper or a constructor. */
function findFunction(source: ts.Node, handler: string, checker: ts.TypeChecker): ts.Node | undefined {
  const value = findValue(source, checker);
  if (ts.isObjectLiteralExpression(value)) {
    const property = [handler, ...HANDLERS]
      .flatMap((name) => value.properties.find((candidate) => candidate.name?.getText() === name) ?? [])
      .at(0);
    return property && findValue(property, checker);
  }
  if (!ts.isCallExpression(value) && !ts.isNewExpression(value)) return undefined;
  const values = (value.arguments ?? []).map((argument) => findValue(argument, checker));
  return values
    .map((value) => (ts.isObjectLiteralExpression(value) ? findFunction(value, handler, checker) : value))
    .find((value) => value && isFunctionNode(value));
}

function isFunctionNode(node: ts.Node): node is ts.ArrowFunction | ts.FunctionExpression | ts.MethodDeclaration {
  return ts.isArrowFunction(node) || ts.isFunctionExpression(node) || ts.isMethodDeclaration(node);
}
