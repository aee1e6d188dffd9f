import type { JsonSchema } from "../json.ts";
import type { Problem } from "../problem.ts";
import { annotationsOf } from "./annotations.ts";
import { Budget } from "./budget.ts";
import type { CallShape, DiscoveredTool } from "./discovery.ts";
import { tagText } from "./doc-comments.ts";
import type { Candidate } from "./exports.ts";
import { readInput } from "./input.ts";
import { readOutput } from "./output.ts";
import type { DefinitionProgram } from "./program.ts";
import { Reporter } from "./reporter.ts";
import { sayUnresolved } from "./types/unresolved.ts";

/** One exported function as a tool; without the tool when a problem leaves it out. */
export function readTool(
  candidate: Candidate,
  program: DefinitionProgram,
): { tool?: DiscoveredTool; problems: Problem[] } {
  const reporter = new Reporter(candidate.name, program);
  const { doc, nameNode } = candidate;
  if (!/^[A-Za-z0-9_.-]{1,128}$/.test(candidate.name)) {
    const reason = `the name has characters that clients refuse; export it under another: export { ${candidate.name} as … }`;
    reporter.add("error", "invalid-tool-name", reason, nameNode);
  }
  if (candidate.missing) {
    const { missing } = candidate;
    const detail = missing.module === undefined ? reporter.diagnosticWithin(missing.complaint) : undefined;
    reporter.add("error", "unresolved-type", `${sayUnresolved(missing)}${detail ? `: ${detail}` : ""}`, missing.node);
    return { problems: reporter.problems };
  }
  if (candidate.overloads > 1) {
    const message = `has ${candidate.overloads} signatures; only the first is offered`;
    reporter.add("warning", "overloaded", message, nameNode);
  }

  const budget = new Budget();
  const input = readInput(candidate, program, budget, reporter);
  const output = readOutput(candidate, program, budget, reporter);
  if (reporter.hasErrors) return { problems: reporter.problems };

  const title = tagText(doc, "title");
  const call: CallShape = {
    export: candidate.export,
    style: input.style,
    params: input.params,
    ...(input.rest ? { rest: true } : {}),
    ...(input.context ? { context: true } : {}),
    ...(output.isStreaming ? { streaming: true } : {}),
    ...(input.dates.length > 0 ? { dates: input.dates } : {}),
  };
  const file = nameNode.getSourceFile();
  const { line, character } = file.getLineAndCharacterOfPosition(nameNode.getStart(file));
  const tool: DiscoveredTool = {
    name: candidate.name,
    ...(title ? { title } : {}),
    ...(doc.description ? { description: doc.description } : {}),
    inputSchema: withExamples(input.schema, candidate),
    outputSchema: output.schema,
    annotations: annotationsOf(doc),
    call,
    file: program.nameOf(file),
    line: line + 1,
    column: character + 1,
  };
  return { tool, problems: reporter.problems };
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
