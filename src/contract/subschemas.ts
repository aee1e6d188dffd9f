/** Keywords of JSON Schema whose values are schemas by name. */
export const mapsOfSchemas: ReadonlySet<string> = new Set(
  "properties $defs definitions patternProperties dependentSchemas".split(" "),
);

/** Keywords of JSON Schema whose value is a schema, or a list of schemas. */
export const placesOfSchemas: ReadonlySet<string> = new Set(
  (
    "allOf anyOf oneOf not if then else items prefixItems contains additionalProperties additionalItems propertyNames " +
    "unevaluatedItems unevaluatedProperties contentSchema"
  ).split(" "),
);
