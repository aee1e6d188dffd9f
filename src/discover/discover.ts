import ts from "typescript";
import type { Problem } from "../problem.ts";
import type { Discovery, DefinitionSource, DiscoveredTool } from "./discovery.ts";
import { exportedFunctions } from "./exports.ts";
import { openProgram, type DefinitionProgram } from "./program.ts";
import { placeIn, problemAt } from "./reporter.ts";
import { readTool } from "./tool.ts";

/**
 * Finds the tools in a TypeScript definition, in this process. Loads the compiler, and types can be written to make
 * it run for ever: the serving process goes through `compiler.ts`, which does this in a child with limits.
 */
export function discover(source: DefinitionSource): Discovery {
  const program = openProgram(source);
  const syntax = syntaxProblems(program);
  if (syntax.length > 0) return { tools: [], problems: syntax };

  const tools: DiscoveredTool[] = [];
  const problems: Problem[] = [];
  for (const candidate of exportedFunctions(program, source.server)) {
    if (tools.some(({ name }) => name === candidate.name)) {
      const message = `${candidate.name}: there is another tool of this name; export one of them under another name`;
      const problem = problemAt(candidate.nameNode, { severity: "error", code: "repeated-tool", message }, program);
      problems.push({ ...problem, tool: candidate.name });
      continue;
    }
    const found = readTool(candidate, program);
    if (found.tool) tools.push(found.tool);
    problems.push(...found.problems);
  }
  return { tools, problems };
}

/** With a syntax error nothing further can be trusted. */
function syntaxProblems({ program, own, nameOf }: DefinitionProgram): Problem[] {
  const toProblem = (file: ts.SourceFile, diagnostic: ts.Diagnostic): Problem => {
    const place = placeIn(file.text, diagnostic.start ?? 0, diagnostic.length ?? 1);
    const message = ts.flattenDiagnosticMessageText(diagnostic.messageText, " ");
    return { severity: "error", code: "syntax-error", message, file: nameOf(file), ...place };
  };
  return own.flatMap((file) => program.getSyntacticDiagnostics(file).map((diagnostic) => toProblem(file, diagnostic)));
}
