import type { JsonSchema } from "../../lib/json.ts";
import { judgeOf, type Judge } from "../checks/schema-code.ts";

/**
 * Checks values on the calling thread: by Berth's own schemas, in processes that serve nobody, and when there is no
 * time to wait. Use `checks/checks.ts` for everything else.
 */

/** Compiles the schema on first use, and throws then if it is invalid. */
export function lazyValidator(schema: JsonSchema): Judge {
  let judge: Judge | undefined;
  return (value) => {
    judge ??= judgeOf(schema, { texts: false }).judge;
    return judge(value);
  };
}

/** Why a schema cannot check values, as the end of a sentence; undefined when it can. */
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
