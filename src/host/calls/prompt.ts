import { contentBlockOf, text } from "../../contract/content-block.ts";
import type { PromptContract } from "../../contract/contract.ts";
import {
  filledPrompt,
  PLACEHOLDER,
  type ConfiguredPrompt,
  type PromptTask,
  type PromptValues,
} from "../../entry/prompt-fields.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { readingBounds } from "../../lib/reading-bounds.ts";
import { type Limits, limitVariable } from "../../limits/limits.ts";
import type { Validator } from "../checks/checks.ts";
import type { OutcomeReader } from "../checks/tasks.ts";
import { guestFailed } from "../offers/call-failures.ts";
import type { ContentBlock, Prompt, PromptResult } from "../offers/catalog.ts";
import { blockOfBytes, textsOf, type ReturnedValue } from "../offers/content.ts";
import { LongObject, LongResult, type LongObjectParts } from "../offers/long-result.ts";
import type { Remake } from "./remake.ts";
import type { Run } from "./run.ts";
import type { Redirects } from "./uris/redirect.ts";

/** A prompt ready to serve: its arguments are texts, checked and converted to what the function takes before `run`. */
export function createPrompt(
  contract: PromptContract,
  checkArguments: Validator,
  run: Run,
  redirects: Redirects,
  readOutcome: OutcomeReader,
  remake: Remake,
): Prompt {
  return {
    contract,
    async get(args, options) {
      const given = { ...args };
      const invalid = problemOfTexts(given) ?? (await checkArguments(given));
      if (invalid) throw new BerthError("invalid_params", `the prompt "${contract.name}": ${invalid}`);

      const { name, description } = contract;
      const outcome = await readOutcome(await run(given, options), { as: "prompt", name, description });
      if ("object" in outcome) return new LongObject(outcome.object);
      if (!outcome.ok) throw guestFailed(`The prompt "${contract.name}"`, outcome.error);
      if (outcome.value.kind === "asks") return { inputRequests: outcome.value.inputRequests };
      if (outcome.value.kind === "redirect") {
        const led = await redirects.asResult(outcome.value.location, options);
        if ("inputRequests" in led) return led;
        if (led instanceof LongResult) return remake.prompt(led, description);
        if (led.isError) throw new BerthError("guest_failed", textsOf(led));
        return promptOfContent(led.content, description);
      }
      return promptResultOf(outcome.value, contract);
    },
  };
}

/** A tool's content as messages of the user. */
export function promptOfContent(content: readonly ContentBlock[], description: string | undefined): PromptResult {
  return { ...describedBy(description), messages: content.map(byUser) };
}

function problemOfTexts(args: JsonObject): string | undefined {
  const name = Object.keys(args).find((each) => typeof args[each] !== "string");
  return name === undefined ? undefined : `/${name} must be a string`;
}

type Message = PromptResult["messages"][number];

/**
 * Accepts a text, a content block, a message, a list of these, or `{ messages, description }`. Throws `guest_failed`.
 */
export function promptResultOf(
  value: ReturnedValue,
  { name, description: own }: { readonly name: string; readonly description?: string | undefined },
): PromptResult {
  const whole = value.kind === "json" && isObject(value.value) && "messages" in value.value ? value.value : undefined;
  const description = typeof whole?.["description"] === "string" ? whole["description"] : own;
  const messages = whole ? messagesOf(whole["messages"] ?? null) : messagesIn(value);
  if (!messages) {
    const wanted = "a string, a content block, { role, content }, or a list of these";
    throw new BerthError("guest_failed", `The prompt "${name}" did not return messages: it must return ${wanted}`);
  }
  return { ...describedBy(description), messages };
}

function describedBy(description: string | undefined): { description?: string } {
  return description === undefined ? {} : { description };
}

function messagesIn(value: ReturnedValue): Message[] | undefined {
  switch (value.kind) {
    case "none":
      return [];
    case "text":
      return [byUser(text(value.text))];
    case "bytes":
      return [byUser(blockOfBytes(value.base64, value.mimeType))];
    case "json":
      return messagesOf(value.value);
  }
}

function messagesOf(value: Json): Message[] | undefined {
  const messages = (Array.isArray(value) ? value : [value]).map(messageOf);
  return messages.every((message) => message !== undefined) ? messages : undefined;
}

function messageOf(value: Json): Message | undefined {
  if (!isObject(value) || !("role" in value)) {
    const block = contentBlockOf(value);
    return block && byUser(block);
  }
  const { role, content } = value;
  const block = contentBlockOf(content ?? null);
  return block && (role === "user" || role === "assistant") ? { role, content: block } : undefined;
}

function byUser(content: ContentBlock): Message {
  return { role: "user", content };
}

/**
 * A written prompt. One that may become long is filled in off the serving thread: `fill` is `Checks.fillPrompt` of its
 * tenant.
 */
export function writtenPrompt(
  contract: PromptContract,
  prompt: ConfiguredPrompt,
  { outputBytes }: Pick<Limits, "outputBytes">,
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
    if (wrong !== undefined) return `/${wrong} must be a string`;
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
      if (unitsAtMost(values) <= readingBounds.inlineBodyBytes)
        return filledPrompt({ template, names, values }, outputBytes)!;
      const parts = await fill({ template, names, values });
      if (!parts)
        throw refuse(`with these values it has more than ${outputBytes} characters (${limitVariable("outputBytes")})`);
      return new LongObject(parts);
    },
  };
}

/** In a URI, each byte of a character may be escaped; in JSON, a control character. */
const UNITS_OF_CHARACTER = 9;
