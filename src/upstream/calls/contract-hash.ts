import type { Contract } from "../../contract/contract.ts";
import { jsonBlock, jsonBlockInTurns, type Cid } from "../../lib/cid.ts";
import { turnTaker } from "../../lib/event-loop.ts";
import { isObject, type JsonSchema } from "../../lib/json.ts";

/** The tools and parameters that a caller knows: the rest does not affect it. */
export type Known = ReadonlyMap<string, ReadonlySet<string>>;

/**
 * The hash of the facts that callers of a server rely on (J5): the names of its tools, their required parameters, and
 * the types of the parameters. It covers neither descriptions nor a requirement that a default satisfies. With `known`,
 * it leaves out later tools and optional parameters, too, so that it stays the same for as long as nothing is removed,
 * newly required or given another type.
 */
export function contractHash(contract: Pick<Contract, "tools">, known?: Known): Cid {
  return jsonBlock([...signaturesOf(contract, known)].sort(byName)).cid;
}

/** The same for the serving thread: other calls get their turn meanwhile. */
export async function contractHashInTurns(contract: Pick<Contract, "tools">, known?: Known): Promise<Cid> {
  const turn = turnTaker();
  const signatures: Signature[] = [];
  for (const signature of signaturesOf(contract, known)) {
    signatures.push(signature);
    await turn();
  }
  return (await jsonBlockInTurns(signatures.sort(byName))).cid;
}

function* signaturesOf({ tools }: Pick<Contract, "tools">, known: Known | undefined): Generator<Signature> {
  const types = new Types();
  for (const { name, inputSchema } of tools) {
    if (known === undefined || known.has(name)) yield signatureOf(name, inputSchema, known?.get(name), types);
  }
}

function byName(left: Signature, right: Signature): number {
  return left.name < right.name ? -1 : 1;
}

/** All tools and parameters of a contract today. */
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
  types: Types,
): Signature {
  const properties = propertiesOf(schema);
  const required = requiredOf(schema).filter((parameter) => !hasDefault(properties[parameter]));
  const needed = new Set(required);
  const counted = Object.keys(properties).filter(
    (parameter) => known === undefined || known.has(parameter) || needed.has(parameter),
  );
  const told = counted.map((parameter) => [parameter, types.of(properties[parameter], schema)]);
  return { name, required: required.sort(), types: Object.fromEntries(told) };
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
 * Steps for all types of one contract: those of parameters, their choices and references. A contract of the longest
 * allowed size needs fewer, unless it refers to the same schema again and again: further types count as any.
 */
const STEPS_MAX = 50_000;

/** The types of parameters. Each schema is examined once, however many others refer to it. */
class Types {
  #stepsLeft = STEPS_MAX;
  readonly #own = new Map<unknown, Own>();

  /** The JSON types that a value may have, sorted; `any` if the schema does not say. */
  of(schema: unknown, root: JsonSchema): readonly string[] {
    const types = new Set<string>();
    // Each schema once on each level, however many paths lead to it.
    let level = new Set([schema]);
    for (let depth = 0; level.size > 0; depth++) {
      const next = new Set<unknown>();
      for (const each of level) {
        const own = depth > REFERENCES_MAX ? ANY : this.#ownOf(each, root);
        this.#stepsLeft -= 1 + own.types.length + own.next.length;
        if (this.#stepsLeft < 0) {
          types.add("any");
          continue;
        }
        for (const type of own.types) types.add(type);
        for (const choice of own.next) next.add(choice);
      }
      level = next;
    }
    return [...types].sort();
  }

  #ownOf(schema: unknown, root: JsonSchema): Own {
    if (!isObject(schema)) return ANY;
    const known = this.#own.get(schema);
    if (known) return known;
    const own = ownOf(schema, root);
    this.#own.set(schema, own);
    return own;
  }
}

/** The types that a schema states itself, and the schemas that state the others. */
interface Own {
  readonly types: readonly string[];
  readonly next: readonly unknown[];
}

const ANY: Own = { types: ["any"], next: [] };

function ownOf(schema: Record<string, unknown>, root: JsonSchema): Own {
  const { type, $ref: reference } = schema;
  if (typeof type === "string") return { types: [type], next: [] };
  if (Array.isArray(type)) return { types: distinct(type.filter((each) => typeof each === "string")), next: [] };
  if (typeof reference === "string") return { types: [], next: [resolved(reference, root)] };
  if ("const" in schema) return { types: [typeOf(schema["const"])], next: [] };
  if (Array.isArray(schema["enum"])) return { types: distinct(schema["enum"].map(typeOf)), next: [] };
  const choices = schema["anyOf"] ?? schema["oneOf"];
  return Array.isArray(choices) ? { types: [], next: choices } : ANY;
}

function distinct(types: readonly string[]): string[] {
  return [...new Set(types)];
}

/** The target of a JSON pointer within the same schema. */
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
