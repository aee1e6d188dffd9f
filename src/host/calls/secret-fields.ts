import { valueAt } from "../../lib/json-pointer.ts";
import { isObject, type Json } from "../../lib/json.ts";
import { HIDDEN } from "../../lib/redactor.ts";

type Schema = Readonly<Record<string, unknown>>;

/**
 * The values that the schemas of a keyword describe: the same value (`=`), each member (`+`), members without a schema of
 * their own (`*`), each item (`&`), or items without one (`%`). The key of a schema of its own is `.` and the member's name,
 * or `#` and the item's index. `not` counts, too: an author who marks a secret there means one.
 */
const KEYWORDS = new Map(
  Object.entries({
    "=": "allOf anyOf oneOf if then else not dependentSchemas dependencies propertyNames contentSchema",
    "+": "patternProperties",
    "*": "additionalProperties unevaluatedProperties",
    "&": "contains unevaluatedItems",
    "%": "items additionalItems",
  }).flatMap(([about, keywords]) => keywords.split(" ").map((keyword) => [keyword, about] as const)),
);
const OF_MEMBERS = { own: ".", others: "*", each: "+" };
const OF_ITEMS = { own: "#", others: "%", each: "&" };
/** Keywords with a map of schemas. */
const MAPS = new Set(["dependentSchemas", "dependencies", "patternProperties"]);
const REFERENCES = new Set(["$ref", "$dynamicRef", "$recursiveRef"]);
/** References that lead to references; more may lead in a circle. */
const REFERENCES_MAX = 10;
/** Schemas, and edges between them, that are visited for one plan. */
const STEPS_MAX = 40_000;

/**
 * The secrets of a value, as its schema marks them with `"format": "password"` or `"writeOnly": true`: a place of the
 * value, and those below it. Undefined where there is nothing.
 */
export type SecretPlan = Place | undefined;

interface Place {
  readonly isSecret: boolean;
  readonly below: Map<string, SecretPlan>;
}

/** A value without its secrets, and the texts that they were. Linear in the value. */
export function hideSecretFields(plan: SecretPlan, value: Json): { readonly value: Json; readonly found: string[] } {
  const found: string[] = [];
  const hide = (place: SecretPlan, value: Json): Json => {
    if (place?.isSecret) {
      note(value, found);
      return HIDDEN;
    }
    if (!place || typeof value !== "object" || value === null) return value;
    const below = (key: string, others: string): SecretPlan => place.below.get(place.below.has(key) ? key : others);
    if (Array.isArray(value)) return value.map((item, index) => hide(below(`#${index}`, "%"), item));
    const members = Object.entries(value as Record<string, Json>);
    return Object.fromEntries(members.map(([name, member]) => [name, hide(below(`.${name}`, "*"), member)]));
  };
  return { value: hide(plan, value), found };
}

function note(value: Json, found: string[]): void {
  if (typeof value === "string" || typeof value === "number") found.push(String(value));
  else if (typeof value === "object" && value !== null) for (const each of Object.values(value)) note(each, found);
}

/**
 * Compiles a schema. All schemas of one place of a value become one place of the plan, and those that lead to no secret
 * are dropped. What would take too many steps, or is nested too deep, makes the whole value secret.
 */
export function secretPlan(schema: unknown): SecretPlan {
  try {
    const isMarked = /"password"|"writeOnly"/.test(JSON.stringify(schema) ?? "");
    return isMarked && isObject(schema) ? new Compiler(schema).compile() : undefined;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return { isSecret: true, below: new Map() };
  }
}

/** A schema with those that it applies, by what they describe. */
interface Part {
  readonly id: number;
  readonly isSecret: boolean;
  /** True if it is secret, or leads to one that is. */
  leads: boolean;
  readonly parents: Part[];
  readonly below: Map<string, Part[]>;
}

class Compiler {
  readonly #root: Schema;
  #steps = 0;
  readonly #parts = new Map<Schema, Part>();
  readonly #places = new Map<string, Place>();

  constructor(root: Schema) {
    this.#root = root;
  }

  compile(): SecretPlan {
    const root = this.#part(this.#root);
    // Both grow meanwhile.
    for (const [schema, part] of this.#parts) this.#read(schema, part);
    const leading = [...this.#parts.values()].filter(({ isSecret }) => isSecret);
    for (const part of leading) {
      if (!part.leads) leading.push(...part.parents);
      part.leads = true;
    }
    return this.#place([root]);
  }

  #count(steps: number): void {
    this.#steps += steps;
    if (this.#steps > STEPS_MAX) throw new RangeError("The schema takes too many steps");
  }

  #part(schema: Schema): Part {
    let part = this.#parts.get(schema);
    if (!part) {
      part = { id: this.#parts.size, isSecret: isSecret(schema), leads: false, parents: [], below: new Map() };
      this.#parts.set(schema, part);
    }
    return part;
  }

  #read(schema: Schema, part: Part): void {
    const add = (about: string, schemas: readonly unknown[]): void => {
      const parts = schemas.filter(isObject).map((each) => this.#part(each));
      this.#count(parts.length);
      for (const each of parts) each.parents.push(part);
      push(part.below, about, parts);
    };
    for (const [keyword, value] of Object.entries(schema)) {
      const about = KEYWORDS.get(keyword);
      const isList = keyword === "prefixItems" || keyword === "items";
      if (keyword === "properties" && isObject(value)) {
        for (const [name, member] of Object.entries(value)) add(`.${name}`, [member]);
      } else if (isList && Array.isArray(value)) {
        for (const [index, item] of value.entries()) add(`#${index}`, [item]);
      } else if (REFERENCES.has(keyword)) {
        // Nothing is known of what an anchor or another document describes.
        add("=", [valueAt(this.#root, String(value)) ?? { writeOnly: true }]);
      } else if (about !== undefined) {
        add(about, MAPS.has(keyword) && isObject(value) ? Object.values(value) : [value].flat());
      }
    }
  }

  #place(given: readonly Part[]): SecretPlan {
    this.#count(1 + given.length);
    const parts = new Set(given.filter(({ leads }) => leads).map(target));
    if (parts.size === 0) return undefined;
    const key = Array.from(parts, ({ id }) => id)
      .toSorted((one, other) => one - other)
      .join();
    const known = this.#places.get(key);
    if (known) return known;
    // The set grows meanwhile.
    for (const { below } of parts) {
      const same = below.get("=") ?? [];
      this.#count(1 + same.length);
      for (const each of same) if (each.leads) parts.add(each);
    }
    const place: Place = { isSecret: [...parts].some(({ isSecret }) => isSecret), below: new Map() };
    this.#places.set(key, place);
    if (!place.isSecret) for (const about of [OF_MEMBERS, OF_ITEMS]) this.#fill(place, [...parts], about);
    return place;
  }

  #fill({ below }: Place, parts: readonly Part[], { own, others, each }: typeof OF_MEMBERS): void {
    const always = parts.flatMap((part) => part.below.get(each) ?? []);
    const open = parts.filter((part) => part.below.get(others)?.some(({ leads }) => leads));
    const byKey = new Map<string, Part[]>([[others, []]]);
    for (const part of parts) {
      for (const [key, children] of part.below) {
        this.#count(1);
        if (key.startsWith(own)) push(byKey, key, children);
      }
    }
    for (const [key, children] of byKey) {
      this.#count(open.length);
      const rest = open.flatMap((part) => (part.below.has(key) && key !== others ? [] : part.below.get(others)!));
      below.set(key, this.#place([...always, ...children, ...rest]));
    }
  }
}

function isSecret({ format, writeOnly }: Schema): boolean {
  return format === "password" || writeOnly === true;
}

function push<Item>(lists: Map<string, Item[]>, key: string, items: readonly Item[]): void {
  const list = lists.get(key);
  if (list) list.push(...items);
  else lists.set(key, [...items]);
}

/** The part that one with nothing but a reference leads to, so that the places of all such are one. */
function target(part: Part): Part {
  let at = part;
  for (let step = 0; step < REFERENCES_MAX && at.below.size === 1 && !at.isSecret; step++) {
    const [only, more] = at.below.get("=") ?? [];
    if (!only || more) break;
    at = only;
  }
  return at;
}
