import { posix } from "node:path";
import ts from "#typescript";
import type { BundledValue, DescribedSchema, DescribedSchemas, DescribedTool, SchemaRequest } from "./discovery.ts";
import type { DefinitionProgram } from "./program.ts";
import { isCode, isDeclarations } from "./resolve.ts";
import { followAlias, isNothing, isNull, isObjectLike, libraryName, membersOf } from "./types/kinds.ts";
import { denotes, unwrap } from "./types/written-types.ts";

/**
 * The schemas of libraries such as zod from which types of a definition are inferred. Discovery runs twice where there
 * are any: first it finds out which are needed, and when these have been evaluated, it publishes what they say.
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

  /** From now on it gives these answers to its request. */
  answer(described: DescribedSchemas): this {
    this.#described = described;
    return this;
  }

  /** Undefined where nothing has to be evaluated. */
  get request(): Pick<SchemaRequest, "schemas" | "tools"> | undefined {
    const [schemas, tools] = [this.#schemas, this.#tools];
    return schemas.length + tools.length > 0 ? { schemas, tools } : undefined;
  }

  /** The texts that a bundle needs at the end of these files, so that it exports every schema. */
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

  /** Why nothing could be evaluated. */
  get fault(): string | undefined {
    return this.#described?.fault;
  }

  /** Names of schemas from which types are inferred and that no bundle can export. */
  get unreachable(): readonly ts.Node[] {
    return [...this.#unreachable];
  }

  /** The schemas from which a type is inferred; `node` is the type as written. Undefined without any. */
  of(type: ts.Type, node: ts.TypeNode | undefined): InferredType | undefined {
    const [value, ...others] = membersOf(type).filter((member) => !isNothing(member));
    return (node && this.#written(node, type)) ?? this.#known(value && others.length === 0 ? value : type);
  }

  /** The JSON Schema of a schema; undefined until schemas have been evaluated. */
  describe(source: SchemaSource, io: "input" | "output"): DescribedSchema | undefined {
    const { export: name, path } = source.value;
    const is = (each: BundledValue & { io: string }) =>
      each.export === name && each.io === io && each.path.join("\0") === path.join("\0");
    let index = this.#schemas.findIndex(is);
    if (index < 0) index = this.#schemas.push({ export: name, path, io }) - 1;
    return this.#described?.schemas[index];
  }

  /** The tool objects that an export holds; undefined as long as nothing has been evaluated. */
  describedTools(exported: string): readonly DescribedTool[] | undefined {
    let index = this.#tools.indexOf(exported);
    if (index < 0) index = this.#tools.push(exported) - 1;
    return this.#described?.tools[index];
  }

  /** The schema that `S` or `schemas.user` names; undefined where no bundle could export it. */
  named(expression: ts.EntityName | ts.Expression): SchemaSource | undefined {
    const { checker } = this.#program;
    const text = expression.getText();
    const value = this.#valueOf(expression);
    const type = checker.getTypeAtLocation(expression);
    return value && { value, type, text, node: expression };
  }

  /** The schema that a name leads to where `location` stands. */
  inScope(name: string, location: ts.Node): SchemaSource | undefined {
    const { checker } = this.#program;
    const [first = "", ...path] = name.split(".");
    const { resolveName } = checker as unknown as {
      resolveName(
        this: void,
        name: string,
        location: ts.Node,
        meaning: ts.SymbolFlags,
        excludeGlobals: boolean,
      ): ts.Symbol;
    };
    const symbol = resolveName(first, location, ts.SymbolFlags.Value, true) as ts.Symbol | undefined;
    const value = symbol && this.#exported(symbol);
    if (!value) return undefined;
    let type: ts.Type | undefined = checker.getTypeOfSymbolAtLocation(symbol, location);
    for (const step of path) {
      const property: ts.Symbol | undefined = type?.getProperty(step);
      type = property && checker.getTypeOfSymbol(property);
    }
    return type && { value: { ...value, path }, type, text: name, node: location };
  }

  /** An export of the entry, which the bundle exports already. */
  ofExport(name: string, type: ts.Type, node: ts.Node): SchemaSource {
    return { value: { export: name, path: [] }, type, text: name, node };
  }

  #valueOf(expression: ts.Node): BundledValue | undefined {
    const symbol = this.#program.checker.getSymbolAtLocation(
      ts.isQualifiedName(expression)
        ? expression.right
        : ts.isPropertyAccessExpression(expression)
          ? expression.name
          : expression,
    );
    const own = symbol && this.#exported(symbol);
    if (own) return own;
    const [left, right] = ts.isQualifiedName(expression)
      ? [expression.left, expression.right.text]
      : ts.isPropertyAccessExpression(expression)
        ? [expression.expression, expression.name.text]
        : [];
    const holder = left && this.#valueOf(left);
    return holder && { ...holder, path: [...holder.path, right!] };
  }

  /** A name at the top level of one of the definition's own files. */
  #exported(symbol: ts.Symbol): BundledValue | undefined {
    const { checker, nameOf, own, entry } = this.#program;
    const target = followAlias(symbol, checker);
    // What a package exports is known by the name of its import.
    const declaration = [target.valueDeclaration, symbol.declarations?.[0]].find((each) => {
      const file = each?.getSourceFile();
      return file && own.includes(file) && isTopLevel(each!) && isCode(nameOf(file)) && !isDeclarations(nameOf(file));
    });
    if (!declaration) return undefined;
    const file = nameOf(declaration.getSourceFile());
    const name = ts.isExportAssignment(declaration) ? "default" : ts.getNameOfDeclaration(declaration)!.getText();
    if (name === "default" && file === nameOf(entry)) return { export: name, path: [] };
    const key = `${file}\0${name}`;
    const known = this.#exports.get(key) ?? { file, name, as: `__berth_schema_${this.#exports.size}` };
    this.#exports.set(key, known);
    return { export: known.as, path: [] };
  }

  #written(node: ts.TypeNode, type: ts.Type): InferredType | undefined {
    const { checker } = this.#program;
    const bare = unwrap(node, checker);
    const source = this.#inferredBy(bare, true);
    if (source) return denotes(bare, type, checker) ? whole({ ...source, part: [] }) : undefined;
    if (ts.isUnionTypeNode(bare)) return this.#besideNull(bare, type);
    if (!ts.isIndexedAccessTypeNode(bare) || !ts.isLiteralTypeNode(bare.indexType)) return undefined;
    const { literal } = bare.indexType;
    const holder = ts.isStringLiteral(literal)
      ? this.of(checker.getTypeFromTypeNode(bare.objectType), bare.objectType)
      : undefined;
    if (!holder?.isWhole || !denotes(bare, type, checker)) return undefined;
    const [part] = holder.parts;
    return whole({ ...part!, part: [...part!.part, (literal as ts.StringLiteral).text] });
  }

  /** `z.infer<typeof S> | null`, where the type has members of its own, among which those of S are not seen any more. */
  #besideNull(node: ts.UnionTypeNode, type: ts.Type): InferredType | undefined {
    const { checker } = this.#program;
    const [one, ...others] = node.types.filter((member) => {
      const { flags } = checker.getTypeFromTypeNode(member);
      return !(flags & (ts.TypeFlags.Null | ts.TypeFlags.Undefined));
    });
    const source = one && others.length === 0 ? this.#inferredBy(unwrap(one, checker), true) : undefined;
    const values = membersOf(type).filter((member) => !isNothing(member) && !isNull(member));
    if (!source || values.length < 2 || !denotes(node, type, checker)) return undefined;
    return { ...whole({ ...source, part: [] }), isNullable: membersOf(type).some(isNull) };
  }

  /** `z.infer<typeof S>`, `typeof S.infer`, `(typeof S)["_output"]` */
  #inferredBy(
    node: ts.Node,
    isPublished = false,
  ): { readonly source: SchemaSource; readonly io: "input" | "output" } | undefined {
    const [name, query] = inference(node);
    const io = INPUTS.has(name) ? "input" : OUTPUTS.has(name) ? "output" : undefined;
    if (!query || !io) return undefined;
    const type = this.#program.checker.getTypeAtLocation(query);
    if (type.flags & ts.TypeFlags.TypeParameter || !isSchema(type, name)) return undefined;
    const source = ts.isTypeNode(query) ? undefined : this.named(query);
    // Most types inside of functions are about no argument.
    if (!source && (isPublished || !ts.findAncestor(query, ts.isBlock))) this.#unreachable.add(query);
    return source && { source, io };
  }

  #known(type: ts.Type, levels = 0): InferredType | undefined {
    this.#inferred ??= this.#find();
    const known = this.#inferred.get(type);
    if (known) return whole(known);
    if (levels > LEVELS_MAX || !isObjectLike(type)) return undefined;
    const { checker } = this.#program;
    // The checker finds what a type is mapped from when it resolves the members.
    checker.getPropertiesOfType(type);
    const { modifiersType } = type as { modifiersType?: ts.Type };
    const bases = type.isIntersection()
      ? type.types
      : type.isClassOrInterface()
        ? checker.getBaseTypes(type)
        : modifiersType
          ? [modifiersType]
          : [];
    const parts = bases.flatMap((base) => this.#known(base, levels + 1)?.parts ?? []);
    return parts.length > 0 ? { isWhole: false, parts } : undefined;
  }

  /** The types that are inferred from schemas anywhere in the definition, and the types of their parts. */
  #find(): ReadonlyMap<ts.Type, PartOfSchema> {
    const { checker, own, isLibrary } = this.#program;
    const found = new Map<ts.Type, PartOfSchema>();
    const isUnique = (type: ts.Type): boolean => {
      if (type.isUnionOrIntersection()) {
        const members = type.types.filter((member) => !isNothing(member));
        return members.length > 0 && members.every(isUnique);
      }
      const isObject = Boolean(type.flags & ts.TypeFlags.Object) && !checker.isArrayLikeType(type);
      const isShared = type.aliasSymbol?.declarations?.some((each) => isLibrary(each.getSourceFile()));
      const isNamed = libraryName(type, isLibrary) !== undefined && !type.symbol.name.startsWith("__");
      // What the author has written as a type may stand for itself elsewhere, as in `z.ZodType<User>`.
      const isWritten = (type.symbol as ts.Symbol | undefined)?.declarations?.some(
        (each) => own.includes(each.getSourceFile()) && (ts.isTypeLiteralNode(each) || ts.isInterfaceDeclaration(each)),
      );
      return isObject && !isShared && !isNamed && !isWritten && checker.getPropertiesOfType(type).length > 0;
    };
    const add = (type: ts.Type, inferred: PartOfSchema, levels = 0): void => {
      if (levels > LEVELS_MAX || found.has(type)) return;
      const within = (part: ts.Type | undefined, step: string): void =>
        part && add(checker.getNonNullableType(part), { ...inferred, part: [...inferred.part, step] }, levels + 1);
      if (checker.isArrayType(type)) return within(checker.getTypeArguments(type as ts.TypeReference)[0], ELEMENT);
      if (!isUnique(type)) return;
      found.set(type, inferred);
      if (type.isUnion()) return;
      for (const property of checker.getPropertiesOfType(type))
        within(checker.getTypeOfSymbol(property), property.name);
    };
    const parts: { type: ts.Type; inferred: PartOfSchema }[] = [];
    const visit = (node: ts.Node): void => {
      const inferred = this.#inferredBy(node);
      if (inferred) parts.push({ type: checker.getTypeAtLocation(node), inferred: { ...inferred, part: [] } });
      ts.forEachChild(node, visit);
    };
    for (const file of own) visit(file);
    for (const { type, inferred } of parts) if (isUnique(type)) found.set(type, inferred);
    for (const { type, inferred } of parts) {
      found.delete(type);
      add(type, inferred);
    }
    return found;
  }
}

/** A schema as the definition names it. */
export interface SchemaSource {
  readonly value: BundledValue;
  /** Its own type, not that of what it describes. */
  readonly type: ts.Type;
  readonly text: string;
  readonly node: ts.Node;
}

interface PartOfSchema {
  readonly source: SchemaSource;
  /** The type is that of what the schema takes, or of what it makes of it. */
  readonly io: "input" | "output";
  /** From the schema's own type to this one: names of properties, and `ELEMENT`. */
  readonly part: readonly string[];
}

/** A type that a schema describes as a whole, or one that is made of such types, as by `Omit`, `extends` and `&`. */
export interface InferredType {
  readonly isWhole: boolean;
  /** Null is a value, too. */
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

/** The name by which a type is inferred, and the schema from which. */
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
  return name === "InferSchema" || ["~standard", "_def", "_zod", "static"].some((each) => type.getProperty(each));
}

/** A value that its file can export. */
function isTopLevel(declaration: ts.Declaration): boolean {
  if (ts.isImportSpecifier(declaration) || ts.isImportClause(declaration))
    return !ts.isTypeOnlyImportDeclaration(declaration);
  if (ts.isExportAssignment(declaration)) return true;
  if (!ts.isVariableDeclaration(declaration) || !ts.isIdentifier(declaration.name)) return false;
  return ts.isVariableStatement(declaration.parent.parent) && ts.isSourceFile(declaration.parent.parent.parent);
}

/** The type of what a schema takes, or of what it gives, as Standard Schema has it. */
export function schemaType(
  { type, node }: SchemaSource,
  io: "input" | "output",
  checker: ts.TypeChecker,
): ts.Type | undefined {
  let at: ts.Type | undefined = type;
  for (const step of ["~standard", "types", io]) {
    const property: ts.Symbol | undefined = at && checker.getNonNullableType(at).getProperty(step);
    at = property && checker.getTypeOfSymbolAtLocation(property, node);
  }
  return at && membersOf(at).length > 0 ? at : undefined;
}
