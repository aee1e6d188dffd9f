import type { Problem } from "../lib/problem.ts";
import { problemAt, type JsonNode } from "../lib/json-source.ts";

/** Stands in place of a server in `mcps`, and names the JSON Schema for editors. */
export const SCHEMA_KEY = "$schema";

/** The types of source fields, with their names for people. */
const fieldTypes = {
  text: { what: "a text", fits: (node: JsonNode) => typeof node.value === "string" },
  boolean: { what: "true or false", fits: (node: JsonNode) => typeof node.value === "boolean" },
  object: { what: "an object", fits: (node: JsonNode) => node.members !== undefined },
  objects: {
    what: "an object whose values are objects",
    fits: ({ members }: JsonNode) => members !== undefined && [...members.values()].every(({ node }) => node.members),
  },
  list: { what: "a list", fits: (node: JsonNode) => node.elements !== undefined },
} as const;

export type FieldType = keyof typeof fieldTypes;

/**
 * The members of an object that have the right names and types. Each of the others becomes a problem, and reading goes
 * on, so that a person sees everything that is wrong at once.
 */
export function readFields<Name extends string>(
  node: JsonNode,
  types: Readonly<Record<Name, FieldType>>,
  what: string,
  problems: Problem[],
): Partial<Record<Name, JsonNode>> {
  if (!node.members) {
    problems.push(problemAt(node.at, "wrong-type", `${what} must be an object`));
    return {};
  }
  const fields: Partial<Record<Name, JsonNode>> = {};
  for (const [name, { at, node: value }] of node.members) {
    if (!Object.hasOwn(types, name)) {
      const known = Object.keys(types).join(", ");
      problems.push(problemAt(at, "unknown-field", `${what} has no field "${name}"; its fields are ${known}`));
      continue;
    }
    const type = fieldTypes[types[name as Name]];
    if (type.fits(value)) fields[name as Name] = value;
    else problems.push(problemAt(value.at, "wrong-type", `"${name}" must be ${type.what}`));
  }
  return fields;
}

/** The names under which servers can be reached: `/mcp/<server>`. */
export function serverNameProblem(name: string): string | undefined {
  if (name === "meta") return `"meta" is taken: /mcp/meta/<server> are the pages about servers`;
  if (/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/.test(name)) return undefined;
  return `"${name}" cannot be a server's name: 1 to 64 of A-Z a-z 0-9 _ . - with a letter or digit first`;
}

export function variableNameProblem(name: string): string | undefined {
  if (/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/.test(name)) return undefined;
  return `"${name}" cannot be a variable's name: 1 to 128 of A-Z a-z 0-9 _ . - with a letter, digit or _ first`;
}
