import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { readNamedEntry } from "../../src/entry/mcps.ts";
import { PROBLEMS_MAX } from "../../src/lib/problem.ts";
import { apiOf } from "../support/api.ts";
import { call, startTestBerth, type TestBerth } from "../support/berth.ts";

const unknown = (count: number): Record<string, number> =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 1]));

describe("an entry with many faults", () => {
  let berth: TestBerth;
  before(async () => (berth = await startTestBerth({ texts: { "demo.ts": "export const one = (): number => 1;\n" } })));
  after(() => berth?.close());

  it("is told of the first, and how many there are beyond", () => {
    const { problems, refused } = readNamedEntry("demo", unknown(20_000));
    assert.equal(refused, true);
    assert.equal(problems.length, PROBLEMS_MAX + 1);
    assert.match(problems[PROBLEMS_MAX]!.message, /There are 19900 more problems/);
  });

  it("offers nothing that is wrong, whether anybody is told of it or not", () => {
    const wrong = Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`tool${index}`, { title: 1 }]));
    const { entry } = readNamedEntry("demo", { tools: { ...wrong, right: { title: "Right" } } });
    assert.deepEqual(Object.keys(entry.tools), ["right"]);
    assert.equal(entry.leftOut.tools.length, 300);
  });

  it("is refused with a small answer, each problem where it stands, and the service serves on", async () => {
    const text = JSON.stringify(unknown(20_000), null, 1);
    const { status, body } = await apiOf(berth).put("/entries/demo", text);
    assert.equal(status, 422);
    const { problems } = body.error.data;
    assert.equal(problems.length, PROBLEMS_MAX + 1);
    assert.deepEqual([problems[0].line, problems[99].line], [2, 101]);
    assert.match(problems[99].frame, /> 101 \|  "k99": 1,/);
    assert.ok(JSON.stringify(body).length < 200_000, `${JSON.stringify(body).length} characters`);
    assert.deepEqual((await call(`${berth.url}/mcp/demo`, "one", {})).structuredContent, { result: 1 });
  });

  it("in many servers of the configuration is refused with a small answer, errors first", async () => {
    const servers = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`server${index}`, unknown(50)]));
    const { status, body } = await apiOf(berth).put("/variables/mcps", JSON.stringify(servers));
    assert.equal(status, 422);
    const { problems } = body.error.data;
    assert.equal(problems.length, PROBLEMS_MAX + 1);
    assert.match(problems[PROBLEMS_MAX].message, /There are \d+ more problems/);
    assert.ok(problems.slice(0, PROBLEMS_MAX).every(({ severity }: { severity: string }) => severity === "error"));
  });
});

describe("a list of an entry", () => {
  it("is refused with one problem when it has more items than are read", () => {
    for (const field of ["secrets", "variables", "network", "folders", "consent"]) {
      const { problems, refused } = readNamedEntry("demo", { [field]: Array(5_001).fill("a.example") });
      assert.deepEqual(
        [refused, problems.map(({ code, pointer }) => [code, pointer])],
        [true, [["too-many-items", `/demo/${field}`]]],
      );
    }
  });
});
