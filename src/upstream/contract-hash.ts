import { jsonBlock, type Cid } from "../cid.ts";
import type { Contract } from "../contract/contract.ts";
import { isObject, type JsonSchema } from "../json.ts";

/** Which tools and parameters somebody has learned about: the rest is no business of theirs. */
export type Known = ReadonlyMap<string, ReadonlySet<string>>;

/**
 * The hash of what callers of a server rely on (J5): the names of its tools, which parameters they require, and the
 * types of the parameters. Descriptions are no part of it, nor is a requirement that a default satisfies.
 * With `known`, tools and optional parameters that came since are none either, so that the hash stays what it was
 * when it was first taken for as long as nothing was taken away, newly required or given another type.
 */
export function contractHash({ tools }: Pick<Contract, "tools">, known?: Known): Cid {
  const signatures = tools
    .filter(({ name }) => known === undefined || known.has(name))
    .map(({ name, inputSchema }) => signatureOf(name, inputSchema, known?.get(name)))
    .sort((left, right) => (left.name < right.name ? -1 : 1));
  return jsonBlock(signatures).cid;
}

/** Everything that there is to know of a contract today. */
export function knownOf({ tools }: Pick<Contract, "tools">): Known {
  return new Map(tools.map(({ name, inputSchema }) => [name, new Set(Object.keys(propertiesOf(inputSchema)))]));
}

interface Signature {
  readonly name: string;
  readonly required: readonly string[];
  readonly types: Readonly<Record<string, readonly string[]>>;
}

function signatureOf(name: string, schema: JsonSchema, known: ReadonlySet<string> | undefined): Signature {
  const properties = propertiesOf(schema);
  const required = requiredOf(schema).filter((parameter) => !hasDefault(properties[parameter]));
  const counted = Object.keys(properties).filter(
    (parameter) => known === undefined || known.has(parameter) || required.includes(parameter),
  );
  const types = counted.map((parameter) => [parameter, typesOf(properties[parameter], schema)]);
  return { name, required: required.sort(), types: Object.fromEntries(types) };
}

function propertiesOf(schema: JsonSchema): Record<string, unknown> {
  return isObject(schema["properties"]) ? schema["properties"] : {};
}

function requiredOf({ required }: JsonSchema): string[] {
  return Array.isArray(required) ? required.filter((name) => typeof name === "string") : [];
}

function hasDefault(schema: unknown): boolean {
  return isObject(schema) && "default" in schema;
}

const REFERENCES_MAX = 32;

/** The JSON types that a value may have, sorted; `any` where a schema does not say. */
function typesOf(schema: unknown, root: JsonSchema, depth = 0): readonly string[] {
  if (!isObject(schema) || depth > REFERENCES_MAX) return ["any"];
  const { type, $ref: reference } = schema;
  if (typeof type === "string") return [type];
  if (Array.isArray(type)) return sorted(type.filter((each) => typeof each === "string"));
  if (typeof reference === "string") return typesOf(resolved(reference, root), root, depth + 1);
  if ("const" in schema) return [typeOf(schema["const"])];
  if (Array.isArray(schema["enum"])) return sorted(schema["enum"].map(typeOf));
  const choices = schema["anyOf"] ?? schema["oneOf"];
  if (Array.isArray(choices)) return sorted(choices.flatMap((choice) => typesOf(choice, root, depth + 1)));
  return ["any"];
}

/** What a JSON pointer within the same schema leads to. */
function resolved(reference: string, root: JsonSchema): unknown {
  if (!reference.startsWith("#/")) return undefined;
  let at: unknown = root;
  for (const part of reference.slice(2).split("/")) {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    at = isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined;
  }
  return at;
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value === "object" ? "object" : typeof value;
}

function sorted(types: readonly string[]): string[] {
  return [...new Set(types)].sort();
}
