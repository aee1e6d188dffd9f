import { hash } from "node:crypto";
import type { JsonDigest } from "./json.ts";

/**
 * The canonical JSON of a structure, byte for byte as DAG-JSON writes it (https://ipld.io/specs/codecs/dag-json/spec/):
 * members sorted by their names' code units, no spaces, a number beyond the safe integers with a point or an exponent.
 * Values are left out or become null as with `JSON.stringify`.
 *
 * Every release, contract and tool is written so before it is hashed; this takes a tenth of what a codec takes that
 * also knows binary data and links, of which Berth keeps none in structures.
 */
export function canonicalJson(value: unknown): string {
  const text = textOf(value);
  if (text === undefined) throw new TypeError(`JSON cannot carry ${typeof value}`);
  return text;
}

/** A digest that identifies a structure. */
export function digestOfJson(value: unknown): JsonDigest {
  const text = canonicalJson(value);
  return { bytes: Buffer.byteLength(text), sha256: hash("sha256", text, "base64url") };
}

function textOf(value: unknown): string | undefined {
  switch (typeof value) {
    case "string":
      return JSON.stringify(value);
    case "number":
      return numberText(value);
    case "boolean":
      return value ? "true" : "false";
    case "bigint":
      throw new TypeError("JSON cannot carry a bigint");
    case "object":
      return value === null ? "null" : structureText(value as Structure);
    default:
      return undefined;
  }
}

type Structure = Record<string, unknown> & { toJSON?: unknown };

function structureText(value: Structure): string | undefined {
  if (typeof value.toJSON === "function") return textOf(value.toJSON());
  const list = new List();
  if (Array.isArray(value)) {
    for (const item of value) list.add(textOf(item) ?? "null");
    return `[${list.text}]`;
  }
  for (const name of sorted(Object.keys(value))) {
    const member = textOf(value[name]);
    if (member !== undefined) list.add(`${nameText(name)}${member}`);
  }
  return `{${list.text}}`;
}

/** Items with commas. Appending millions of items to one text takes thirty times its length in memory. */
class List {
  #text = "";
  #items: string[] = [];

  add(item: string): void {
    if (this.#items.push(item) < ITEMS_TOGETHER) return;
    this.#text += `${this.#text === "" ? "" : ","}${this.#items.join()}`;
    this.#items = [];
  }

  get text(): string {
    if (this.#text === "") return this.#items.join();
    return this.#items.length === 0 ? this.#text : `${this.#text},${this.#items.join()}`;
  }
}

const ITEMS_TOGETHER = 1_024;

/** Member names in JSON notation: the same few are needed again and again. */
const known = new Map<string, string>();
const KNOWN_MAX = 1_024;
const KNOWN_LETTERS_MAX = 64;

function nameText(name: string): string {
  let text = known.get(name);
  if (text === undefined) {
    text = `${JSON.stringify(name)}:`;
    if (known.size < KNOWN_MAX && name.length <= KNOWN_LETTERS_MAX) known.set(name, text);
  }
  return text;
}

/** Most structures have few members, for which a general sort has too much overhead. */
function sorted(names: string[]): string[] {
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

function numberText(value: number): string {
  if (!Number.isFinite(value)) return "null";
  const text = String(value);
  return Number.isSafeInteger(value) || /[.e]/.test(text) ? text : `${text}.0`;
}
