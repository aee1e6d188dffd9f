import { isObject, type JsonSchema } from "../lib/json.ts";

/** An argument that clients repeat as a header of the request (2026-07-28 `basic/transports/streamable-http`). */
export interface HeaderMark {
  /** In lower case. */
  readonly header: string;
  readonly path: readonly string[];
}

/** The marks of a tool's input schema: only those reached through `properties` alone count. */
export function headerMarks(inputSchema: JsonSchema): HeaderMark[] {
  const marks: HeaderMark[] = [];
  const walk = (schema: unknown, path: readonly string[]): void => {
    if (!isObject(schema) || !isObject(schema["properties"])) return;
    for (const [name, property] of Object.entries(schema["properties"])) {
      if (!isObject(property)) continue;
      const mark = property["x-mcp-header"];
      if (typeof mark === "string") marks.push({ header: `mcp-param-${mark.toLowerCase()}`, path: [...path, name] });
      walk(property, [...path, name]);
    }
  };
  walk(inputSchema, []);
  return marks;
}

export type Scalar = string | number | boolean;

/** The arguments that go into headers; undefined for missing ones and for those that are not scalar. */
export function scalarsAt(args: unknown, paths: readonly (readonly string[])[]): (Scalar | undefined)[] {
  return paths.map((path) => {
    const value = path.reduce<unknown>(
      (inner, key) => (isObject(inner) && Object.hasOwn(inner, key) ? inner[key] : undefined),
      args,
    );
    return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? value : undefined;
  });
}
