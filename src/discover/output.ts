import ts from "#typescript";
import type { JsonSchema } from "../lib/json.ts";
import { BudgetExceeded, type Budget } from "./budget.ts";
import type { Candidate } from "./exports.ts";
import type { DefinitionProgram } from "./program.ts";
import { reportFault } from "./report-fault.ts";
import type { Reporter } from "./reporter.ts";
import { resultOf } from "./results.ts";
import { isFunction, isNothing, isNull, isUnresolved, knownMembers } from "./types/kinds.ts";
import { combine } from "./types/union.ts";
import { failingOf, type Failing } from "./types/unwritable.ts";
import { sayUnresolved, unresolvedName } from "./types/unresolved.ts";
import { createWalker } from "./types/walk.ts";
import { written } from "./types/walker.ts";

export interface Output {
  readonly schema: JsonSchema | null;
  readonly isStreaming: boolean;
}

/**
 * The schema of what a tool gives back; null as well where its type cannot be described, which is a warning: the tool
 * is offered without it.
 */
export function readOutput(
  candidate: Candidate,
  program: DefinitionProgram,
  budget: Budget,
  reporter: Reporter,
): Output {
  const result = resultOf(candidate, program);
  const { isStreaming, isWritten, node } = result;
  const returned = candidate.signature.declaration?.type;
  const at = (isWritten ? returned : undefined) ?? candidate.nameNode;
  let isLost = false;
  const lose = (code: string, why: string): void => {
    const fails = code === "unsupported-type" && result.type ? sayFailing(failingOf(result.type, program)) : "";
    const message = `the result: ${why}${fails}; the tool is offered without an output schema`;
    if (!isLost) reporter.add("warning", code, message, at);
    isLost = true;
  };
  // `value is T` is a boolean and `asserts value is T` is nothing, whatever T is.
  const isPredicate = returned !== undefined && ts.isTypePredicateNode(returned);
  const missing = isWritten && !isPredicate ? unresolvedName(returned, { ...program, direction: "output" }) : undefined;
  if (missing) {
    const detail = missing.module === undefined ? reporter.diagnosticWithin(missing.complaint) : undefined;
    lose("unresolved-type", `${sayUnresolved(missing)}${detail ? `: ${detail}` : ""}`);
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
    onFault: (fault) => {
      const { severity, code, message, path } = fault;
      if (severity === "error") lose(code, `${message}${path.length > 0 ? ` (at ${written(path)})` : ""}`);
      else reportFault({ ...fault, message: `the result: ${message}` }, at, false, new Map(), reporter);
    },
  });
  try {
    const schema = walker.walk(result.type, { path: [], level: 0, open: true, node });
    if (hasOnlyFunctions(result.type, program.checker)) {
      lose("unsupported-type", "all that it has is functions, which JSON cannot carry; return plain data");
    }
    return {
      schema: isLost ? null : walker.recursion.finish(orNull(schema, result.type, program.checker)),
      isStreaming,
    };
  } catch (error) {
    if (!(error instanceof BudgetExceeded)) throw error;
    lose(error.code, error.message);
    return { schema: null, isStreaming };
  }
}

/** The end of a sentence that says what to return instead. */
function sayFailing(failing: Failing): string {
  if (failing === "never") return "";
  return failing === "always" ? "; as it is, every call fails" : "; a call that returns one fails";
}

/** A function that may return `undefined` answers null. */
function orNull(schema: JsonSchema, type: ts.Type, checker: ts.TypeChecker): JsonSchema {
  const members = knownMembers(type, checker);
  return members.some(isNothing) && !members.some(isNull) ? combine([], [schema, { type: "null" }]) : schema;
}

function hasOnlyFunctions(type: ts.Type, checker: ts.TypeChecker): boolean {
  if (!(type.flags & ts.TypeFlags.Object) || checker.isArrayLikeType(type) || type.getProperty("toJSON")) return false;
  const properties = checker.getPropertiesOfType(type);
  const isMethod = (property: ts.Symbol) => isFunction(checker.getNonNullableType(checker.getTypeOfSymbol(property)));
  return properties.length > 0 && properties.every(isMethod) && checker.getIndexInfosOfType(type).length === 0;
}
