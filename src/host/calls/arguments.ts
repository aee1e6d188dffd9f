import type { JsonSchema } from "../../lib/json.ts";
import { compileSchema, type ValueValidator } from "../checks/schema-code.ts";

/**
 * Validates values on the calling thread: for Berth's own schemas, in processes without clients, and where waiting is
 * impossible. Everything else uses `checks/checks.ts`.
 */

/** Compiles the schema on first use; throws then if it is invalid. */
export function lazyValidator(schema: JsonSchema): ValueValidator {
  let validate: ValueValidator | undefined;
  return (value) => {
    validate ??= compileSchema(schema, { texts: false }).judge;
    return validate(value);
  };
}

/** Why a schema is invalid, as the end of a sentence; undefined for a valid schema. */
export function findSchemaFault(schema: JsonSchema): string | undefined {
  try {
    compileSchema(schema, { texts: false });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Describes a value's problems as the end of a sentence; undefined when there are none. */
export function describeProblems(validate: ValueValidator, value: unknown): string | undefined {
  try {
    const problems = validate(value);
    return problems.length > 0 ? problems.join("; ") : undefined;
  } catch (error) {
    return `its schema is not valid: ${(error as Error).message}`;
  }
}
