import type { Problem } from "../lib/problem.ts";
import type { DiscoveredCompletion } from "./discovery.ts";
import type { Tag } from "./doc-comments.ts";
import type { Candidate } from "./exports.ts";
import { callOf } from "./function.ts";
import { settle } from "./overloads.ts";
import type { DefinitionProgram } from "./program.ts";
import { Reporter, textPart } from "./reporter.ts";
import { takenParameters } from "./taken.ts";

/** A prompt or a resource whose arguments can be completed. */
export interface Completable {
  /** The argument's name in the function, and as it is published. */
  readonly names: readonly string[];
  /** The name that clients use: a prompt's name, a resource's URI template. */
  readonly of: string;
  readonly arguments: readonly string[];
}

/** `@completes <function>.<argument>`: a function `(value, others) => string[]` that helps to fill an argument in. */
export function readCompletion(
  found: Candidate,
  tag: Tag,
  completables: readonly Completable[],
  program: DefinitionProgram,
): { completion?: DiscoveredCompletion; problems: Problem[] } {
  const reporter = new Reporter(found.name, program);
  const candidate = settle(found, program, reporter);
  if (!candidate) return { problems: reporter.problems };

  const target = readTarget(tag, completables, reporter);
  const { parameters, context } = takenParameters(candidate, program, reporter);
  if (parameters.length > 2) {
    const message = "a completion takes what is typed so far and the other arguments: (value: string, others)";
    reporter.add("error", "completion-parameters", message, parameters[2]!.declaration ?? candidate.nameNode);
  }
  if (!target || reporter.hasErrors) return { problems: reporter.problems };

  const params = ["value", "others"].slice(0, parameters.length);
  const call = callOf(
    candidate,
    { style: "positional", params, rest: false, context, dates: [], urls: [], spokenDefaults: [] },
    false,
  );
  return { completion: { ...target, call }, problems: reporter.problems };
}

function readTarget(
  tag: Tag,
  completables: readonly Completable[],
  reporter: Reporter,
): Pick<DiscoveredCompletion, "of" | "argument"> | undefined {
  const [, name = "", argument = ""] = /^(\S+)\.([^\s.]+)/.exec(tag.text) ?? [];
  const fault = (code: string, message: string): undefined => {
    reporter.add("error", code, message, tag.node, textPart(tag));
  };
  if (name === "") return fault("unknown-completion", "@completes wants a function and its argument: @completes f.x");
  const target = completables.find(({ names }) => names.includes(name));
  if (!target) {
    return fault("unknown-completion", `"${name}" is no function that is a @prompt or a @resource without problems`);
  }
  if (target.arguments.includes(argument)) return { of: target.of, argument };
  const known = target.arguments.map((each) => `"${each}"`).join(", ");
  return fault("unknown-completion", `"${name}" has no argument "${argument}"; it has ${known || "none"}`);
}
