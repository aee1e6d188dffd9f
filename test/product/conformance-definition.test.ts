import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import type { InputRequest } from "../../src/executor/executor.ts";
import type { CallResult, Catalog, InputRequired } from "../../src/host/catalog/catalog.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { openHosted, type Hosted } from "../support/host.ts";
import { until } from "../support/until.ts";

/** The answers of the suite's client. */
function answerTo({ method, params }: InputRequest): JsonObject {
  if (method === "roots/list") return { roots: [{ uri: "file:///home", name: "Home" }] };
  if (method === "sampling/createMessage")
    return { role: "assistant", content: { type: "text", text: "Hello there!" }, model: "m", stopReason: "endTurn" };
  const { properties } = params["requestedSchema"] as { properties: Record<string, { type: string }> };
  const content = Object.entries(properties).map(([name, { type }]) => [name, type === "boolean" ? true : "Alice"]);
  return { action: "accept", content: Object.fromEntries(content) as JsonObject };
}

describe("the definition that the conformance suite tests", () => {
  let hosted: Hosted;
  let catalog: Catalog;
  before(async () => {
    hosted = await openHosted({ conformance: readFileSync("test/fixtures/conformance.ts", "utf8") });
    catalog = await hosted.catalog("conformance");
  });
  after(() => hosted.close());

  const talk = async (name: string, args: JsonObject = {}) => {
    const client = { capabilities: { elicitation: {}, sampling: {}, roots: {} } };
    const answers: JsonObject = {};
    for (let rounds = 1; rounds <= 4; rounds++) {
      const result: CallResult | InputRequired = await catalog.tool(name)!.call(args, { answers, client });
      if (!("inputRequests" in result)) return { result, rounds: rounds - 1, text: JSON.stringify(result.content) };
      for (const [key, request] of Object.entries(result.inputRequests)) answers[key] = answerTo(request);
    }
    return assert.fail(`${name} asks for ever`);
  };

  it("has no problem, and describes all that it offers", () => {
    assert.deepEqual(catalog.problems, []);
    const { tools, resources, resourceTemplates, prompts } = catalog.contract;
    for (const { name, description } of [...tools, ...resources, ...resourceTemplates, ...prompts]) {
      assert.ok(description, `${name} has no description`);
      assert.match(name, /^[A-Za-z0-9_./-]{1,64}$/);
    }
    assert.deepEqual([tools[0]?.name, tools.length <= 50], ["test_simple_text", true]);
  });

  it("asks as often as each tool has to, and ends with what it was told", async () => {
    const expected: Record<string, [rounds: number, text: RegExp]> = {
      test_input_required_result_elicitation: [1, /Hello, Alice!/],
      test_input_required_result_sampling: [1, /Hello there!/],
      test_input_required_result_list_roots: [1, /file:\/\/\/home/],
      test_input_required_result_request_state: [1, /state-ok/],
      test_input_required_result_tampered_state: [1, /state-ok/],
      test_input_required_result_multiple_inputs: [1, /Hello there!.*Alice.*1 roots/],
      test_input_required_result_multi_round: [2, /Alice likes Alice/],
      test_input_required_result_capabilities: [1, /Alice.*Hello there!/],
      test_streaming_elicitation: [1, /action=accept/],
      confirm_delete: [1, /accept/],
      multi_input: [1, /accept, accept/],
      test_tool_with_task: [1, /Hello, Alice!/],
      test_missing_capability: [1, /Hello there!/],
    };
    for (const [name, [rounds, text]] of Object.entries(expected)) {
      const talked = await talk(name, name === "confirm_delete" ? { filename: "a" } : {});
      assert.equal(talked.rounds, rounds, name);
      assert.match(talked.text, text, name);
    }
  });

  it("asks only for what its client can do", async () => {
    const tool = catalog.tool("test_input_required_result_capabilities")!;
    const result = await tool.call({}, { client: { capabilities: { sampling: {} } } });
    const methods = "inputRequests" in result && Object.values(result.inputRequests).map(({ method }) => method);
    assert.deepEqual(methods, ["sampling/createMessage"]);
  });

  it("publishes a schema of its own and a header as they are written, and checks arguments by them", async () => {
    const tool = catalog.tool("json_schema_2020_12_tool")!;
    const { $schema, $defs, allOf, if: condition } = tool.contract.inputSchema as Record<string, unknown>;
    assert.equal($schema, "https://json-schema.org/draft/2020-12/schema");
    assert.deepEqual(Object.keys($defs as object), ["address"]);
    assert.ok(allOf && condition);
    assert.match(JSON.stringify(await tool.call({ contactMethod: "phone", phone: "1" }, {})), /called with/);
    assert.match(JSON.stringify(await tool.call({ contactMethod: "phone", email: "a" }, {})), /needs the property/);
    const { properties } = catalog.tool("test_header")!.contract.inputSchema;
    assert.equal((properties as Record<string, JsonObject>)["region"]!["x-mcp-header"], "Region");
  });

  it("has jobs that take their time, fail as tools and fail as requests", async () => {
    const supports = ["greet", "slow_compute", "failing_job", "protocol_error_job", "test_tool_with_task"];
    assert.deepEqual(
      supports.map((name) => catalog.tool(name)!.task),
      [
        undefined,
        { required: false, deferred: false },
        { required: true, deferred: false },
        { required: false, deferred: false },
        { required: true, deferred: true },
      ],
    );
    assert.match((await talk("slow_compute", { seconds: 0, label: "x" })).text, /x took 0 seconds/);
    assert.equal((await talk("failing_job")).result.isError, true);
    await assert.rejects(talk("protocol_error_job"), { code: "guest_failed" });
  });

  it("lets go of the connection before it has a result", async () => {
    const events: string[] = [];
    const onCloseStream = (): void => void events.push("closed");
    await catalog.tool("test_reconnection")!.call({}, { onCloseStream });
    assert.deepEqual(events, ["closed"]);
  });

  it("changes its lists when it is told to", async () => {
    const changes: string[] = [];
    const end = hosted.host.watch("default", "conformance", ({ kind }) => void changes.push(kind));
    for (const name of ["test_trigger_tool_change", "test_trigger_prompt_change", "test_update_watched_resource"]) {
      const current = await hosted.catalog("conformance");
      const result = await current.tool(name)!.call({}, {});
      assert.ok("content" in result && !result.isError, JSON.stringify(result));
    }
    await until(() => changes.length >= 3, "all of them are told");
    assert.deepEqual(changes, ["tools", "prompts", "resource"]);
    end();
  });
});
