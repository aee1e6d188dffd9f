import Ajv from "ajv";

const ajv = new Ajv({ allErrors: true });
const validate = ajv.compile({
  type: "object",
  properties: { foo: { type: "integer" }, bar: { type: "string" } },
  required: ["foo"],
  additionalProperties: false,
});

/** Validates by a JSON Schema. */
export function errors(): string {
  return validate({ foo: "one", baz: 2 }) ? "valid" : ajv.errorsText(validate.errors);
}
