/** A JSON Schema as a server gives it: it may contain anything. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

export function isSchema(value: unknown): value is JsonSchema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
