import type { PromptContract } from "../../contract/contract.ts";
import { parseUriTemplate } from "../../discover/uri-template.ts";
import { BerthError } from "../../errors.ts";
import type { GuestOutcome } from "../../executor/executor.ts";
import { JsonText, type Json, type JsonObject, type JsonSchema } from "../../json.ts";
import { lazyTextValidator } from "../arguments.ts";
import type { ContentBlock, Prompt } from "../catalog.ts";
import type { ValidatorOf } from "../checks/checks.ts";
import { problemsOf } from "../failures.ts";
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
  const check = validatorOf(own.inputSchema);
  return async (args, options) => {
    const all = { ...(args instanceof JsonText ? args.read() : args), ...structuredClone(fixed) };
    const invalid = await check(all);
    if (invalid === undefined) return run(all, options);
    const message = `The function "${own.name}" cannot take these arguments: ${invalid}`;
    return { ok: false, error: { reason: "thrown", message, retriable: false } };
  };
}

/** A resource as it is looked for by its URI: with the schema of its variables, all of them texts if it is written out. */
export function findable({ contract, source }: OfferedResource): Findable {
  const { name, mimeType } = contract;
  const uri = "uri" in contract ? contract.uri : contract.uriTemplate;
  const inputSchema = source.kind === "function" ? source.function.inputSchema : schemaOfVariables(uri);
  return { name, uri, ...(mimeType !== undefined && { mimeType }), inputSchema };
}

function schemaOfVariables(uri: string): JsonSchema {
  const template = parseUriTemplate(uri);
  const names = "message" in template ? [] : template.variables.map(({ name }) => name);
  return { type: "object", properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])) };
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
export function writtenPrompt(contract: PromptContract, prompt: ConfiguredPrompt): Prompt {
  const names = prompt.arguments.map(({ name }) => name);
  const check = lazyTextValidator({
    type: "object",
    properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
    required: prompt.arguments.filter(({ required }) => required).map(({ name }) => name),
    additionalProperties: false,
  });
  return {
    contract,
    async get(args) {
      const wrong = Object.keys(args).find((name) => typeof args[name] !== "string");
      const invalid = wrong === undefined ? problemsOf(check, { ...args }) : `/${wrong} must be a text`;
      if (invalid !== undefined) throw new BerthError("invalid_params", `the prompt "${contract.name}": ${invalid}`);
      const valueOf = (name: string): string | undefined => {
        if (!names.includes(name)) return undefined;
        return Object.hasOwn(args, name) ? (args[name] as string) : "";
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

/** Every text in a block; in a URI the value is encoded as part of one. */
function filled(value: Json, valueOf: (name: string) => string | undefined, key: string): Json {
  if (typeof value === "string") {
    return value.replace(PLACEHOLDER, (placeholder, name: string) => {
      const given = valueOf(name);
      if (given === undefined) return placeholder;
      return key === "uri" ? encodeURIComponent(given) : given;
    });
  }
  if (Array.isArray(value)) return value.map((each) => filled(each, valueOf, key));
  if (typeof value !== "object" || value === null) return value;
  const members: JsonObject = {};
  for (const [name, member] of Object.entries(value)) members[name] = filled(member, valueOf, name);
  return members;
}
