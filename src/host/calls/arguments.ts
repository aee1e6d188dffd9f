import type { JsonSchema } from "../../lib/json.ts";
import { judgeOf, type Judge } from "../checks/schema-code.ts";

/**
 * Validates values on the calling thread: for Berth's own schemas, in processes without clients, and where waiting is
 * impossible. Everything else uses `checks/checks.ts`.
 */

/** Compiles the schema on first use; throws then if it is invalid. */
export function lazyValidator(schema: JsonSchema): Judge {
  let judge: Judge | undefined;
  return (value) => {
    judge ??= judgeOf(schema, { texts: false }).judge;
    return judge(value);
  };
}

/** Why a schema is invalid, as the end of a sentence; undefined for a valid schema. */
export function faultOfSchema(schema: JsonSchema): string | undefined {
  try {
    judgeOf(schema, { texts: false });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Describes a value's problems as the end of a sentence; undefined when there are none. */
export function problemsOf(judge: Judge, value: unknown): string | undefined {
  try {
    const problems = judge(value);
    return problems.length > 0 ? problems.join("; ") : undefined;
  } catch (error) {
    return `its schema is not valid: ${(error as Error).message}`;
  }
}
