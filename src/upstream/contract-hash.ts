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
  const steps = { left: STEPS_MAX };
  const signatures = tools
    .filter(({ name }) => known === undefined || known.has(name))
    .map(({ name, inputSchema }) => signatureOf(name, inputSchema, known?.get(name), steps))
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

function signatureOf(
  name: string,
  schema: JsonSchema,
  known: ReadonlySet<string> | undefined,
  steps: Steps,
): Signature {
  const properties = propertiesOf(schema);
  const required = requiredOf(schema).filter((parameter) => !hasDefault(properties[parameter]));
  const needed = new Set(required);
  const counted = Object.keys(properties).filter(
    (parameter) => known === undefined || known.has(parameter) || needed.has(parameter),
  );
  const types = counted.map((parameter) => [parameter, typesOf(properties[parameter], schema, steps)]);
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
/**
 * Of all types of one contract: those of parameters, choices, values of lists and parts of references. A contract that
 * is as long as one may be has fewer, unless it refers to the same again and again: what is beyond may be anything.
 */
const STEPS_MAX = 250_000;

interface Steps {
  left: number;
}

/** The JSON types that a value may have, sorted; `any` where a schema does not say. */
function typesOf(schema: unknown, root: JsonSchema, steps: Steps): readonly string[] {
  const types = new Set<string>();
  // Each schema once on each level, however many ways lead to it.
  let level = new Set([schema]);
  for (let depth = 0; level.size > 0; depth++) {
    const next = new Set<unknown>();
    for (const each of level) {
      steps.left--;
      if (steps.left < 0 || depth > REFERENCES_MAX || !isObject(each)) types.add("any");
      else addTypes(each, root, steps, types, next);
    }
    level = next;
  }
  return [...types].sort();
}

/** Adds the types that a schema says itself, or what is to be looked at for them. */
function addTypes(
  schema: Record<string, unknown>,
  root: JsonSchema,
  steps: Steps,
  types: Set<string>,
  next: Set<unknown>,
): void {
  const { type, $ref: reference } = schema;
  const addAll = <Item>(list: readonly Item[], add: (item: Item) => void): void => {
    steps.left -= list.length;
    if (steps.left < 0) types.add("any");
    else for (const item of list) add(item);
  };
  const choices = schema["anyOf"] ?? schema["oneOf"];
  if (typeof type === "string") types.add(type);
  else if (Array.isArray(type)) addAll(type, (each: unknown) => typeof each === "string" && types.add(each));
  else if (typeof reference === "string") {
    steps.left -= Math.ceil(reference.length / REFERENCE_STEP_UNITS);
    if (steps.left < 0) types.add("any");
    else next.add(resolved(reference, root));
  } else if ("const" in schema) types.add(typeOf(schema["const"]));
  else if (Array.isArray(schema["enum"])) addAll(schema["enum"], (value: unknown) => types.add(typeOf(value)));
  else if (Array.isArray(choices)) addAll(choices, (choice: unknown) => next.add(choice));
  else types.add("any");
}

const REFERENCE_STEP_UNITS = 16;

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
