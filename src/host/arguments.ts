import type { JsonSchema } from "../lib/json.ts";
import { judgeOf, type Judge } from "./checks/schema-code.ts";

/**
 * Checks values where they stand, on the thread that asks. It is for schemas of Berth's own, for processes that serve
 * nobody, and where there is no time to wait; all else is for `checks/checks.ts`.
 */

/** Made on first use. Throws on a schema that is not valid. */
export function lazyValidator(schema: JsonSchema): Judge {
  let judge: Judge | undefined;
  return (value) => {
    judge ??= judgeOf(schema, { texts: false }).judge;
    return judge(value);
  };
}

/** Why values cannot be checked by a schema, as the end of a sentence; undefined when they can. */
export function faultOfSchema(schema: JsonSchema): string | undefined {
  try {
    judgeOf(schema, { texts: false });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
