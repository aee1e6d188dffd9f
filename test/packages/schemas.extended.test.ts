import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { JsonObject, JsonSchema } from "../../src/lib/json.ts";
import { failureOf, valueOf } from "../support/executor.ts";
import { schemaCompilerInSuite } from "../support/schema-compiler.ts";
import { openSet } from "../support/tried-packages.ts";

/** One tool `greet` each, whose name has at least 2 characters, and whose times are 1 by default. */
const DEFINITIONS: Readonly<Record<string, string>> = {
  zod: `
    import { z } from "zod";
    const Greeting = z.object({ name: z.string().min(2), times: z.int().default(1) });
    export function greet({ name, times }: z.infer<typeof Greeting>): string { return name.repeat(times); }`,
  valibot: `
    import * as v from "valibot";
    const Greeting = v.object({
      name: v.pipe(v.string(), v.minLength(2)),
      times: v.optional(v.pipe(v.number(), v.integer()), 1),
    });
    export function greet({ name, times }: v.InferOutput<typeof Greeting>): string { return name.repeat(times); }`,
  arktype: `
    import { type } from "arktype";
    const Greeting = type({ name: "string >= 2", times: "number.integer = 1" });
    export function greet({ name, times }: typeof Greeting.infer): string { return name.repeat(times); }`,
  ai: `
    import { tool } from "ai";
    import { z } from "zod";
    export const greet = tool({
      description: "Greets.",
      inputSchema: z.object({ name: z.string().min(2), times: z.int().default(1) }),
      execute: async ({ name, times }) => name.repeat(times),
    });`,
  "@langchain/core": `
    import { tool } from "@langchain/core/tools";
    import { z } from "zod";
    export const greet = tool(async ({ name, times }) => name.repeat(times), {
      name: "greet",
      description: "Greets.",
      schema: z.object({ name: z.string().min(2), times: z.int().default(1) }),
    });`,
};

describe("of a real library, a schema is published, and makes and refuses arguments:", () => {
  const compiler = schemaCompilerInSuite(() => openSet([...Object.keys(DEFINITIONS), "@valibot/to-json-schema"]));
  for (const [name, definition] of Object.entries(DEFINITIONS)) {
    it(name, async () => {
      const compiled = await compiler.compile(definition);
      assert.deepEqual(compiled.problems, []);
      const [tool = assert.fail()] = compiled.tools;
      assert.equal(tool.name, "greet");
      const { properties, required } = tool.inputSchema as {
        properties: Record<string, JsonSchema>;
        required: string[];
      };
      assert.equal(properties["name"]!["minLength"], 2);
      // In a bundle by esbuild, arktype does not say its defaults.
      if (name !== "arktype") assert.equal(properties["times"]!["default"], 1);
      assert.deepEqual(required, ["name"]);
      const call = (args: JsonObject) => compiler.call(compiled, "greet", args);
      assert.equal(valueOf(await call({ name: "Ada", times: 2 })), "AdaAda");
      assert.equal(valueOf(await call({ name: "Ada" })), "Ada");
      assert.match(failureOf(await call({ name: "A" })).message, /name.*2|2.*name/s);
    });
  }
});
