/** Any value that JSON can carry. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json };

/** A JSON Schema 2020-12 document that is an object (the boolean forms are never produced by Berth). */
export type JsonSchema = { [keyword: string]: unknown };

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
