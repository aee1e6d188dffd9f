import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Problem } from "../../src/lib/problem.ts";
import { summariesOf } from "../support/host.ts";
import { rows } from "../support/rows.ts";
import { hostedInSuite } from "../support/suite.ts";

const DEFINITION = `
/** Adds. */
export function add(a: number, b: number): number { return a + b; }
/** Greets. */
export function greet(name: string): string { return "Hello, " + name; }
/** @resource note://all */
export const all = (): string => "all notes";
`;

const told = (problems: readonly Problem[]) => rows(problems, "code", "pointer", "severity");

describe("what is wrong with an entry of mcps", () => {
  const hosted = hostedInSuite({ plain: DEFINITION });

  it("is told with its pointer on the part that it leaves out, while everything else serves", async () => {
    await hosted.configure({
      plain: {
        auto_discover: true,
        tools: {
          gone: {},
          greet: { inputSchema: { type: "object", properties: { a: { pattern: "(?=x)" } } } },
          "a b": {},
        },
        resources: {
          none: { uri: "note://none" },
          all: { uri: "note://all", mimeType: "text/markdown" },
          same: { uri: "note://all" },
          spaced: { uri: "note://a b", text: "" },
          forged: { uri: "variable://motd", text: "not what the variable says" },
          other: { uriTemplate: "server://plain/{name}", content: "cid://{name}" },
        },
        prompts: { empty: {}, ask: { messages: [{ role: "user", content: "{{who}}?" }] } },
        options: { add: 1, nobody: {} },
      },
    });
    const catalog = await hosted.catalog("plain");
    assert.deepEqual(told(catalog.problems), [
      "wrong-type /plain/options/add error",
      "bad-schema /plain/tools/greet/inputSchema error",
      "bad-name /plain/tools/a b error",
      "missing-field /plain/prompts/empty error",
      "unknown-argument /plain/prompts/ask/messages/0/content warning",
      "duplicate-uri /plain/resources/same error",
      "bad-uri /plain/resources/spaced/uri error",
      "bad-uri /plain/resources/forged/uri error",
      "bad-uri /plain/resources/other/uriTemplate error",
      "unknown-tool /plain/tools/gone error",
      "no-content /plain/resources/none error",
      "unknown-tool /plain/options/nobody warning",
    ]);
    const { tools, resources, prompts } = catalog.contract;
    assert.deepEqual(tools, [], "a tool that is wrongly configured is not offered as it was discovered either");
    assert.deepEqual(resources, [{ uri: "note://all", name: "all", mimeType: "text/markdown" }]);
    assert.deepEqual(prompts, [{ name: "ask" }]);
  });

  it("leaves a tool out that is wrong in whatever way, and the others of its server in", async () => {
    const cases: [tool: object, code: string, pointer: string][] = [
      [{ function: "nobody" }, "unknown-tool", "/function"],
      [{ function: "add", descripton: "x" }, "unknown-field", "/descripton"],
      [{ function: "add", title: 7 }, "wrong-type", "/title"],
      [{ function: "add", arguments: { c: 1 } }, "unknown-argument", "/arguments/c"],
      [{ function: "add", inputSchema: { type: "array" } }, "bad-schema", "/inputSchema"],
      [{ function: "add", inputSchema: { type: "object", $id: "a:b" } }, "bad-schema", "/inputSchema"],
      [{ function: "add", inputSchema: { type: "object", $async: true } }, "bad-schema", "/inputSchema"],
      [{ function: "add", inputSchema: { type: "object", $ref: "a:b" } }, "bad-schema", "/inputSchema"],
      [{ function: "add", outputSchema: { minimum: "1" } }, "bad-schema", "/outputSchema"],
      [{ function: "add", outputSchema: { title: "x".repeat(70_000) } }, "too-large", "/outputSchema"],
      [{ function: "add", annotations: { readOnly: true } }, "unknown-field", "/annotations/readOnly"],
    ];
    for (const [tool, code, pointer] of cases) {
      await hosted.configure({ plain: { auto_discover: true, tools: { wrong: tool, sum: { function: "add" } } } });
      const { problems, contract } = await hosted.catalog("plain");
      assert.deepEqual(told(problems), [`${code} /plain/tools/wrong${pointer} error`]);
      assert.equal(problems[0]!.tool, "wrong");
      const names = contract.tools.map(({ name }) => name);
      assert.deepEqual(names, ["add", "greet", "sum"]);
    }
  });

  it("refuses the whole server where it is about the whole, and no other", async () => {
    await hosted.configure({
      plain: { auto_discvoer: true },
      far: { upstream: "mcp+npx://x" },
      empty: {},
      "a/b": {},
      meta: {},
    });
    const listed = await summariesOf(hosted);
    const states = listed.map(({ name, state, problems }) => [name, state, problems[0]?.code]);
    assert.deepEqual(states, [
      ["a/b", "refused", "bad-name"],
      ["empty", "refused", "missing-definition"],
      ["far", "refused", "no-upstreams"],
      ["meta", "refused", "bad-name"],
      ["plain", "refused", "unknown-field"],
    ]);
    assert.match(listed[4]!.problems[0]!.message, /no field "auto_discvoer"; its fields are definition/);
  });

  it("refuses a renamed field with its new name", async () => {
    await hosted.configure({ plain: { approve: ["add"], keep_calls: "1d" } });
    const [{ state, problems }] = (await summariesOf(hosted)) as [Awaited<ReturnType<typeof summariesOf>>[number]];
    assert.equal(state, "refused");
    assert.deepEqual(rows(problems, "message"), [
      '"approve" is now "consent"; rename the field',
      '"keep_calls" is now "retain_calls"; rename the field',
    ]);
  });

  it("keeps a release addressable with its configuration, in the order in which it was written", async () => {
    const entry = { tools: { greet: { inputSchema: { type: "object", properties: { name: {}, a: {} } } }, add: {} } };
    await hosted.configure({ plain: entry });
    const before = await hosted.catalog("plain");
    await hosted.configure({ plain: { ...entry, description: "Other" } });
    const now = await hosted.catalog("plain");
    assert.notEqual(now.release, before.release);
    const pinned = await hosted.host.release("default", "plain", before.release);
    assert.deepEqual(JSON.stringify(pinned?.contract), JSON.stringify(before.contract));
    await hosted.configure({ plain: entry });
    assert.equal((await hosted.catalog("plain")).release, before.release);
  });

  it("tells two versions of a tool: of what clients see, and of what carries it out", async () => {
    const identities = async (entry: object) => {
      await hosted.configure({ plain: entry });
      const catalog = await hosted.catalog("plain");
      assert.equal(catalog.identity("nobody"), undefined);
      return { add: catalog.identity("add")!, greet: catalog.identity("greet")! };
    };
    const plain = await identities({});
    assert.notDeepEqual(plain.add, plain.greet);
    const described = await identities({ auto_discover: true, tools: { add: { description: "Sums" } } });
    assert.deepEqual(described.greet, plain.greet);
    assert.notEqual(described.add.contract, plain.add.contract);
    assert.equal(described.add.implementation, plain.add.implementation);
    const optioned = await identities({ options: { add: { exact: true } } });
    assert.equal(optioned.add.contract, plain.add.contract);
    assert.notEqual(optioned.add.implementation, plain.add.implementation);
    assert.deepEqual(optioned.greet, plain.greet);
    await hosted.configure({});
    await hosted.define("plain", DEFINITION.replace("a + b", "b + a"));
    const changed = (await hosted.catalog("plain")).identity("add")!;
    assert.equal(changed.contract, plain.add.contract);
    assert.notEqual(changed.implementation, plain.add.implementation);
  });
});
