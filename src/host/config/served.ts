import type { PromptContract } from "../../contract/contract.ts";
import { BerthError } from "../../errors.ts";
import type { GuestOutcome } from "../../executor/executor.ts";
import { JsonText, type Json, type JsonObject } from "../../json.ts";
import type { ContentBlock, Prompt } from "../catalog.ts";
import type { ValidatorOf } from "../checks/checks.ts";
import { argumentsSchema } from "../defaults.ts";
import type { Findable } from "../resource.ts";
import type { Run } from "../tool.ts";
import type { OfferedResource, OfferedTool } from "./offer.ts";
import { PLACEHOLDER, type ConfiguredPrompt } from "./prompt.ts";

/** How what is configured is carried out. It knows nothing of how it came to be configured. */

/**
 * A tool whose schema is not its function's own: fixed arguments are added, and then the function's own schema has its
 * say, since the one that clients see may allow more.
 */
export function configuredRun(
  { contract, function: own, fixed }: OfferedTool,
  run: Run,
  validatorOf: ValidatorOf,
): Run {
  if (!fixed && contract.inputSchema === own.inputSchema) return run;
  const check = validatorOf(argumentsSchema(own.inputSchema, own));
  return async (args, options, onLine) => {
    const all = args instanceof JsonText ? args.with(fixed ?? {}) : { ...args, ...structuredClone(fixed) };
    const invalid = await check(all);
    if (invalid === undefined) return run(all, options, onLine);
    const message = `The function "${own.name}" cannot take these arguments: ${invalid}`;
    return { ok: false, error: { reason: "thrown", message, retriable: false } };
  };
}

/** A resource as it is looked for by its URI: with the schema of its variables if a function gives it. */
export function findable({ contract, source }: OfferedResource): Findable {
  const { name, mimeType } = contract;
  const uri = "uri" in contract ? contract.uri : contract.uriTemplate;
  const inputSchema =
    source.kind === "function" ? argumentsSchema(source.function.inputSchema, source.function) : undefined;
  return { name, uri, ...(mimeType !== undefined && { mimeType }), ...(inputSchema && { inputSchema }) };
}

/** Gives content that stands in the configuration itself. */
export function contentRun(content: { kind: "text"; text: string } | { kind: "blob"; base64: string }): Run {
  const value =
    content.kind === "text"
      ? ({ kind: "text", text: content.text } as const)
      : ({ kind: "bytes", base64: content.base64 } as const);
  const outcome: GuestOutcome = { ok: true, value };
  return () => Promise.resolve(outcome);
}

/**
 * A prompt that is written out. A placeholder of a declared argument becomes its value, once, and nothing in a value
 * is looked at again; an argument that is not given is empty.
 */
export function writtenPrompt(
  contract: PromptContract,
  prompt: ConfiguredPrompt,
  { outputBytes }: { readonly outputBytes: number },
): Prompt {
  const names = new Set(prompt.arguments.map(({ name }) => name));
  const needed = prompt.arguments.filter(({ required }) => required).map(({ name }) => name);
  const wrongWith = (args: JsonObject): string | undefined => {
    const wrong = Object.keys(args).find((name) => typeof args[name] !== "string");
    if (wrong !== undefined) return `/${wrong} must be a text`;
    const missing = needed.find((name) => !Object.hasOwn(args, name));
    if (missing !== undefined) return `the value needs the property "${missing}"`;
    const unknown = Object.keys(args).find((name) => !names.has(name));
    return unknown === undefined ? undefined : `the value has no property "${unknown}"`;
  };
  return {
    contract,
    async get(args) {
      const refuse = (why: string): BerthError =>
        new BerthError("invalid_params", `the prompt "${contract.name}": ${why}`);
      const wrong = wrongWith(args);
      if (wrong !== undefined) throw refuse(wrong);
      let units = outputBytes;
      const valueOf: ValueOf = (name, write) => {
        if (!names.has(name)) return undefined;
        const value = Object.hasOwn(args, name) ? write(args[name] as string) : "";
        units -= value.length;
        if (units < 0) throw refuse(`with these values it has more than ${outputBytes} characters`);
        return value;
      };
      const { description } = contract;
      return {
        ...(description !== undefined && { description }),
        messages: prompt.messages.map(({ role, content }) => ({
          role,
          content: filled(content, valueOf, "") as ContentBlock,
        })),
      };
    },
  };
}

/** Half of a surrogate pair has no place in a URI. */
function wellFormed(text: string): string {
  return Buffer.from(text).toString();
}

/** As it is to be written; undefined for what is no argument. */
type ValueOf = (name: string, write: (value: string) => string) => string | undefined;

/** Every text of a value, under whatever name; what stands in a URI is encoded. */
function filled(value: Json, valueOf: ValueOf, key: string): Json {
  if (typeof value === "string") {
    const write = (given: string): string => (key === "uri" ? encodeURIComponent(wellFormed(given)) : given);
    return value.replace(PLACEHOLDER, (placeholder, name: string) => valueOf(name, write) ?? placeholder);
  }
  if (Array.isArray(value)) return value.map((each) => filled(each, valueOf, key));
  if (typeof value !== "object" || value === null) return value;
  const members: JsonObject = {};
  for (const [name, member] of Object.entries(value)) members[name] = filled(member, valueOf, name);
  return members;
}
