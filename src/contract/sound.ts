import { turnTaker } from "../lib/event-loop.ts";
import { isObject, type JsonSchema } from "../lib/json.ts";
import type { Contract, PromptArgument } from "./contract.ts";
import { faultsOfHeaders } from "./parameter-headers.ts";
import { faultOfSkill } from "./skills.ts";
import { mapMembers, mapSchemas } from "./subschemas.ts";

/**
 * Cleans what upstreams list, whether received now or stored: values of a type that the protocol does not allow are
 * left out, so that no reader of a contract meets them. A sound value stays the same object.
 */

export type ListedKind = "tool" | "resource" | "template" | "prompt";

/** Called for each field that is left out, in the words of "its … is not …". */
type LeftOut = (field: string, type: string) => void;

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

/** The known fields of an entry with their types checked; its caller checks the key and `inputSchema`. */
export function soundFields(
  kind: ListedKind,
  entry: Record<string, unknown>,
  leftOut: LeftOut = () => {},
): Record<string, unknown> {
  const sound = ofTypes(entry, FIELDS[kind], leftOut);
  if (kind !== "tool") return sound;
  return mapMembers(sound, (value, key) => {
    if (!isObject(value)) return value;
    const inside: LeftOut = (field, type) => leftOut(`${key}.${field}`, type);
    if (key === "annotations") return ofTypes(value, HINTS, inside);
    return key === "inputSchema" || key === "outputSchema" ? soundSchema(value, inside) : value;
  });
}

/**
 * Many servers write null for what they leave out. Clients refuse the whole list for such a schema, and for a wrong
 * `$schema`, `properties` or `required` at its root.
 */
function soundSchema(schema: JsonSchema, leftOut: LeftOut): JsonSchema {
  const withoutNulls = (node: unknown): unknown => {
    if (node === null) {
      leftOut("subschema", "allowed to be null");
      return {};
    }
    if (!isObject(node)) return node;
    const sound = Object.entries(node).filter(([keyword, value]) => {
      if (value !== null || MAY_BE_NULL.test(keyword)) return true;
      leftOut(keyword, "allowed to be null");
      return false;
    });
    return sound.length === Object.keys(node).length ? node : Object.fromEntries(sound);
  };
  return ofTypes(mapSchemas(schema, withoutNulls) as JsonSchema, ROOT, leftOut);
}

/** Keywords that hold any value, and extensions of unknown meaning. */
const MAY_BE_NULL = /^(?:const|default|example|x-(?!mcp-header$).*)$/s;

/** The arguments of a prompt that have a name. */
export function soundArguments(args: readonly unknown[], leftOut: LeftOut = () => {}): PromptArgument[] {
  return args.flatMap((argument): PromptArgument[] => {
    if (!isObject(argument) || !isText(argument["name"])) return [];
    const { name, required } = argument;
    const sound = ofTypes(argument, ARGUMENT, (field, type) => leftOut(`argument "${name}"'s ${field}`, type));
    const isSound = required === undefined || typeof required === "boolean";
    return [isSound ? (sound as unknown as PromptArgument) : { ...sound, name, required: false }];
  });
}

/** True for a valid name or URI of an entry. */
export function isKey(value: unknown): value is string {
  return isText(value) && value !== "" && !HALF_PAIR.test(value);
}

/** Half of a surrogate pair, which no URI can hold. */
const HALF_PAIR = /\p{Cs}/u;

/** A stored contract; undefined if it is not one. Other calls get their turn meanwhile. */
export async function soundContract(value: unknown): Promise<Contract | undefined> {
  if (!isObject(value) || !Array.isArray(value["tools"])) return undefined;
  const { description, extensions } = value;
  const lists = {
    tools: await soundItems("tool", "name", value["tools"]),
    resources: await soundItems("resource", "uri", value["resources"]),
    resourceTemplates: await soundItems("template", "uriTemplate", value["resourceTemplates"]),
    prompts: await soundItems("prompt", "name", value["prompts"]),
    ...(value["skills"] !== undefined && {
      skills: await soundList(value["skills"], (skill) => (faultOfSkill(skill) === undefined ? skill : undefined)),
    }),
    ...(value["apps"] !== undefined && {
      apps: await soundList(value["apps"], (app) =>
        isObject(app) && isKey(app["uri"]) && isText(app["cid"]) ? app : undefined,
      ),
    }),
  };
  const isSound = Object.entries(lists).every(([list, items]) => items === value[list]);
  const isTold = description === undefined || isText(description);
  if (isSound && isTold && (extensions === undefined || isObject(extensions))) return value as unknown as Contract;
  return {
    ...(isText(description) && { description }),
    ...lists,
    ...(isObject(extensions) && { extensions }),
  } as unknown as Contract;
}

function soundItems(kind: ListedKind, key: string, items: unknown): Promise<unknown> {
  return soundList(items, (item) => {
    if (!isObject(item) || !isKey(item[key])) return undefined;
    const { inputSchema } = item;
    if (kind === "tool" && (!isObject(inputSchema) || faultsOfHeaders(inputSchema).length > 0)) return undefined;
    return soundItem(kind, isText(item["name"]) ? item : { ...item, name: item[key] });
  });
}

/** The items that `soundOf` gives, without undefined ones; the same list if they are its own. */
async function soundList(items: unknown, soundOf: (item: unknown) => unknown): Promise<unknown> {
  if (!Array.isArray(items)) return [];
  const takeTurns = turnTaker();
  const sound: unknown[] = [];
  for (const item of items as unknown[]) {
    await takeTurns();
    const own = soundOf(item);
    if (own !== undefined) sound.push(own);
  }
  return isSameList(items, sound) ? items : sound;
}

function soundItem(kind: ListedKind, item: Record<string, unknown>): Record<string, unknown> {
  const sound = soundFields(kind, item);
  const args = sound["arguments"];
  if (kind !== "prompt" || args === undefined) return sound;
  const soundArgs = soundArguments(Array.isArray(args) ? (args as unknown[]) : []);
  return isSameList(args, soundArgs) ? sound : { ...sound, arguments: soundArgs };
}

function isSameList(list: unknown, other: readonly unknown[]): boolean {
  return Array.isArray(list) && list.length === other.length && other.every((item, at) => item === list[at]);
}

/** Drops fields of the wrong type; returns the same object if there are none. */
function ofTypes(object: Record<string, unknown>, fields: Fields, leftOut: LeftOut): Record<string, unknown> {
  let sound = object;
  for (const [field, { is, name }] of Object.entries(fields)) {
    if (object[field] === undefined || is(object[field])) continue;
    if (sound === object) sound = { ...object };
    delete sound[field];
    leftOut(field, name);
  }
  return sound;
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}
