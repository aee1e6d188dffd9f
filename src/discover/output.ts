import type { JsonSchema } from "../json.ts";
import { BudgetExceeded, type Budget } from "./budget.ts";
import type { Candidate } from "./exports.ts";
import type { DefinitionProgram } from "./program.ts";
import { reportFault } from "./report-fault.ts";
import type { Reporter } from "./reporter.ts";
import { resultOf } from "./results.ts";
import { isUnresolved } from "./types/kinds.ts";
import { sayUnresolved, unresolvedName } from "./types/unresolved.ts";
import { createWalker } from "./types/walk.ts";

export interface Output {
  readonly schema: JsonSchema | null;
  readonly isStreaming: boolean;
}

/** The schema of what a tool gives back. */
export function readOutput(
  candidate: Candidate,
  program: DefinitionProgram,
  budget: Budget,
  reporter: Reporter,
): Output {
  const result = resultOf(candidate, program);
  const { isStreaming, isWritten, node } = result;
  const at = (isWritten ? candidate.signature.declaration?.type : undefined) ?? candidate.nameNode;
  const missing = isWritten ? unresolvedName(candidate.signature.declaration?.type, program) : undefined;
  if (missing) {
    const detail = missing.module === undefined ? reporter.diagnosticWithin(missing.complaint) : undefined;
    const message = `the result: ${sayUnresolved(missing)}${detail ? `: ${detail}` : ""}`;
    reporter.add("error", "unresolved-type", message, at);
    return { schema: null, isStreaming };
  }
  if (!result.type || (!isWritten && isUnresolved(result.type))) {
    return { schema: result.type ? {} : null, isStreaming };
  }
  const walker = createWalker({
    program,
    direction: "output",
    written: isWritten,
    budget,
    onFault: (fault) =>
      reportFault({ ...fault, message: `the result: ${fault.message}` }, at, false, new Map(), reporter),
  });
  try {
    const schema = walker.walk(result.type, { path: [], level: 0, open: true, node });
    return { schema: walker.recursion.finish(schema), isStreaming };
  } catch (error) {
    if (!(error instanceof BudgetExceeded)) throw error;
    reporter.add("error", error.code, `the result: ${error.message}`, at);
    return { schema: null, isStreaming };
  }
}
