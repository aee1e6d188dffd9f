import type { JsonSchema } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { annotationsOf } from "./annotations.ts";
import { Budget } from "./budget.ts";
import type { DiscoveredTool, TaskSupport } from "./discovery.ts";
import { tagOf, type Doc } from "./doc-comments.ts";
import { faultsOfHeaders } from "../contract/header-faults.ts";
import type { Candidate } from "./exports.ts";
import { callOf, namingOf, standingOf } from "./function.ts";
import { readGivenInput } from "./given-input.ts";
import { readInput } from "./input.ts";
import { readOutput } from "./output.ts";
import { settle } from "./overloads.ts";
import type { DefinitionProgram } from "./program.ts";
import { Reporter, textPart } from "./reporter.ts";

/** One exported function as a tool; without the tool when a problem leaves it out. */
export function readTool(found: Candidate, program: DefinitionProgram): { tool?: DiscoveredTool; problems: Problem[] } {
  const reporter = new Reporter(found.name, program);
  const candidate = settle(found, program, reporter);
  if (!candidate) return { problems: reporter.problems };
  const naming = namingOf(candidate, reporter);

  const budget = new Budget();
  const given = readGivenInput(candidate, program, reporter);
  const input = given ?? readInput(candidate, program, budget, reporter);
  const output = readOutput(candidate, program, budget, reporter);
  for (const { header, message } of faultsOfHeaders(input.schema)) {
    const tag = given ? tagOf(candidate.doc, "inputschema") : undefined;
    const node = input.headers.get(header) ?? tag?.node ?? candidate.nameNode;
    reporter.add("error", "invalid-header", message, node, tag && textPart(tag));
  }
  if (reporter.hasErrors) return { problems: reporter.problems };

  const task = taskOf(candidate.doc, reporter);
  const tool: DiscoveredTool = {
    ...naming,
    inputSchema: withExamples(input.schema, candidate),
    outputSchema: output.schema && withTitle(output.schema, candidate),
    annotations: annotationsOf(candidate.doc),
    ...(task ? { task } : {}),
    call: callOf(candidate, input, output.isStreaming),
    ...standingOf(candidate, program),
  };
  return { tool, problems: reporter.problems };
}

/** `@task`, `@task required`, `@task deferred` or both. */
function taskOf(doc: Doc, reporter: Reporter): TaskSupport | undefined {
  const tag = tagOf(doc, "task");
  if (!tag) return undefined;
  const words = tag.text.split(/[\s,]+/).filter(Boolean);
  const unknown = words.find((word) => !["optional", "required", "deferred"].includes(word));
  if (unknown !== undefined) {
    const part = textPart(tag, tag.text.indexOf(unknown), unknown.length);
    reporter.add("warning", "unknown-task-word", `@task takes required and deferred, not "${unknown}"`, tag.node, part);
  }
  return { required: words.includes("required"), deferred: words.includes("deferred") };
}

/** `@returns` is the title of what is given back: a description belongs to the type. */
function withTitle(schema: JsonSchema, { doc }: Candidate): JsonSchema {
  return doc.returns === "" ? schema : { title: doc.returns, ...schema };
}

/** Examples of a whole call, where they are written as its arguments. */
function withExamples(schema: JsonSchema, { doc }: Candidate): JsonSchema {
  const examples = doc.tags
    .filter((tag) => tag.name === "example" || tag.name === "examples")
    .flatMap((tag) => {
      try {
        const value: unknown = JSON.parse(tag.text.replace(/^```\w*\n|\n?```$/g, ""));
        return typeof value === "object" && value !== null && !Array.isArray(value) ? [value] : [];
      } catch {
        return [];
      }
    });
  return examples.length > 0 ? { ...schema, examples } : schema;
}
