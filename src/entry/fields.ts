import { problemAt, type JsonNode } from "../lib/json-source.ts";
import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";

/** A key of `mcps` that is not a server: it names the JSON Schema for editors. */
export const SCHEMA_KEY = "$schema";

/** The types of fields, by their names in declarations such as `entryTypes`. */
export interface FieldTypes {
  readonly text: string;
  readonly boolean: boolean;
  readonly object: JsonObject;
  /** An object of objects. */
  readonly objects: JsonObject;
  readonly list: Json[];
  readonly any: Json;
}

export type FieldType = keyof FieldTypes;

/** `label` names a type for people. */
export const fieldTypes: { readonly [Type in FieldType]: { label: string; fits: (value: Json) => boolean } } = {
  text: { label: "a string", fits: (value) => typeof value === "string" },
  boolean: { label: "true or false", fits: (value) => typeof value === "boolean" },
  object: { label: "an object", fits: isObject },
  objects: {
    label: "an object whose values are objects",
    fits: (value) => isObject(value) && Object.values(value).every(isObject),
  },
  list: { label: "a list", fits: Array.isArray },
  any: { label: "a value", fits: () => true },
};

/** Reads the valid members of an object in a source file, and reports all others with their positions. */
export function readSourceFields<Name extends string>(
  node: JsonNode,
  types: Readonly<Record<Name, FieldType>>,
  subject: string,
  problems: Problem[],
): Partial<Record<Name, JsonNode>> {
  if (!node.members) {
    problems.push(problemAt(node.at, "wrong-type", `${subject} must be an object`));
    return {};
  }
  const fields: Partial<Record<Name, JsonNode>> = {};
  for (const [name, { at, node: value }] of node.members) {
    if (!Object.hasOwn(types, name)) {
      problems.push(problemAt(at, "unknown-field", unknownField(subject, name, types)));
      continue;
    }
    const type = fieldTypes[types[name as Name]];
    if (type.fits(value.value)) fields[name as Name] = value;
    else problems.push(problemAt(value.at, "wrong-type", `"${name}" must be ${type.label}`));
  }
  return fields;
}

/** Earlier names of entry fields. */
const RENAMED = new Map<string, string>([
  ["approve", "consent"],
  ["keep_calls", "retain_calls"],
]);

/** The message about a field that does not exist, with the new name of a renamed one. */
export function unknownField(subject: string, name: string, fields: object): string {
  const newName = RENAMED.get(name);
  if (newName !== undefined && Object.hasOwn(fields, newName)) return `"${name}" is now "${newName}"; rename the field`;
  return `${subject} has no field "${name}"; its fields are ${Object.keys(fields).join(", ")}`;
}

/** The names under which servers can be reached: `/mcp/<server>`. */
export function serverNameProblem(name: string): string | undefined {
  if (name === "meta") return `"meta" is taken: the pages about servers are at /mcp/meta/<server>`;
  if (name === "new") return `"new" is taken: the page that creates a server is at /servers/new`;
  if (/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/.test(name)) return undefined;
  return `"${name}" cannot be a server's name: use 1 to 64 of A-Z a-z 0-9 _ . - with a letter or digit first`;
}

export function variableNameProblem(name: string): string | undefined {
  if (/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/.test(name)) return undefined;
  return `"${name}" cannot be a variable's name: use 1 to 128 of A-Z a-z 0-9 _ . - with a letter, digit or _ first`;
}
