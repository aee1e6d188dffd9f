import { isObject } from "../lib/json.ts";
import { mapMembers, mapSchemas } from "./subschemas.ts";
import type { WithheldItem } from "./withheld-items.ts";

/**
 * Some servers compute defaults and examples when they start, such as today's date. Two versions of an item with equal
 * stable forms differ only there, and only in values that cannot contain an instruction or an address: dates, times and
 * numbers. An item without such values is its own stable form.
 */
export function stableForm<Item extends WithheldItem>(item: Item): Item {
  const cached = forms.get(item);
  if (cached) return cached as Item;
  const form = mapMembers(item, (value, field) => (SCHEMAS.has(field) ? mapSchemas(value, stableSchema) : value));
  forms.set(item, form);
  return form;
}

const forms = new WeakMap<WithheldItem, WithheldItem>();
const SCHEMAS: ReadonlySet<string> = new Set(["inputSchema", "outputSchema"]);
const SAMPLES: ReadonlySet<string> = new Set(["default", "examples", "example"]);

function stableSchema(schema: unknown): unknown {
  if (!isObject(schema)) return schema;
  return mapMembers(schema, (value, keyword) => (SAMPLES.has(keyword) ? stableValue(value) : value));
}

function stableValue(value: unknown): unknown {
  if (typeof value === "number" || (typeof value === "string" && DATE_OR_TIME.test(value))) return 0;
  return typeof value === "object" && value !== null ? mapMembers(value, stableValue) : value;
}

/** ISO 8601 and RFC 3339, also with a space instead of `T`. Digits alone may be an address or an account. */
const DATE_OR_TIME = dateOrTime();

function dateOrTime(): RegExp {
  const date = String.raw`\d{4}-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?`;
  const time = String.raw`(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?`;
  return new RegExp(`^(?:${date}(?:[T ]${time})?|${time})$`);
}
