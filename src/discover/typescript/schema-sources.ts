import { posix } from "node:path";
import ts from "#typescript";
import type { BundledValue, DescribedSchema, DescribedSchemas, DescribedTool, SchemaRequest } from "../discovery.ts";
import { isCode, isDeclarations } from "../files/resolve.ts";
import type { DefinitionProgram } from "./program.ts";
import {
  followAlias,
  isUndefinedOrVoid,
  isNull,
  isObjectLike,
  libraryName,
  unionMembers,
  valueInScope,
} from "./types/kinds.ts";
import { denotes, unwrap } from "./types/written-types.ts";

/**
 * The schemas of libraries such as zod from which types of a definition are inferred. With such schemas, discovery runs
 * twice: the first run collects a request for the schemas to evaluate, and the second publishes the answers.
 */
export class SchemaSources {
  readonly #program: DefinitionProgram;
  #described: DescribedSchemas | undefined;
  readonly #schemas: SchemaRequest["schemas"][number][] = [];
  readonly #tools: string[] = [];
  /** By file and name. */
  readonly #exports = new Map<string, { readonly file: string; readonly name: string; readonly as: string }>();
  readonly #unreachable = new Set<ts.Node>();
  #inferred: ReadonlyMap<ts.Type, PartOfSchema> | undefined;

  constructor(program: DefinitionProgram) {
    this.#program = program;
  }

  /** Sets the answers to the request. */
  answer(described: DescribedSchemas): this {
    this.#described = described;
    return this;
  }

  /** Undefined if nothing has to be evaluated. */
  get request(): Pick<SchemaRequest, "schemas" | "tools"> | undefined {
    const [schemas, tools] = [this.#schemas, this.#tools];
    return schemas.length + tools.length > 0 ? { schemas, tools } : undefined;
  }

  /** Statements to append to these files, so that the bundle exports every schema. */
  exportsIn(entry: string): ReadonlyMap<string, string> {
    const texts = new Map<string, string>();
    const add = (file: string, text: string): unknown => texts.set(file, `${texts.get(file) ?? ""}\n${text}`);
    for (const { file, name, as } of this.#exports.values()) {
      if (file === entry && name === "default") continue;
      if (name !== "default") add(file, `export { ${name} as ${as} };`);
      if (file === entry) continue;
      const from = posix.relative(posix.dirname(entry), file);
      add(entry, `export { ${name === "default" ? "default as " : ""}${as} } from ${JSON.stringify(`./${from}`)};`);
    }
    return texts;
  }

  /** The reason why nothing could be evaluated. */
  get fault(): string | undefined {
    return this.#described?.fault;
  }

  /** Schemas from which types are inferred but which no bundle can export. */
  get unreachable(): readonly ts.Node[] {
    return [...this.#unreachable];
  }

  /** The schemas from which a type is inferred; `node` is the type as written. */
  lookUp(type: ts.Type, node: ts.TypeNode | undefined): InferredType | undefined {
    const [value, ...others] = unionMembers(type).filter((member) => !isUndefinedOrVoid(member));
    return (node && this.#fromSource(node, type)) ?? this.#resolve(value && others.length === 0 ? value : type);
  }

  /** The JSON Schema of a schema; undefined until schemas have been evaluated. */
  describe({ value }: SchemaSource, io: Io): DescribedSchema | undefined {
    const index = addOnce(this.#schemas, { ...value, io });
    return this.#described?.schemas[index];
  }

  /** The tool objects of an export; undefined until they have been evaluated. */
  describedTools(exported: string): readonly DescribedTool[] | undefined {
    const index = addOnce(this.#tools, exported);
    return this.#described?.tools[index];
  }

  /** The schema to which a name such as `schemas.user` refers at a location. */
  inScope(text: string, location: ts.Node): SchemaSource | undefined {
    const { checker } = this.#program;
    const [first = "", ...path] = text.split(".");
    const symbol = valueInScope(first, location, checker);
    const value = symbol && this.#exported(symbol);
    const type = value && typeAt(checker.getTypeOfSymbolAtLocation(symbol, location), path, checker);
    return type && { value: { ...value, path }, type, text, node: location };
  }

  /** An export of the entry file, which the bundle exports already. */
  forExport(name: string, type: ts.Type, node: ts.Node): SchemaSource {
    return { value: { export: name, path: [] }, type, text: name, node };
  }

  /** The value to which a name refers, as the bundle exports it; undefined if it cannot. */
  #bundled(expression: ts.Node): BundledValue | undefined {
    const [left, name] = ts.isQualifiedName(expression)
      ? [expression.left, expression.right]
      : ts.isPropertyAccessExpression(expression)
        ? [expression.expression, expression.name]
        : [undefined, expression];
    const symbol = this.#program.checker.getSymbolAtLocation(name);
    const own = symbol && this.#exported(symbol);
    const owner = own || !left ? undefined : this.#bundled(left);
    return own ?? (owner && { ...owner, path: [...owner.path, name.getText()] });
  }

  /** Exports a top-level name of one of the definition's own files. */
  #exported(symbol: ts.Symbol): BundledValue | undefined {
    const { checker, relativeName, own, entry } = this.#program;
    // An export of a package is reached through the name of its import.
    const declarations = [followAlias(symbol, checker).valueDeclaration, symbol.declarations?.[0]];
    const declaration = declarations.find((candidate) => {
      const file = candidate?.getSourceFile();
      return (
        file &&
        own.includes(file) &&
        isTopLevel(candidate!) &&
        isCode(relativeName(file)) &&
        !isDeclarations(relativeName(file))
      );
    });
    if (!declaration) return undefined;
    const file = relativeName(declaration.getSourceFile());
    const name = ts.isExportAssignment(declaration) ? "default" : ts.getNameOfDeclaration(declaration)!.getText();
    if (name === "default" && file === relativeName(entry)) return { export: name, path: [] };
    const key = `${file}\0${name}`;
    const exportEntry = this.#exports.get(key) ?? { file, name, as: `__berth_schema_${this.#exports.size}` };
    this.#exports.set(key, exportEntry);
    return { export: exportEntry.as, path: [] };
  }

  /** Schemas named in the source, even if the checker has lost their connection to the type. */
  #fromSource(node: ts.TypeNode, type: ts.Type): InferredType | undefined {
    const { checker } = this.#program;
    const unwrapped = unwrap(node, checker);
    if (!denotes(unwrapped, type, checker)) return undefined;
    const source = this.#inferredBy(unwrapped, true);
    if (source) return whole(source);
    if (ts.isUnionTypeNode(unwrapped)) return this.#matchNullable(unwrapped, type);
    if (!ts.isIndexedAccessTypeNode(unwrapped) || !ts.isLiteralTypeNode(unwrapped.indexType)) return undefined;
    const { literal } = unwrapped.indexType;
    if (!ts.isStringLiteral(literal)) return undefined;
    const { isWhole, parts } =
      this.lookUp(checker.getTypeFromTypeNode(unwrapped.objectType), unwrapped.objectType) ?? {};
    return isWhole ? whole({ ...parts![0]!, part: [...parts![0]!.part, literal.text] }) : undefined;
  }

  /** `z.infer<typeof S> | null` of a union S, whose members the checker mixes with null. */
  #matchNullable(node: ts.UnionTypeNode, type: ts.Type): InferredType | undefined {
    const { checker } = this.#program;
    const isEmpty = (member: ts.Type): boolean => isUndefinedOrVoid(member) || isNull(member);
    const [one, ...others] = node.types.filter((member) => !isEmpty(checker.getTypeFromTypeNode(member)));
    const source = one && others.length === 0 ? this.#inferredBy(unwrap(one, checker), true) : undefined;
    const values = unionMembers(type).filter((member) => !isEmpty(member));
    if (!source || values.length < 2) return undefined;
    return { ...whole(source), isNullable: unionMembers(type).some(isNull) };
  }

  /** `z.infer<typeof S>`, `typeof S.infer`, `(typeof S)["_output"]` */
  #inferredBy(node: ts.Node, isPublished = false): PartOfSchema | undefined {
    const { checker } = this.#program;
    const [name, query] = inference(node);
    const io = INPUTS.has(name) ? "input" : OUTPUTS.has(name) ? "output" : undefined;
    if (!query || !io) return undefined;
    const type = checker.getTypeAtLocation(query);
    if (type.flags & ts.TypeFlags.TypeParameter || !isSchema(type, name)) return undefined;
    const value = ts.isTypeNode(query) ? undefined : this.#bundled(query);
    if (value) return { source: { value, type, text: query.getText(), node: query }, io, part: [] };
    // Most types within functions are not published.
    if (isPublished || !ts.findAncestor(query, ts.isBlock)) this.#unreachable.add(query);
    return undefined;
  }

  #resolve(type: ts.Type, levels = 0): InferredType | undefined {
    this.#inferred ??= this.#collect();
    const known = this.#inferred.get(type);
    if (known) return whole(known);
    if (levels > LEVELS_MAX || !isObjectLike(type)) return undefined;
    const { checker } = this.#program;
    // Resolving the members sets `modifiersType`.
    checker.getPropertiesOfType(type);
    const { modifiersType } = type as { modifiersType?: ts.Type };
    const bases = type.isIntersection()
      ? type.types
      : type.isClassOrInterface()
        ? checker.getBaseTypes(type)
        : modifiersType
          ? [modifiersType]
          : [];
    const parts = bases.flatMap((base) => this.#resolve(base, levels + 1)?.parts ?? []);
    return parts.length > 0 ? { isWhole: false, parts } : undefined;
  }

  /** Finds the types that are inferred from schemas anywhere in the definition, and the types of their parts. */
  #collect(): ReadonlyMap<ts.Type, PartOfSchema> {
    const { checker, own, isLibrary } = this.#program;
    const inferredTypes = new Map<ts.Type, PartOfSchema>();
    const isUnique = (type: ts.Type): boolean => {
      if (type.isUnionOrIntersection()) {
        const members = type.types.filter((member) => !isUndefinedOrVoid(member));
        return members.length > 0 && members.every(isUnique);
      }
      const isObject = Boolean(type.flags & ts.TypeFlags.Object) && !checker.isArrayLikeType(type);
      const isShared = type.aliasSymbol?.declarations?.some((declaration) => isLibrary(declaration.getSourceFile()));
      const isNamed = libraryName(type, isLibrary) !== undefined && !type.symbol.name.startsWith("__");
      // A type written by the author may also be used on its own, as in `z.ZodType<User>`.
      const isWritten = (type.symbol as ts.Symbol | undefined)?.declarations?.some(
        (declaration) =>
          own.includes(declaration.getSourceFile()) &&
          (ts.isTypeLiteralNode(declaration) || ts.isInterfaceDeclaration(declaration)),
      );
      return isObject && !isShared && !isNamed && !isWritten && checker.getPropertiesOfType(type).length > 0;
    };
    const add = (type: ts.Type, inferred: PartOfSchema, levels = 0): void => {
      if (levels > LEVELS_MAX || inferredTypes.has(type)) return;
      const within = (part: ts.Type | undefined, step: string): void =>
        part && add(checker.getNonNullableType(part), { ...inferred, part: [...inferred.part, step] }, levels + 1);
      if (checker.isArrayType(type)) return within(checker.getTypeArguments(type as ts.TypeReference)[0], ELEMENT);
      if (!isUnique(type)) return;
      inferredTypes.set(type, inferred);
      if (type.isUnion()) return;
      for (const property of checker.getPropertiesOfType(type))
        within(checker.getTypeOfSymbol(property), property.name);
    };
    const all: [ts.Type, PartOfSchema][] = [];
    const visit = (node: ts.Node): void => {
      const inferred = this.#inferredBy(node);
      if (inferred) all.push([checker.getTypeAtLocation(node), inferred]);
      ts.forEachChild(node, visit);
    };
    for (const file of own) visit(file);
    // A type that is inferred as a whole is not part of another.
    for (const [type, inferred] of all) if (isUnique(type)) inferredTypes.set(type, inferred);
    for (const [type, inferred] of all) {
      inferredTypes.delete(type);
      add(type, inferred);
    }
    return inferredTypes;
  }
}

type Io = "input" | "output";

/** Adds an element unless the list has an equal one; returns its index. */
function addOnce<T>(list: T[], element: T): number {
  const index = list.findIndex((item) => JSON.stringify(item) === JSON.stringify(element));
  return index < 0 ? list.push(element) - 1 : index;
}

/** A schema, named in the definition. */
export interface SchemaSource {
  readonly value: BundledValue;
  /** The type of the schema itself, not of the values it describes. */
  readonly type: ts.Type;
  readonly text: string;
  readonly node: ts.Node;
}

interface PartOfSchema {
  readonly source: SchemaSource;
  /** The type is the schema's input or its output. */
  readonly io: Io;
  /** From the type of the whole schema to this one: property names, and `ELEMENT`. */
  readonly part: readonly string[];
}

/** A type that one schema describes, or one derived from such types by `Omit`, `extends` or `&`. */
export interface InferredType {
  readonly isWhole: boolean;
  /** The schema does not describe null, which the type allows. */
  readonly isNullable?: boolean;
  readonly parts: readonly PartOfSchema[];
}

function whole(part: PartOfSchema): InferredType {
  return { isWhole: true, parts: [part] };
}

/** The step from a list to its elements. */
export const ELEMENT = "[]";
const LEVELS_MAX = 6;

const OUTPUTS: ReadonlySet<string> = new Set(
  "infer output TypeOf Infer InferOutput InferSchema Static _output _type inferOut static".split(" "),
);
const INPUTS: ReadonlySet<string> = new Set("input InferInput _input inferIn".split(" "));

/** The name of the inference, such as `infer`, and the schema. */
function inference(node: ts.Node): readonly [string, (ts.EntityName | ts.TypeNode)?] {
  const isNamed = ts.isTypeReferenceNode(node) || ts.isExpressionWithTypeArguments(node);
  if (isNamed && node.typeArguments?.length === 1) {
    const [argument] = node.typeArguments;
    const name = lastName(ts.isTypeReferenceNode(node) ? node.typeName : node.expression);
    if (ts.isTypeQueryNode(argument!)) return [name, argument.exprName];
    // `z.infer<z.ZodObject<typeof shape>>`
    const shape =
      ts.isTypeReferenceNode(argument!) && lastName(argument.typeName) === "ZodObject" && argument.typeArguments?.[0];
    return shape && ts.isTypeQueryNode(shape) ? ["InferSchema", shape.exprName] : [name, argument];
  }
  if (ts.isTypeQueryNode(node) && ts.isQualifiedName(node.exprName))
    return [node.exprName.right.text, node.exprName.left];
  if (!ts.isIndexedAccessTypeNode(node) || !ts.isLiteralTypeNode(node.indexType)) return [""];
  const object = ts.isParenthesizedTypeNode(node.objectType) ? node.objectType.type : node.objectType;
  const { literal } = node.indexType;
  return ts.isTypeQueryNode(object) && ts.isStringLiteral(literal) ? [literal.text, object.exprName] : [""];
}

function lastName(name: ts.Node): string {
  if (ts.isQualifiedName(name)) return name.right.text;
  return ts.isPropertyAccessExpression(name) ? name.name.text : name.getText();
}

function isSchema(type: ts.Type, name: string): boolean {
  return (
    name === "InferSchema" || ["~standard", "_def", "_zod", "static"].some((property) => type.getProperty(property))
  );
}

/** A value that its file can export. */
function isTopLevel(declaration: ts.Declaration): boolean {
  if (ts.isImportSpecifier(declaration) || ts.isImportClause(declaration))
    return !ts.isTypeOnlyImportDeclaration(declaration);
  if (ts.isExportAssignment(declaration)) return true;
  if (!ts.isVariableDeclaration(declaration) || !ts.isIdentifier(declaration.name)) return false;
  return ts.isVariableStatement(declaration.parent.parent) && ts.isSourceFile(declaration.parent.parent.parent);
}

/** The type of a schema's input or output, by Standard Schema. */
export function schemaType({ type }: SchemaSource, io: Io, checker: ts.TypeChecker): ts.Type | undefined {
  const result = typeAt(type, ["~standard", "types", io], checker);
  return result && unionMembers(result).length > 0 ? result : undefined;
}

function typeAt(type: ts.Type, path: readonly string[], checker: ts.TypeChecker): ts.Type | undefined {
  return path.reduce<ts.Type | undefined>((at, step) => {
    const property = at && checker.getNonNullableType(at).getProperty(step);
    return property && checker.getTypeOfSymbol(property);
  }, type);
}
