import assert from "node:assert/strict";
import { it } from "node:test";
import { apiOf } from "../support/api.ts";
import { call, post, request, withStatus } from "../support/berth.ts";
import { OWN_SCHEMAS } from "../support/schema-compiler.ts";
import { berthInSuite } from "../support/suite.ts";

const CODES = `${OWN_SCHEMAS}
  const Code = schema<string>(
    () => ({ type: "string", minLength: 2, description: "A code." }),
    (it) => it.startsWith("x") ? { issues: [{ message: "no code begins with x" }] } : { value: it.toUpperCase() },
  );
  const Days = schema<number | undefined, number>(() => ({ type: "integer", default: 3 }), (it = 3) => ({ value: it }));
  export function find(code: Infer<typeof Code>, days: Infer<typeof Days>): string { return code + days; }
  export const tool = { description: "In an object.", inputSchema: { type: "object", properties: { n: { type: "integer" } } }, execute: ({ n }: { n: number }) => n + 1 };`;

const berth = berthInSuite({});

it("a definition with schemas is saved, listed by them, and called with what they make of the arguments", async () => {
  const api = apiOf(berth);
  const { body } = await withStatus(201, api.put("/definitions/codes", CODES));
  assert.deepEqual(body.review.problems, []);

  const url = `${berth.url}/mcp/codes`;
  const listed = (await post(url, request("tools/list"))).body.result.tools as Record<string, unknown>[];
  const declared = listed.map(({ name, description, inputSchema }) => [
    name,
    description,
    (inputSchema as { properties: unknown }).properties,
  ]);
  assert.deepEqual(declared, [
    [
      "find",
      undefined,
      { code: { type: "string", minLength: 2, description: "A code." }, days: { type: "integer", default: 3 } },
    ],
    ["tool", "In an object.", { n: { type: "integer" } }],
  ]);
  const cases: readonly [args: Record<string, unknown>, text: RegExp, isError?: true][] = [
    [{ code: "ab" }, /^AB3$/],
    [{ code: "ab", days: 5 }, /^AB5$/],
    [{ code: "xy" }, /^code: no code begins with x$/, true],
    [{ code: "a" }, /2 characters/, true],
    [{ code: "ab", days: 1.5 }, /integer/, true],
  ];
  for (const [args, text, isError] of cases) {
    const result = await call(url, "find", args);
    assert.match(result.content[0].text, text);
    assert.equal(result.isError, isError);
  }
  assert.equal((await call(url, "tool", { n: 1 })).content[0].text, "2");
});
