import type { Contract } from "../../contract/contract.ts";
import { jsonBlock, jsonBlockYielding, type Cid } from "../../lib/cid.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { isObject, type JsonSchema } from "../../lib/json.ts";

/** The tools and parameters that a caller uses: others do not affect it. */
export type KnownParameters = ReadonlyMap<string, ReadonlySet<string>>;

/**
 * The hash of what callers of a server rely on (J5): the names of its tools, their required parameters, and the types
 * of parameters. It covers neither descriptions nor a requirement that a default satisfies. With `known`, it also
 * ignores later tools and optional parameters, so that it stays the same as long as nothing is removed, newly required
 * or given another type.
 */
export function contractHash(contract: Pick<Contract, "tools">, known?: KnownParameters): Cid {
  return jsonBlock([...toolSignatures(contract, known)].sort(byName)).cid;
}

/** The same for the serving thread: yields to other calls. */
export async function contractHashInTurns(contract: Pick<Contract, "tools">, known?: KnownParameters): Promise<Cid> {
  const maybeYield = createYielder();
  const signatures: Signature[] = [];
  for (const signature of toolSignatures(contract, known)) {
    signatures.push(signature);
    await maybeYield();
  }
  return (await jsonBlockYielding(signatures.sort(byName))).cid;
}

function* toolSignatures({ tools }: Pick<Contract, "tools">, known: KnownParameters | undefined): Generator<Signature> {
  const types = new Types();
  for (const { name, inputSchema } of tools) {
    if (known === undefined || known.has(name)) yield toolSignature(name, inputSchema, known?.get(name), types);
  }
}

function byName(left: Signature, right: Signature): number {
  return left.name < right.name ? -1 : 1;
}

export function knownParameters({ tools }: Pick<Contract, "tools">): KnownParameters {
  return new Map(tools.map(({ name, inputSchema }) => [name, new Set(Object.keys(schemaProperties(inputSchema)))]));
}

interface Signature {
  readonly name: string;
  readonly required: readonly string[];
  readonly types: Readonly<Record<string, readonly string[]>>;
}

function toolSignature(
  name: string,
  schema: JsonSchema,
  known: ReadonlySet<string> | undefined,
  types: Types,
): Signature {
  const properties = schemaProperties(schema);
  const required = requiredNames(schema).filter((parameter) => !hasDefault(properties[parameter]));
  const needed = new Set(required);
  const relevant = Object.keys(properties).filter(
    (parameter) => known === undefined || known.has(parameter) || needed.has(parameter),
  );
  const typed = relevant.map((parameter) => [parameter, types.of(properties[parameter], schema)]);
  return { name, required: required.sort(), types: Object.fromEntries(typed) };
}

function schemaProperties(schema: JsonSchema): Record<string, unknown> {
  return isObject(schema["properties"]) ? schema["properties"] : {};
}

function requiredNames({ required }: JsonSchema): string[] {
  return Array.isArray(required) ? required.filter((name) => typeof name === "string") : [];
}

function hasDefault(schema: unknown): boolean {
  return isObject(schema) && "default" in schema;
}

const REFERENCES_MAX = 32;
/**
 * Steps for all types of one contract: parameters, their choices and references. A contract of the maximum size needs
 * fewer, unless it references the same schema again and again: then further types count as `any`.
 */
const STEPS_MAX = 50_000;

/** The types of parameters. Each schema is examined once, however many others reference it. */
class Types {
  #stepsLeft = STEPS_MAX;
  readonly #cache = new Map<unknown, DeclaredTypes>();

  /** The JSON types that a value may have, sorted; `any` if the schema does not say. */
  of(schema: unknown, root: JsonSchema): readonly string[] {
    const types = new Set<string>();
    // Visits each schema once per level, however many paths lead to it.
    let level = new Set([schema]);
    for (let depth = 0; level.size > 0; depth++) {
      const next = new Set<unknown>();
      for (const each of level) {
        const declared = depth > REFERENCES_MAX ? ANY : this.#examine(each, root);
        this.#stepsLeft -= 1 + declared.types.length + declared.next.length;
        if (this.#stepsLeft < 0) {
          types.add("any");
          continue;
        }
        for (const type of declared.types) types.add(type);
        for (const choice of declared.next) next.add(choice);
      }
      level = next;
    }
    return [...types].sort();
  }

  #examine(schema: unknown, root: JsonSchema): DeclaredTypes {
    if (!isObject(schema)) return ANY;
    const cached = this.#cache.get(schema);
    if (cached) return cached;
    const declared = declaredTypes(schema, root);
    this.#cache.set(schema, declared);
    return declared;
  }
}

/** The types that a schema declares itself, and the schemas that declare more. */
interface DeclaredTypes {
  readonly types: readonly string[];
  readonly next: readonly unknown[];
}

const ANY: DeclaredTypes = { types: ["any"], next: [] };

function declaredTypes(schema: Record<string, unknown>, root: JsonSchema): DeclaredTypes {
  const { type, $ref: reference } = schema;
  if (typeof type === "string") return { types: [type], next: [] };
  if (Array.isArray(type)) return { types: distinct(type.filter((each) => typeof each === "string")), next: [] };
  if (typeof reference === "string") return { types: [], next: [resolvePointer(reference, root)] };
  if ("const" in schema) return { types: [jsonType(schema["const"])], next: [] };
  if (Array.isArray(schema["enum"])) return { types: distinct(schema["enum"].map(jsonType)), next: [] };
  const choices = schema["anyOf"] ?? schema["oneOf"];
  return Array.isArray(choices) ? { types: [], next: choices } : ANY;
}

function distinct(types: readonly string[]): string[] {
  return [...new Set(types)];
}

function resolvePointer(reference: string, root: JsonSchema): unknown {
  if (!reference.startsWith("#/")) return undefined;
  let at: unknown = root;
  for (const part of reference.slice(2).split("/")) {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    at = isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined;
  }
  return at;
}

function jsonType(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value === "object" ? "object" : typeof value;
}
