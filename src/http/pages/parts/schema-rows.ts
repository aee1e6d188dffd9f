import { typeText } from "../../../contract/signature.ts";
import { cutText } from "../../../lib/cut-text.ts";
import { isObject, jsonText, type JsonSchema } from "../../../lib/json.ts";

/** One row of the table that shows a schema: a parameter, or a field inside one. */
export interface SchemaRow {
  /** The path of its parent, such as `invoices[].`; empty at the top. */
  readonly path: string;
  readonly name: string;
  readonly type: string;
  readonly required: boolean;
  /** True when it has any of the fields below. */
  readonly noted: boolean;
  /** The default as JSON; undefined when there is none. */
  readonly fallback: string | undefined;
  /** `at least 0`, `at most 40 characters`, … */
  readonly constraints: readonly string[];
  readonly description: string;
}

/** A schema's rows as HTML, and nothing where it has none. */
export interface SchemaTable {
  readonly rows: unknown;
  readonly cut: boolean;
}

/** Renders each schema once: many tools of a server take, or return, the same. */
export function schemaTables(render: (rows: readonly SchemaRow[]) => unknown): (schema: JsonSchema) => SchemaTable {
  const known = new Map<string, SchemaTable>();
  return (schema) => {
    const key = jsonText(schema);
    let table = known.get(key);
    if (!table) {
      const { rows, cut } = schemaRows(schema);
      table = { rows: rows.length > 0 ? render(rows) : "", cut };
      known.set(key, table);
    }
    return table;
  };
}

/** A longer table helps nobody: deeper fields are in the JSON. */
const ROWS_MAX = 60;
const DEPTH_MAX = 4;
const TYPE_MAX = 160;
const PATH_MAX = 160;
/** The most characters of a default, constraint or example, and of a description. */
const VALUE_MAX = 1_000;
const DESCRIPTION_MAX = 4_000;

/** The parameters of a tool, each followed by the fields inside it. `cut` when not all are shown. */
function schemaRows(schema: JsonSchema): { rows: readonly SchemaRow[]; cut: boolean } {
  const rows: SchemaRow[] = [];
  let cut = false;
  addFields(schema, "", 0);
  return { rows, cut };

  function addFields(schema: JsonSchema, path: string, depth: number): void {
    const { properties, required } = schema;
    if (!isObject(properties)) return;
    for (const [name, each] of Object.entries(properties)) {
      if (rows.length >= ROWS_MAX || depth >= DEPTH_MAX) {
        cut = true;
        return;
      }
      const field: JsonSchema = isObject(each) ? each : {};
      rows.push(rowOf(field, path, name, Array.isArray(required) && required.includes(name)));
      addInside(field, `${path}${name}`, depth + 1);
    }
  }

  function addInside(field: JsonSchema, path: string, depth: number): void {
    addFields(field, `${path}.`, depth);
    if (path.length > PATH_MAX) {
      cut = true;
      return;
    }
    if (isObject(field["items"])) addInside(field["items"], `${path}[]`, depth);
    if (isObject(field["additionalProperties"])) addInside(field["additionalProperties"], `${path}.*`, depth);
    const kinds = field["anyOf"] ?? field["oneOf"];
    if (!Array.isArray(kinds)) return;
    const objects = kinds.filter((kind) => isObject(kind) && isObject(kind["properties"])) as JsonSchema[];
    for (const [index, kind] of objects.entries()) {
      addFields(kind, objects.length === 1 ? `${path}.` : `${path}(${index + 1}).`, depth);
    }
  }
}

function rowOf(schema: JsonSchema, path: string, name: string, required: boolean): SchemaRow {
  const type = typeText(schema);
  const fallback = "default" in schema ? cutText(jsonText(schema["default"]), VALUE_MAX) : undefined;
  const constraints = constraintsOf(schema);
  const description = typeof schema["description"] === "string" ? cutText(schema["description"], DESCRIPTION_MAX) : "";
  return {
    path,
    name,
    type: cutText(type, TYPE_MAX),
    required,
    noted: description !== "" || fallback !== undefined || constraints.length > 0,
    fallback,
    constraints,
    description,
  };
}

/** Constraints in words, in the order of the schema; all others are in the JSON. */
const LIMITS: ReadonlyMap<string, (value: string) => string> = new Map([
  ["minimum", (value) => `at least ${value}`],
  ["exclusiveMinimum", (value) => `more than ${value}`],
  ["maximum", (value) => `at most ${value}`],
  ["exclusiveMaximum", (value) => `less than ${value}`],
  ["multipleOf", (value) => `multiple of ${value}`],
  ["minLength", (value) => `at least ${count(value, "character")}`],
  ["maxLength", (value) => `at most ${count(value, "character")}`],
  ["pattern", (value) => `matches ${value}`],
  ["format", (value) => value],
  ["contentEncoding", (value) => value],
  ["contentMediaType", (value) => value],
  ["minItems", (value) => `at least ${count(value, "item")}`],
  ["maxItems", (value) => `at most ${count(value, "item")}`],
  ["minProperties", (value) => `at least ${count(value, "entry", "entries")}`],
  ["maxProperties", (value) => `at most ${count(value, "entry", "entries")}`],
]);

function count(value: string, one: string, many = `${one}s`): string {
  return `${value} ${value === "1" ? one : many}`;
}

function constraintsOf(schema: JsonSchema): string[] {
  const found: string[] = [];
  for (const keyword in schema) {
    const text = LIMITS.get(keyword);
    const value = text && schema[keyword];
    if (text && (typeof value === "string" || typeof value === "number"))
      found.push(text(cutText(String(value), VALUE_MAX)));
  }
  if (schema["uniqueItems"] === true) found.push("no item twice");
  if (schema["deprecated"] === true) found.push("deprecated");
  if (Array.isArray(schema["examples"]) && schema["examples"].length > 0) {
    found.push(`such as ${cutText(jsonText(schema["examples"][0]), VALUE_MAX)}`);
  }
  return found;
}
