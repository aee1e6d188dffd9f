import { type ErrorSchema, ErrorSchemaBuilder, type RJSFSchema, type ValidatorType } from "@rjsf/utils";
import { fits, type Mistake } from "./validation.ts";

/**
 * The part of a validator that the form library needs: which choice a value fits. The mistakes that it shows come from
 * outside, since they are found with the server's own schema and not with the one that is shown.
 */
export const formValidator: ValidatorType = {
  isValid: (part: RJSFSchema, value: unknown, root: RJSFSchema) => fits(part, value, root),
  validateFormData: () => ({ errors: [], errorSchema: {} }),
  rawValidation: () => ({}),
};

export function errorSchema(mistakes: readonly Mistake[]): ErrorSchema {
  const builder = new ErrorSchemaBuilder();
  for (const { path, message } of mistakes) builder.addErrors(message, [...path]);
  return builder.ErrorSchema;
}
