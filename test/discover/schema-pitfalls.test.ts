import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { valueOf } from "../support/executor.ts";
import { OWN_SCHEMAS, schemaCompilerInSuite } from "../support/schema-compiler.ts";

process.env["BERTH_TEST_OWN_COMPILER"] = "1";

describe("schemas of definitions", () => {
  const compiler = schemaCompilerInSuite();
  const compile = (text: string) => compiler.compile(`${OWN_SCHEMAS}\n${text}`);

  it("keep their places if a tool before them is left out", async () => {
    const compiled = await compile(`
      const Text = schema<string>(() => ({ type: "string" }));
      const First = schema<{ s: string }>(() => ({ type: "object", properties: { s: { type: "string", description: "first" } } }));
      const Next = schema<{ s: string }>(() => ({ type: "object", properties: { s: { type: "string", description: "next" } } }));
      /** @schema Text */
      export function refused(s: string): Infer<typeof First> { return { s }; }
      export function next(it: Infer<typeof Next>): string { return it.s; }
    `);
    assert.deepEqual(
      compiled.problems.map(({ code }) => code),
      ["invalid-schema"],
    );
    assert.match(JSON.stringify(compiled.tools[0]!.inputSchema), /"description":"next"/);
  });

  it("takes any value for a schema that does", async () => {
    const { tools } = await compile(`
      const Day = schema<unknown, Date>(() => ({}), (value) => ({ value: new Date(value) }));
      export function day(it: Infer<typeof Day>): string { return it.toISOString(); }
    `);
    assert.deepEqual(tools[0]!.inputSchema["properties"], { it: {} });
  });

  it("parses an absent argument if the schema takes none", async () => {
    const compiled = await compile(`
      const Text = schema<string | undefined, string>(() => ({ type: "string" }), (value) => ({ value: value ?? "none" }));
      export function text(it: Infer<typeof Text>): string { return it; }
    `);
    assert.equal(compiled.tools[0]!.inputSchema["required"], undefined);
    assert.equal(valueOf(await compiler.call(compiled, "text")), "none");
  });
});
