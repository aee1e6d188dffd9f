/**
 * Reads what a JSON Schema (2020-12) says about one place of a document, for completions and explanations. The server
 * alone validates documents. References are followed only within the schema.
 */

export type Schema = boolean | SchemaObject;

export interface SchemaObject {
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, Schema>>;
  readonly title?: string;
  readonly description?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly examples?: readonly unknown[];
  readonly deprecated?: boolean;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema;
  readonly prefixItems?: readonly Schema[];
  readonly items?: Schema;
  readonly allOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly then?: Schema;
  readonly else?: Schema;
}

/** Member names and element indexes, from the outermost. */
export type Path = readonly (string | number)[];

/** Every schema that may apply at `path`, including all alternatives. Empty when nothing is known. */
export function schemasAt(root: Schema, path: Path): readonly SchemaObject[] {
  let here = expand(root, root);
  for (const step of path) {
    here = here.flatMap((schema) => below(schema, step)).flatMap((schema) => expand(root, schema));
  }
  return here;
}

export interface Member {
  readonly name: string;
  readonly schemas: readonly SchemaObject[];
  readonly required: boolean;
}

/** The named members, in the order of the schema. */
export function membersOf(root: Schema, schemas: readonly SchemaObject[]): readonly Member[] {
  const members = new Map<string, Member>();
  for (const schema of schemas) {
    for (const [name, member] of Object.entries(schema.properties ?? {})) {
      const known = members.get(name);
      members.set(name, {
        name,
        schemas: [...(known?.schemas ?? []), ...expand(root, member)],
        required: known?.required === true || schema.required?.includes(name) === true,
      });
    }
  }
  return [...members.values()];
}

/** Values worth offering: enumerated ones, the default, examples. */
export function valuesOf(schemas: readonly SchemaObject[]): readonly unknown[] {
  const values = schemas.flatMap((schema) => [
    ...("const" in schema ? [schema.const] : []),
    ...(schema.enum ?? []),
    ...("default" in schema ? [schema.default] : []),
    ...(schema.examples ?? []),
    ...(typesOf([schema]).includes("boolean") ? [true, false] : []),
  ]);
  return [...new Map(values.map((value) => [JSON.stringify(value), value])).values()];
}

export function typesOf(schemas: readonly SchemaObject[]): readonly string[] {
  return [...new Set(schemas.flatMap(({ type }) => type ?? []))];
}

/** The first description, or else the first title, of the schemas. */
export function descriptionOf(schemas: readonly SchemaObject[]): string | undefined {
  return schemas.find(({ description }) => description)?.description ?? schemas.find(({ title }) => title)?.title;
}

/** The schema itself and all schemas that it refers to or consists of. */
function expand(root: Schema, schema: Schema, seen = new Set<Schema>()): readonly SchemaObject[] {
  if (typeof schema === "boolean" || seen.has(schema)) return [];
  seen.add(schema);
  const parts = [
    ...(schema.$ref === undefined ? [] : [resolve(root, schema.$ref)]),
    ...(schema.allOf ?? []),
    ...(schema.anyOf ?? []),
    ...(schema.oneOf ?? []),
    schema.then ?? false,
    schema.else ?? false,
  ];
  return [schema, ...parts.flatMap((part) => expand(root, part, seen))];
}

/** Resolves `#/$defs/name`; a reference to another schema yields `false`. */
function resolve(root: Schema, reference: string): Schema {
  if (reference !== "#" && !reference.startsWith("#/")) return false;
  let here: unknown = root;
  for (const step of pathOfPointer(decodeURIComponent(reference.slice(1)))) {
    here = typeof here === "object" && here !== null ? (here as Record<string, unknown>)[step] : undefined;
  }
  return (here as Schema | undefined) ?? false;
}

/** The steps of a JSON pointer (RFC 6901). */
export function pathOfPointer(pointer: string): readonly string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function below(schema: SchemaObject, step: string | number): readonly Schema[] {
  if (typeof step === "number") return [schema.prefixItems?.[step] ?? schema.items ?? false];
  const named = schema.properties?.[step];
  const matching = Object.entries(schema.patternProperties ?? {})
    .filter(([pattern]) => new RegExp(pattern, "u").test(step))
    .map(([, member]) => member);
  if (named !== undefined) return [named, ...matching];
  return matching.length > 0 ? matching : [schema.additionalProperties ?? false];
}
