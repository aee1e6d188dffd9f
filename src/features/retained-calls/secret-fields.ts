import { valueAt } from "../../lib/json-pointer.ts";
import { isObject, type Json, type JsonSchema } from "../../lib/json.ts";
import { HIDDEN } from "../../lib/redactor.ts";

/** Keywords with schemas of the same value. `not` counts, too: an author who marks a secret there means one. */
const OF_THE_VALUE =
  "allOf anyOf oneOf if then else not dependentSchemas dependencies propertyNames contentSchema".split(" ");
/** Keywords with schemas of one member or item, of each, and of those that have none of their own. */
const OF_MEMBERS = {
  own: ["properties"],
  each: ["patternProperties"],
  others: ["additionalProperties", "unevaluatedProperties"],
};
const OF_ITEMS = {
  own: ["prefixItems", "items"],
  each: ["contains", "unevaluatedItems"],
  others: ["items", "additionalItems"],
};
/** Keywords with a map of schemas. */
const MAPS = new Set(["dependentSchemas", "dependencies", "patternProperties"]);
const OWN = [...OF_MEMBERS.own, ...OF_ITEMS.own];
const REFERENCES = ["$ref", "$dynamicRef", "$recursiveRef"];
const SECRET = { writeOnly: true };
/** Schemas that are visited for one value; what lies beyond them is secret. */
const STEPS_MAX = 8_000;

/** The schema if it marks secrets, with `"format": "password"` or `"writeOnly": true`. */
export function markingSecrets(schema: unknown): JsonSchema | undefined {
  return isObject(schema) && /"format":"password"|"writeOnly":true/.test(JSON.stringify(schema)) ? schema : undefined;
}

/** A value without the secrets that its schema marks, and the texts that they were. Linear in the value. */
export function hideSecretFields(
  schema: JsonSchema | undefined,
  value: Json,
): { readonly value: Json; readonly found: string[] } {
  const found: string[] = [];
  const hide = (place: Place, value: Json): Json => {
    if (place.isSecret) {
      note(value, found);
      return HIDDEN;
    }
    if (place.schemas.size === 0 || typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((item, index) => hide(place.below(index), item));
    const members = Object.entries(value as Record<string, Json>);
    return Object.fromEntries(members.map(([name, member]) => [name, hide(place.below(name), member)]));
  };
  return { value: schema ? hide(new Place([schema], { root: schema, steps: 0 }), value) : value, found };
}

function note(value: Json, found: string[]): void {
  if (typeof value === "string" || typeof value === "number") found.push(String(value));
  else if (typeof value === "object" && value !== null) for (const each of Object.values(value)) note(each, found);
}

/** Values with the same schemas. */
class Place {
  readonly isSecret: boolean;
  readonly schemas: Set<JsonSchema>;
  readonly #visit: { readonly root: JsonSchema; steps: number };
  /** The members and items that may have schemas of their own. */
  readonly #keys: ReadonlySet<string>;
  /** The places of those that were visited; that of all other members is under true, that of other items under false. */
  readonly #below = new Map<string | number | boolean, Place>();

  constructor(given: readonly unknown[], visit: { readonly root: JsonSchema; steps: number }) {
    this.#visit = visit;
    this.schemas = new Set(given.filter(isObject));
    // The set grows meanwhile.
    for (const schema of this.schemas)
      for (const same of sameValue(schema, visit.root)) if (isObject(same)) this.schemas.add(same);
    const all = [...this.schemas];
    this.#keys = new Set(
      all.flatMap((schema) => OWN.flatMap((keyword) => Object.keys(Object(schema[keyword]) as object))),
    );
    visit.steps += all.length + this.#keys.size;
    this.isSecret = all.some(({ format, writeOnly }) => format === "password" || writeOnly === true);
  }

  /** The place of a member or an item. */
  below(key: string | number): Place {
    const known = this.#keys.has(String(key)) ? key : typeof key === "string";
    let place = this.#below.get(known);
    if (!place) {
      this.#visit.steps += this.schemas.size;
      const isBeyond = this.#visit.steps > STEPS_MAX;
      const given = isBeyond ? [SECRET] : [...this.schemas].flatMap((schema) => schemasBelow(schema, key));
      place = new Place(given, this.#visit);
      this.#below.set(known, place);
    }
    return place;
  }
}

function sameValue(schema: JsonSchema, root: JsonSchema): unknown[] {
  const references = REFERENCES.filter((each) => Object.hasOwn(schema, each));
  // Nothing is known of what an anchor or another document describes.
  const targets = references.map((each) => valueAt(root, String(schema[each])) ?? SECRET);
  return [...schemasIn(schema, OF_THE_VALUE), ...targets];
}

function schemasBelow(schema: JsonSchema, key: string | number): unknown[] {
  const isMember = typeof key === "string";
  const { own, each, others } = isMember ? OF_MEMBERS : OF_ITEMS;
  for (const keyword of own) {
    const list = schema[keyword];
    const isOwn = Array.isArray(list) !== isMember && Object(list) === list && Object.hasOwn(list as object, key);
    if (isOwn) return [(list as JsonSchema)[key], ...schemasIn(schema, each)];
  }
  return [...others.map((keyword) => schema[keyword]), ...schemasIn(schema, each)];
}

function schemasIn(schema: JsonSchema, keywords: readonly string[]): unknown[] {
  return keywords.flatMap((each) => (MAPS.has(each) ? Object.values(Object(schema[each]) as object) : schema[each]));
}
