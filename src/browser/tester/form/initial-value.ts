import { getDefaultFormState } from "@rjsf/utils";
import { DEFAULTS } from "./defaults.ts";
import { formSchema } from "./form-schema.ts";
import { formValidator } from "./form-validator.ts";
import { isSchema, type JsonSchema } from "./json-schema.ts";

/** The arguments before the person writes any: the schema's defaults and constants. */
export function initialValue(schema: JsonSchema): Record<string, unknown> {
  const shown = formSchema(schema);
  try {
    const value: unknown = getDefaultFormState(formValidator, shown, {}, shown, false, DEFAULTS);
    return withContainers(schema, isSchema(value) ? JSON.parse(JSON.stringify(value)) : {});
  } catch {
    return {};
  }
}

/** Adds required objects and lists, though empty, so that what is missing is said of their members. */
function withContainers(schema: JsonSchema, value: Record<string, unknown>): Record<string, unknown> {
  const { properties, required } = schema;
  if (!isSchema(properties) || !Array.isArray(required)) return value;
  for (const name of required.map(String)) {
    const member = properties[name];
    const given = value[name];
    if (!isSchema(member)) continue;
    if (member["type"] === "array") value[name] ??= [];
    if (member["type"] === "object") value[name] = withContainers(member, isSchema(given) ? { ...given } : {});
  }
  return value;
}
