import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { modern } from "../../support/berth.ts";
import { startRig, type Offer } from "../../support/mcp-host.ts";
import { threadMs } from "../../support/stopwatch.ts";
import { inSuite } from "../../support/suite.ts";

const TOOLS: Offer = { tools: { echo: () => "echo" } };
const PROMPTS: Offer = { prompts: { greeting: () => "Hello" } };
const RESOURCES: Offer = { resources: { "test://a": "A" } };
const GREETING = { type: "ref/prompt", name: "greeting" };
const TEMPLATES: Offer = { resources: { "notes://{year}/{+title*}{?page}": "A" } };

describe("what a modern server says of itself", () => {
  const rig = inSuite(startRig);

  const discover = async (offer: Offer): Promise<Record<string, unknown>> => {
    rig.host.offer("server", offer);
    return (await modern(rig.url("server"), "server/discover")).body.result;
  };

  it("is said at once of a template that opens braces without end, which an upstream may have", async () => {
    const before = threadMs();
    const { capabilities } = await discover({ resources: { [`test://${"{".repeat(100_000)}`]: "A" } });
    assert.ok("resources" in (capabilities as object));
    assert.ok(threadMs() - before < 2_000, `${threadMs() - before} ms`);
  });

  it("are the capabilities that its contract has, and no others", async () => {
    const listChanged = true;
    const COMPLETED = { ...PROMPTS, completes: { "greeting.topic": ["x"] } };
    const cases: [offer: Offer, capabilities: object][] = [
      [{}, {}],
      [TOOLS, { tools: { listChanged } }],
      [PROMPTS, { prompts: { listChanged } }],
      [RESOURCES, { resources: { subscribe: true, listChanged } }],
      [TEMPLATES, { resources: { subscribe: true, listChanged } }],
      [{ ...TOOLS, pinned: true }, { tools: {} }],
      [{ ...RESOURCES, pinned: true }, { resources: {} }],
      [{ ...PROMPTS, completes: { "greeting.other": ["x"] } }, { prompts: { listChanged } }],
      [COMPLETED, { prompts: { listChanged }, completions: {} }],
      ...["year", "title", "page"].map((variable): [Offer, object] => [
        { ...TEMPLATES, completes: { [`notes://{year}/{+title*}{?page}.${variable}`]: ["x"] } },
        { resources: { subscribe: true, listChanged }, completions: {} },
      ]),
    ];
    for (const [offer, capabilities] of cases) {
      assert.deepEqual((await discover(offer)).capabilities, { ...capabilities, logging: {} });
    }
  });

  it("are its instructions, when it has any", async () => {
    assert.equal((await discover({ ...TOOLS, description: "Say it twice" })).instructions, "Say it twice");
    assert.equal("instructions" in (await discover(TOOLS)), false);
  });

  it("the methods of what it has not do not exist", async () => {
    rig.host.offer("server", {});
    const methods: [method: string, params: Record<string, unknown>][] = [
      ["tools/list", {}],
      ["tools/call", { name: "echo" }],
      ["prompts/list", {}],
      ["prompts/get", { name: "greeting" }],
      ["resources/list", {}],
      ["resources/templates/list", {}],
      ["resources/read", { uri: "test://a" }],
      ["completion/complete", { ref: GREETING, argument: { name: "topic", value: "" } }],
    ];
    for (const [method, params] of methods) {
      const { status, body } = await modern(rig.url("server"), method, params);
      assert.equal(status, 404, method);
      assert.equal(body.error.code, -32601, method);
    }
    rig.host.offer("server", { ...TOOLS, ...PROMPTS, ...RESOURCES, completes: { "greeting.topic": ["x"] } });
    for (const [method, params] of methods) {
      const { status, body } = await modern(rig.url("server"), method, params);
      assert.equal(status, 200, method);
      assert.equal(body.result.resultType, "complete", method);
    }
  });

  it("lists of a pinned release stay fresh for long, others shortly, and what is read not at all", async () => {
    const hintsOf = async (method: string, params = {}): Promise<[number, string]> => {
      const { ttlMs, cacheScope } = (await modern(rig.url("server"), method, params)).body.result;
      return [ttlMs, cacheScope];
    };
    const lists = ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"];
    rig.host.offer("server", { ...TOOLS, ...PROMPTS, ...RESOURCES });
    for (const method of lists) assert.deepEqual(await hintsOf(method), [60_000, "public"], method);
    rig.host.offer("server", { ...TOOLS, ...PROMPTS, ...RESOURCES, pinned: true });
    for (const method of lists) assert.deepEqual(await hintsOf(method), [365 * 24 * 3_600_000, "public"], method);
    assert.deepEqual(await hintsOf("resources/read", { uri: "test://a" }), [0, "private"]);
  });
});
