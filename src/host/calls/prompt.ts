import type { PromptContract } from "../../contract/contract.ts";
import {
  fillPrompt,
  PLACEHOLDER,
  type ConfiguredPrompt,
  type PromptTask,
  type PromptValues,
} from "../../entry/prompt-fields.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import { readingBounds } from "../../lib/reading-bounds.ts";
import { type Limits, limitVariable } from "../../limits/limits.ts";
import type { Validator } from "../checks/checks.ts";
import type { OutcomeReader } from "../checks/tasks.ts";
import { guestFailed } from "../offers/call-failures.ts";
import type { Prompt } from "../offers/catalog.ts";
import { textsOf } from "../offers/content.ts";
import { LongObject, LongResult, type LongObjectParts } from "../offers/long-result.ts";
import { promptOfContent, promptResultOf } from "../offers/prompt-result.ts";
import type { Converter } from "./remake.ts";
import type { Run } from "./run.ts";
import type { Redirects } from "./uris/redirect.ts";

/** A prompt from a function. Its arguments are strings, validated and converted to parameter types before `run`. */
export function createPrompt(
  contract: PromptContract,
  checkArguments: Validator,
  run: Run,
  redirects: Redirects,
  readOutcome: OutcomeReader,
  remake: Converter,
): Prompt {
  return {
    contract,
    async get(args, options) {
      const values = { ...args };
      const invalid = findNonString(values) ?? (await checkArguments(values));
      if (invalid) throw new BerthError("invalid_params", `the prompt "${contract.name}": ${invalid}`);

      const { name, description } = contract;
      const outcome = await readOutcome(await run(values, options), { as: "prompt", name, description });
      if ("object" in outcome) return new LongObject(outcome.object);
      if (!outcome.ok) throw guestFailed(`The prompt "${contract.name}"`, outcome.error);
      if (outcome.value.kind === "asks") return { inputRequests: outcome.value.inputRequests };
      if (outcome.value.kind === "redirect") {
        const target = await redirects.asResult(outcome.value.location, options);
        if ("inputRequests" in target) return target;
        if (target instanceof LongResult) return remake.prompt(target, description);
        if (target.isError) throw new BerthError("guest_failed", textsOf(target));
        return promptOfContent(target.content, description);
      }
      return promptResultOf(outcome.value, contract);
    },
  };
}

function findNonString(args: JsonObject): string | undefined {
  const name = Object.keys(args).find((each) => typeof args[each] !== "string");
  return name === undefined ? undefined : `/${name} must be a string`;
}

/** A prompt from the configuration. If the result may be long, `fill` renders it off-thread (`Checks.fillPrompt`). */
export function configuredPrompt(
  contract: PromptContract,
  prompt: ConfiguredPrompt,
  { outputBytes }: Pick<Limits, "outputBytes">,
  fill: (task: PromptTask) => Promise<LongObjectParts | undefined>,
): Prompt {
  const { description } = contract;
  const names = prompt.arguments.map(({ name }) => name);
  const required = prompt.arguments.filter(({ required }) => required).map(({ name }) => name);
  const template = { messages: prompt.messages, ...(description !== undefined && { description }) };
  const text = JSON.stringify(template);
  const placeholders = Array.from(text.matchAll(PLACEHOLDER), ([, name]) => name!).filter((name) =>
    names.includes(name),
  );
  const findFault = (args: JsonObject): string | undefined => {
    const wrong = Object.keys(args).find((name) => typeof args[name] !== "string");
    if (wrong !== undefined) return `/${wrong} must be a string`;
    const missing = required.find((name) => !Object.hasOwn(args, name));
    if (missing !== undefined) return `the value needs the property "${missing}"`;
    const unknown = Object.keys(args).find((name) => !names.includes(name));
    return unknown === undefined ? undefined : `the value has no property "${unknown}"`;
  };
  const maxLength = (values: PromptValues): number =>
    placeholders.reduce((sum, name) => sum + UNITS_PER_CHARACTER * values[name]!.length, text.length);
  return {
    contract,
    async get(args) {
      const refuse = (why: string): BerthError =>
        new BerthError("invalid_params", `the prompt "${contract.name}": ${why}`);
      const wrong = findFault(args);
      if (wrong !== undefined) throw refuse(wrong);
      const values = Object.fromEntries(
        names.map((name) => [name, Object.hasOwn(args, name) ? (args[name] as string) : ""]),
      );
      if (maxLength(values) <= readingBounds.inlineBodyBytes)
        return fillPrompt({ template, names, values }, outputBytes)!;
      const parts = await fill({ template, names, values });
      if (!parts)
        throw refuse(`with these values it is longer than ${outputBytes} characters (${limitVariable("outputBytes")})`);
      return new LongObject(parts);
    },
  };
}

/** Worst case: each byte of a character is escaped in a URI. Control characters in JSON take less. */
const UNITS_PER_CHARACTER = 9;
