import type { JsonSchema } from "../../src/lib/json.ts";

/** Counts every written string and every member access as one read; all work on a schema consists of these. */
export function countedReads(schema: JsonSchema): { schema: JsonSchema; readonly count: number } {
  let count = 0;
  const watch = (value: unknown): unknown =>
    typeof value !== "object" || value === null
      ? value
      : new Proxy(value, {
          get(target, key, receiver) {
            count++;
            return watch(Reflect.get(target, key, receiver));
          },
        });
  return {
    schema: watch(schema) as JsonSchema,
    get count() {
      return count;
    },
  };
}
