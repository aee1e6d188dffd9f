import { valueAt } from "../../lib/json-pointer.ts";
import { isObject, type Json, type JsonSchema } from "../../lib/json.ts";
import { HIDDEN } from "../../lib/redactor.ts";

/** Keywords with schemas of the same value. Includes `not`: an author who marks a secret there means one. */
const SAME_VALUE_KEYWORDS =
  "allOf anyOf oneOf if then else not dependentSchemas dependencies propertyNames contentSchema".split(" ");
/** Keywords with schemas of one member or item, of each, and of those without a schema of their own. */
const MEMBER_KEYWORDS = {
  own: ["properties"],
  each: ["patternProperties"],
  others: ["additionalProperties", "unevaluatedProperties"],
};
const ITEM_KEYWORDS = {
  own: ["prefixItems", "items"],
  each: ["contains", "unevaluatedItems"],
  others: ["items", "additionalItems"],
};
/** Keywords with a map of schemas. */
const MAPS = new Set(["dependentSchemas", "dependencies", "patternProperties"]);
const OWN_KEYWORDS = [...MEMBER_KEYWORDS.own, ...ITEM_KEYWORDS.own];
const REFERENCES = ["$ref", "$dynamicRef", "$recursiveRef"];
const SECRET = { writeOnly: true };
/** Schemas visited per value; anything beyond is treated as secret. */
const STEPS_MAX = 8_000;

/** Returns the schema if it marks secrets, with `"format": "password"` or `"writeOnly": true`. */
export function markingSecrets(schema: unknown): JsonSchema | undefined {
  return isObject(schema) && /"format":"password"|"writeOnly":true/.test(JSON.stringify(schema)) ? schema : undefined;
}

/** A value without the secrets that its schema marks, and those secrets as strings. Linear in the value. */
export function hideSecretFields(
  schema: JsonSchema | undefined,
  value: Json,
): { readonly value: Json; readonly found: string[] } {
  const secrets: string[] = [];
  const hide = (node: SchemaNode, value: Json): Json => {
    if (node.isSecret) {
      collectSecrets(value, secrets);
      return HIDDEN;
    }
    if (node.schemas.size === 0 || typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((item, index) => hide(node.below(index), item));
    const members = Object.entries(value as Record<string, Json>);
    return Object.fromEntries(members.map(([name, member]) => [name, hide(node.below(name), member)]));
  };
  return { value: schema ? hide(new SchemaNode([schema], { root: schema, steps: 0 }), value) : value, found: secrets };
}

function collectSecrets(value: Json, secrets: string[]): void {
  if (typeof value === "string" || typeof value === "number") secrets.push(String(value));
  else if (typeof value === "object" && value !== null)
    for (const each of Object.values(value)) collectSecrets(each, secrets);
}

/** Values with the same schemas. */
class SchemaNode {
  readonly isSecret: boolean;
  readonly schemas: Set<JsonSchema>;
  readonly #visit: { readonly root: JsonSchema; steps: number };
  /** The members and items that may have schemas of their own. */
  readonly #keys: ReadonlySet<string>;
  /** The child nodes visited so far. Other members share the one under true, other items the one under false. */
  readonly #below = new Map<string | number | boolean, SchemaNode>();

  constructor(schemas: readonly unknown[], visit: { readonly root: JsonSchema; steps: number }) {
    this.#visit = visit;
    this.schemas = new Set(schemas.filter(isObject));
    // The set grows while it is iterated.
    for (const schema of this.schemas)
      for (const same of sameValueSchemas(schema, visit.root)) if (isObject(same)) this.schemas.add(same);
    const all = [...this.schemas];
    this.#keys = new Set(
      all.flatMap((schema) => OWN_KEYWORDS.flatMap((keyword) => Object.keys(Object(schema[keyword]) as object))),
    );
    visit.steps += all.length + this.#keys.size;
    this.isSecret = all.some(({ format, writeOnly }) => format === "password" || writeOnly === true);
  }

  /** The node of a member or an item. */
  below(key: string | number): SchemaNode {
    const childKey = this.#keys.has(String(key)) ? key : typeof key === "string";
    let child = this.#below.get(childKey);
    if (!child) {
      this.#visit.steps += this.schemas.size;
      const isBeyond = this.#visit.steps > STEPS_MAX;
      const childSchemas = isBeyond ? [SECRET] : [...this.schemas].flatMap((schema) => schemasBelow(schema, key));
      child = new SchemaNode(childSchemas, this.#visit);
      this.#below.set(childKey, child);
    }
    return child;
  }
}

function sameValueSchemas(schema: JsonSchema, root: JsonSchema): unknown[] {
  const references = REFERENCES.filter((each) => Object.hasOwn(schema, each));
  // The targets of anchors and references to other documents are unknown.
  const targets = references.map((each) => valueAt(root, String(schema[each])) ?? SECRET);
  return [...schemasIn(schema, SAME_VALUE_KEYWORDS), ...targets];
}

function schemasBelow(schema: JsonSchema, key: string | number): unknown[] {
  const isMember = typeof key === "string";
  const { own, each, others } = isMember ? MEMBER_KEYWORDS : ITEM_KEYWORDS;
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
