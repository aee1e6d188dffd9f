import { createYielder } from "../lib/event-loop.ts";
import { isObject, type JsonSchema } from "../lib/json.ts";
import type { Contract, PromptArgument } from "./contract.ts";
import { findHeaderFaults } from "./parameter-headers.ts";
import { findSkillFault } from "./skills.ts";
import { mapMembers, mapSchemas } from "./subschemas.ts";

/** Sanitizes what upstreams list: removes values of the wrong type. A valid value stays the same object. */

export type ListedKind = "tool" | "resource" | "template" | "prompt";

/** Called for each field that is removed, with the words of "its … is not …". */
type OnRemoved = (field: string, type: string) => void;

interface FieldType {
  readonly is: (value: unknown) => boolean;
  readonly name: string;
}

const TEXT: FieldType = { is: isText, name: "a string" };
const FLAG: FieldType = { is: (value) => typeof value === "boolean", name: "true or false" };
const NUMBER: FieldType = { is: (value) => typeof value === "number", name: "a number" };
const OBJECT: FieldType = { is: isObject, name: "an object" };
const OBJECTS: FieldType = {
  is: (value) => Array.isArray(value) && value.every(isObject),
  name: "a list of objects",
};
const TEXTS: FieldType = { is: (value) => Array.isArray(value) && value.every(isText), name: "a list of strings" };
const SCHEMA: FieldType = { is: isObject, name: "a JSON Schema" };

type Fields = Readonly<Record<string, FieldType>>;

const COMMON: Fields = { title: TEXT, description: TEXT, icons: OBJECTS, _meta: OBJECT };
const RESOURCE: Fields = { ...COMMON, mimeType: TEXT, size: NUMBER, annotations: OBJECT };
const FIELDS: Readonly<Record<ListedKind, Fields>> = {
  tool: { ...COMMON, outputSchema: SCHEMA, annotations: OBJECT, execution: OBJECT },
  resource: RESOURCE,
  template: RESOURCE,
  prompt: COMMON,
};
const HINTS: Fields = {
  title: TEXT,
  readOnlyHint: FLAG,
  destructiveHint: FLAG,
  idempotentHint: FLAG,
  openWorldHint: FLAG,
};
const ARGUMENT: Fields = { title: TEXT, description: TEXT };
const ROOT: Fields = { $schema: TEXT, properties: OBJECT, required: TEXTS };

/** The known fields of a listed item with valid types; the caller checks the key and `inputSchema`. */
export function sanitizeFields(
  kind: ListedKind,
  item: Record<string, unknown>,
  onRemoved: OnRemoved = () => {},
): Record<string, unknown> {
  const valid = removeInvalid(item, FIELDS[kind], onRemoved);
  if (kind !== "tool") return valid;
  return mapMembers(valid, (value, key) => {
    if (!isObject(value)) return value;
    const inside: OnRemoved = (field, type) => onRemoved(`${key}.${field}`, type);
    if (key === "annotations") return removeInvalid(value, HINTS, inside);
    return key === "inputSchema" || key === "outputSchema" ? sanitizeSchema(value, inside) : value;
  });
}

/** Many servers write null for what they omit, for which clients refuse the whole list. */
function sanitizeSchema(schema: JsonSchema, onRemoved: OnRemoved): JsonSchema {
  const withoutNulls = (node: unknown): unknown => {
    if (node === null) {
      onRemoved("subschema", "allowed to be null");
      return {};
    }
    if (!isObject(node)) return node;
    const valid = Object.entries(node).filter(([keyword, value]) => {
      if (value !== null || MAY_BE_NULL.test(keyword)) return true;
      onRemoved(keyword, "allowed to be null");
      return false;
    });
    return valid.length === Object.keys(node).length ? node : Object.fromEntries(valid);
  };
  return removeInvalid(mapSchemas(schema, withoutNulls) as JsonSchema, ROOT, onRemoved);
}

/** Keywords that may have any value, and extensions of unknown meaning. */
const MAY_BE_NULL = /^(?:const|default|example|x-(?!mcp-header$).*)$/s;

/** The arguments of a prompt that have a name. */
export function sanitizeArguments(args: readonly unknown[], onRemoved: OnRemoved = () => {}): PromptArgument[] {
  return args.flatMap((argument): PromptArgument[] => {
    if (!isObject(argument) || !isText(argument["name"])) return [];
    const { name, required } = argument;
    const valid = removeInvalid(argument, ARGUMENT, (field, type) => onRemoved(`argument "${name}"'s ${field}`, type));
    const isValid = required === undefined || typeof required === "boolean";
    return [isValid ? (valid as unknown as PromptArgument) : { ...valid, name, required: false }];
  });
}

/** True for a valid name or URI of a listed item. */
export function isKey(value: unknown): value is string {
  return isText(value) && value !== "" && !HALF_PAIR.test(value);
}

/** Half of a surrogate pair, which no URI can contain. */
const HALF_PAIR = /\p{Cs}/u;

/** Sanitizes a stored contract; undefined if it is not one. Yields to the event loop. */
export async function sanitizeContract(value: unknown): Promise<Contract | undefined> {
  if (!isObject(value) || !Array.isArray(value["tools"])) return undefined;
  const { description, extensions } = value;
  const lists = {
    tools: await sanitizeItems("tool", "name", value["tools"]),
    resources: await sanitizeItems("resource", "uri", value["resources"]),
    resourceTemplates: await sanitizeItems("template", "uriTemplate", value["resourceTemplates"]),
    prompts: await sanitizeItems("prompt", "name", value["prompts"]),
    ...(value["skills"] !== undefined && {
      skills: await sanitizeList(value["skills"], (skill) => (findSkillFault(skill) === undefined ? skill : undefined)),
    }),
    ...(value["apps"] !== undefined && {
      apps: await sanitizeList(value["apps"], (app) =>
        isObject(app) && isKey(app["uri"]) && isText(app["cid"]) ? app : undefined,
      ),
    }),
  };
  const isUnchanged = Object.entries(lists).every(([list, items]) => items === value[list]);
  const hasValidDescription = description === undefined || isText(description);
  if (isUnchanged && hasValidDescription && (extensions === undefined || isObject(extensions)))
    return value as unknown as Contract;
  return {
    ...(isText(description) && { description }),
    ...lists,
    ...(isObject(extensions) && { extensions }),
  } as unknown as Contract;
}

function sanitizeItems(kind: ListedKind, key: string, items: unknown): Promise<unknown> {
  return sanitizeList(items, (item) => {
    if (!isObject(item) || !isKey(item[key])) return undefined;
    const { inputSchema } = item;
    if (kind === "tool" && (!isObject(inputSchema) || findHeaderFaults(inputSchema).length > 0)) return undefined;
    return sanitizeItem(kind, isText(item["name"]) ? item : { ...item, name: item[key] });
  });
}

/** The defined results of `sanitize` for the items; the same list if it changes none. */
async function sanitizeList(items: unknown, sanitize: (item: unknown) => unknown): Promise<unknown> {
  if (!Array.isArray(items)) return [];
  const yieldToLoop = createYielder();
  const valid: unknown[] = [];
  for (const item of items as unknown[]) {
    await yieldToLoop();
    const result = sanitize(item);
    if (result !== undefined) valid.push(result);
  }
  return isSameList(items, valid) ? items : valid;
}

function sanitizeItem(kind: ListedKind, item: Record<string, unknown>): Record<string, unknown> {
  const valid = sanitizeFields(kind, item);
  const args = valid["arguments"];
  if (kind !== "prompt" || args === undefined) return valid;
  const validArgs = sanitizeArguments(Array.isArray(args) ? (args as unknown[]) : []);
  return isSameList(args, validArgs) ? valid : { ...valid, arguments: validArgs };
}

function isSameList(list: unknown, other: readonly unknown[]): boolean {
  return Array.isArray(list) && list.length === other.length && other.every((item, at) => item === list[at]);
}

/** Removes fields of the wrong type; returns the same object if there are none. */
function removeInvalid(object: Record<string, unknown>, fields: Fields, onRemoved: OnRemoved): Record<string, unknown> {
  let valid = object;
  for (const [field, { is, name }] of Object.entries(fields)) {
    if (object[field] === undefined || is(object[field])) continue;
    if (valid === object) valid = { ...object };
    delete valid[field];
    onRemoved(field, name);
  }
  return valid;
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}
