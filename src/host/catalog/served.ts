import type { PromptContract } from "../../contract/contract.ts";
import { BerthError } from "../../lib/errors.ts";
import type { GuestOutcome } from "../../executor/executor.ts";
import { JsonText, type JsonObject } from "../../lib/json.ts";
import type { Limits } from "../../limits/limits.ts";
import type { Prompt } from "./catalog.ts";
import type { ValidatorOf } from "../checks/checks.ts";
import { argumentsSchema } from "./defaults.ts";
import { LongObject, type LongObjectParts } from "../calls/long-result.ts";
import type { Findable } from "../calls/resource.ts";
import type { Run } from "../calls/tool.ts";
import type { OfferedResource, OfferedTool } from "../../entry/offer.ts";
import {
  filledPrompt,
  PLACEHOLDER,
  type ConfiguredPrompt,
  type PromptTask,
  type PromptValues,
} from "../../entry/prompt.ts";

/** Carries out what is configured, without knowing how it came to be configured. */

/**
 * Runs a tool whose schema is not its function's own: fixed arguments are added, and then the function's own schema is
 * checked, since the one that clients see may allow more.
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

/** A resource to find by its URI, with the schema of its variables if a function gives it. */
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
 * A written prompt. One that may become long is filled in off the serving thread: `fill` is `Checks.fillPrompt` of its
 * tenant.
 */
export function writtenPrompt(
  contract: PromptContract,
  prompt: ConfiguredPrompt,
  { outputBytes, inlineBodyBytes }: Pick<Limits, "outputBytes" | "inlineBodyBytes">,
  fill: (task: PromptTask) => Promise<LongObjectParts | undefined>,
): Prompt {
  const { description } = contract;
  const names = prompt.arguments.map(({ name }) => name);
  const needed = prompt.arguments.filter(({ required }) => required).map(({ name }) => name);
  const template = { messages: prompt.messages, ...(description !== undefined && { description }) };
  const text = JSON.stringify(template);
  const placeholders = Array.from(text.matchAll(PLACEHOLDER), ([, name]) => name!).filter((name) =>
    names.includes(name),
  );
  const wrongWith = (args: JsonObject): string | undefined => {
    const wrong = Object.keys(args).find((name) => typeof args[name] !== "string");
    if (wrong !== undefined) return `/${wrong} must be a text`;
    const missing = needed.find((name) => !Object.hasOwn(args, name));
    if (missing !== undefined) return `the value needs the property "${missing}"`;
    const unknown = Object.keys(args).find((name) => !names.includes(name));
    return unknown === undefined ? undefined : `the value has no property "${unknown}"`;
  };
  const unitsAtMost = (values: PromptValues): number =>
    placeholders.reduce((sum, name) => sum + UNITS_OF_CHARACTER * values[name]!.length, text.length);
  return {
    contract,
    async get(args) {
      const refuse = (why: string): BerthError =>
        new BerthError("invalid_params", `the prompt "${contract.name}": ${why}`);
      const wrong = wrongWith(args);
      if (wrong !== undefined) throw refuse(wrong);
      const values = Object.fromEntries(
        names.map((name) => [name, Object.hasOwn(args, name) ? (args[name] as string) : ""]),
      );
      if (unitsAtMost(values) <= inlineBodyBytes) return filledPrompt({ template, names, values }, outputBytes)!;
      const parts = await fill({ template, names, values });
      if (!parts) throw refuse(`with these values it has more than ${outputBytes} characters`);
      return new LongObject(parts);
    },
  };
}

/** In a URI, each byte of a character may be escaped; in JSON, a control character. */
const UNITS_OF_CHARACTER = 9;
