import { type ContentBlock, toContentBlock, type PromptResult } from "../contract/content-block.ts";
import type { PromptArgument } from "../contract/contract.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import { addProblem, inside, readFields, readIfValid, type ConfigPlace } from "./config-place.ts";
import { checkName } from "./tool-fields.ts";

/** A written prompt: `{{argument}}` in its messages stands for the argument's value. */
export interface ConfiguredPrompt {
  readonly title?: string;
  readonly description?: string;
  readonly arguments: readonly PromptArgument[];
  readonly messages: PromptResult["messages"];
}

/** The input of `filledPrompt`. */
export interface PromptTask {
  readonly template: PromptResult;
  readonly names: readonly string[];
  /** The values of all declared arguments; a missing one is empty. */
  readonly values: PromptValues;
}

export type PromptValues = Readonly<Record<string, string>>;

/** Replaces placeholders of declared arguments, but not in values. Undefined above `unitsMax` of JSON. */
export function fillPrompt({ template, names, values }: PromptTask, unitsMax: number): PromptResult | undefined {
  let units = unitsMax;
  const lengths = new Map(names.map((name) => [name, JSON.stringify(values[name]).length - 2]));
  const substitute: Substitute = (name, encode) => {
    const length = lengths.get(name);
    if (length === undefined) return undefined;
    units -= length;
    return units < 0 ? "" : encode(values[name]!);
  };
  const messages = template.messages.map(({ role, content }) => ({
    role,
    content: fill(content, substitute, "") as ContentBlock,
  }));
  return units < 0 ? undefined : { ...template, messages };
}

/** A URI cannot contain a lone surrogate. */
function wellFormed(text: string): string {
  return Buffer.from(text).toString();
}

/** The value as `encode` encodes it; undefined for a name that is not an argument. */
type Substitute = (name: string, encode: (value: string) => string) => string | undefined;

/** Fills in every string of a value, at any depth; in a URI, argument values are percent-encoded. */
function fill(value: Json, substitute: Substitute, key: string): Json {
  if (typeof value === "string") {
    const encode = (text: string): string => (key === "uri" ? encodeURIComponent(wellFormed(text)) : text);
    return value.replace(PLACEHOLDER, (placeholder, name: string) => substitute(name, encode) ?? placeholder);
  }
  if (Array.isArray(value)) return value.map((item) => fill(item, substitute, key));
  if (typeof value !== "object" || value === null) return value;
  const members: JsonObject = {};
  for (const [name, member] of Object.entries(value)) members[name] = fill(member, substitute, name);
  return members;
}

/** The placeholder of an argument in a text. */
export const PLACEHOLDER = /\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}\}/g;

/** Undefined if it is invalid; `place` then has the problems. */
export function readPrompt(name: string, raw: Json, place: ConfigPlace): ConfiguredPrompt | undefined {
  return readIfValid(place, () => {
    checkName(name, "prompt", place);
    const { arguments: args, messages, ...named } = readFields(raw, fields, "A prompt", place);
    const read = readArguments(args ?? [], inside(place, "arguments"));
    if (!messages || messages.length === 0) {
      if (!messages) addProblem(place, "missing-field", 'A prompt needs "messages"');
      else addProblem(inside(place, "messages"), "no-messages", "A prompt needs at least one message");
    }
    const declared = new Set(read.map((argument) => argument.name));
    return {
      ...named,
      arguments: read,
      messages: (messages ?? []).flatMap((message, index) => {
        return readMessage(message, declared, inside(inside(place, "messages"), index)) ?? [];
      }),
    };
  });
}

const fields = { title: "text", description: "text", arguments: "list", messages: "list" } as const;
const argumentFields = { name: "text", title: "text", description: "text", required: "boolean" } as const;

function readArguments(list: readonly Json[], place: ConfigPlace): PromptArgument[] {
  const names = new Set<string>();
  return list.map((raw, index) => {
    const at = inside(place, index);
    const { name = "", required = false, ...rest } = readFields(raw, argumentFields, "An argument of a prompt", at);
    if (!/^[A-Za-z_][A-Za-z0-9_-]{0,63}$/.test(name)) {
      const message = "An argument needs a name of 1 to 64 of A-Z a-z 0-9 _ - with a letter or _ first";
      addProblem(at, "bad-name", message);
    }
    if (names.has(name)) addProblem(at, "duplicate-name", `The argument "${name}" appears twice`);
    names.add(name);
    return { name, ...rest, required };
  });
}

function readMessage(
  raw: Json,
  declared: ReadonlySet<string>,
  place: ConfigPlace,
): PromptResult["messages"][number] | undefined {
  const { role, content } = readFields(raw, { role: "text", content: "any" }, "A message", place);
  if (role !== "user" && role !== "assistant") {
    return addProblem(inside(place, "role"), "wrong-role", 'The role of a message must be "user" or "assistant"');
  }
  const block = content === undefined ? undefined : toContentBlock(content);
  const at = inside(place, "content");
  if (!block) return addProblem(at, "bad-content", "The content of a message must be a string or an MCP content block");
  for (const placeholder of new Set(JSON.stringify(block).match(PLACEHOLDER))) {
    const name = placeholder.slice(2, -2).trim();
    if (declared.has(name)) continue;
    addProblem(at, "unknown-argument", `{{${name}}} is not replaced: the prompt declares no such argument`, "warning");
  }
  return { role, content: block };
}
