import { hash } from "node:crypto";
import type { JsonDigest } from "./json.ts";

/**
 * The canonical JSON of a structure, byte for byte as in DAG-JSON (https://ipld.io/specs/codecs/dag-json/spec/):
 * members sorted by the code units of their names, no spaces, numbers beyond the safe integers with a point or an
 * exponent. Values are omitted or become null as with `JSON.stringify`.
 *
 * Every release, contract and tool is serialized like this before it is hashed. A codec that also supports binary data
 * and links, which Berth does not store in structures, takes ten times as long.
 */
export function canonicalJson(value: unknown): string {
  const text = serialize(value);
  if (text === undefined) throw new TypeError(`JSON cannot represent ${typeof value}`);
  return text;
}

/** A digest that identifies a structure. */
export function digestOfJson(value: unknown): JsonDigest {
  const text = canonicalJson(value);
  return { bytes: Buffer.byteLength(text), sha256: hash("sha256", text, "base64url") };
}

function serialize(value: unknown): string | undefined {
  switch (typeof value) {
    case "string":
      return JSON.stringify(value);
    case "number":
      return serializeNumber(value);
    case "boolean":
      return value ? "true" : "false";
    case "bigint":
      throw new TypeError("JSON cannot represent a bigint");
    case "object":
      return value === null ? "null" : serializeStructure(value as Structure);
    default:
      return undefined;
  }
}

type Structure = Record<string, unknown> & { toJSON?: unknown };

function serializeStructure(value: Structure): string | undefined {
  if (typeof value.toJSON === "function") return serialize(value.toJSON());
  const list = new List();
  if (Array.isArray(value)) {
    for (const item of value) list.add(serialize(item) ?? "null");
    return `[${list.text}]`;
  }
  for (const name of sortNames(Object.keys(value))) {
    const member = serialize(value[name]);
    if (member !== undefined) list.add(`${serializeName(name)}${member}`);
  }
  return `{${list.text}}`;
}

/** Items with commas. Appending millions of items to one string takes thirty times its length in memory. */
class List {
  #text = "";
  #items: string[] = [];

  add(item: string): void {
    if (this.#items.push(item) < BATCH_ITEMS) return;
    this.#text += `${this.#text === "" ? "" : ","}${this.#items.join()}`;
    this.#items = [];
  }

  get text(): string {
    if (this.#text === "") return this.#items.join();
    return this.#items.length === 0 ? this.#text : `${this.#text},${this.#items.join()}`;
  }
}

const BATCH_ITEMS = 1_024;

/** Member names in JSON notation: the same few are needed repeatedly. */
const cachedNames = new Map<string, string>();
const CACHED_NAMES_MAX = 1_024;
const CACHED_NAME_UNITS_MAX = 64;

function serializeName(name: string): string {
  let text = cachedNames.get(name);
  if (text === undefined) {
    text = `${JSON.stringify(name)}:`;
    if (cachedNames.size < CACHED_NAMES_MAX && name.length <= CACHED_NAME_UNITS_MAX) cachedNames.set(name, text);
  }
  return text;
}

/** Most structures have few members, for which a general sort has too much overhead. */
function sortNames(names: string[]): string[] {
  if (names.length > FEW) return names.sort();
  for (let index = 1; index < names.length; index++) {
    const name = names[index]!;
    let at = index;
    for (; at > 0 && names[at - 1]! > name; at--) names[at] = names[at - 1]!;
    names[at] = name;
  }
  return names;
}

const FEW = 12;

function serializeNumber(value: number): string {
  if (!Number.isFinite(value)) return "null";
  const text = String(value);
  return Number.isSafeInteger(value) || /[.e]/.test(text) ? text : `${text}.0`;
}
