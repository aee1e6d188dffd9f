import type { JsonSchema } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { Budget } from "./budget.ts";
import type { DiscoveredPrompt, PromptArgument } from "./discovery.ts";
import type { Candidate } from "./exports.ts";
import { callOf, namingOf, standingOf } from "./function.ts";
import { readInput, type Input } from "./input.ts";
import { settle } from "./overloads.ts";
import type { DefinitionProgram } from "./program.ts";
import { Reporter } from "./reporter.ts";
import { resultOf } from "./results.ts";
import { isTextual } from "./textual.ts";

/** `@prompt`: a function whose parameters are a prompt's arguments, and whose result is its messages. */
export function readPrompt(
  found: Candidate,
  program: DefinitionProgram,
): { prompt?: DiscoveredPrompt; problems: Problem[] } {
  const reporter = new Reporter(found.name, program);
  const candidate = settle(found, program, reporter);
  if (!candidate) return { problems: reporter.problems };
  const naming = namingOf(candidate, reporter);

  const input = readInput(candidate, program, new Budget(), reporter);
  const prompt: DiscoveredPrompt = {
    ...naming,
    arguments: argumentsOf(input, candidate, reporter),
    inputSchema: input.schema,
    call: callOf(candidate, input, resultOf(candidate, program).isStreaming),
    ...standingOf(candidate, program),
  };
  return reporter.hasErrors ? { problems: reporter.problems } : { prompt, problems: reporter.problems };
}

function argumentsOf({ schema }: Input, { nameNode }: Candidate, reporter: Reporter): PromptArgument[] {
  const required = (schema["required"] ?? []) as string[];
  return Object.entries((schema["properties"] ?? {}) as Record<string, JsonSchema>).map(([name, property]) => {
    if (!isTextual(property, false)) {
      const message = `clients give a prompt's arguments as texts, so "${name}" has to be a string, a number or a boolean`;
      reporter.add("error", "parameter-not-textual", message, nameNode);
    }
    const { description } = property;
    const argument = { name, required: required.includes(name) };
    return typeof description === "string" ? Object.assign(argument, { description }) : argument;
  });
}
