import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { request, post } from "../../support/berth.ts";
import { changing, host, hostedServer, scripted, tool, type Script } from "../../support/hosted-upstreams.ts";
import { berthInSuite } from "../../support/suite.ts";
import { until } from "../../support/until.ts";

const ECHO = { result: { tools: [tool("echo", "Echoes.")] } };
const SAID = { result: { content: [{ type: "text", text: "fine" }] } };
const ALL: Script["capabilities"] = { tools: { listChanged: true }, resources: {}, prompts: {}, logging: {} };

/** Has only tools, whatever it advertises. */
const FEW: Script = {
  capabilities: ALL,
  answers: {
    "tools/list": ECHO,
    "tools/call echo": SAID,
    "prompts/list": { error: { code: -32000, message: "No database" } },
  },
};
const RESOURCES = { result: { resources: [{ uri: "test://one", name: "one" }] } };
const ALL_LISTS = { ...FEW, answers: { ...FEW.answers, "resources/list": RESOURCES } };

describe("an upstream that advertises methods and does not have them", () => {
  const changes = scripted({ after }, ALL_LISTS);
  const none = scripted({ after }, { capabilities: { tools: {} }, answers: {} });
  const berth = berthInSuite({
    mcps: {
      legacy: { upstream: scripted({ after }, FEW).uri },
      modern: { upstream: scripted({ after }, FEW, "modern").uri },
      changes: { upstream: changes.uri },
      none: { upstream: none.uri },
    },
  });

  for (const era of ["legacy", "modern"] as const) {
    it(`serves what works of it, and reports the rest on its page (${era})`, async () => {
      const server = hostedServer(berth, era);
      assert.equal(await server.call("echo"), "fine");
      const { body } = await apiOf(berth).send("GET", "/servers");
      const { problems } = body.servers.find(({ name }: { name: string }) => name === server.name);
      const [what, unheard] =
        era === "legacy" ? ["Log messages", "logging/setLevel"] : ["Changes", "subscriptions/listen"];
      const missing = `It advertises ${unheard} but does not know that method; it is left out.`;
      const expected = [
        ["method-missing", `${what} are not reported: ${missing}`],
        ["method-missing", "It advertises resources/list but does not know that method; it is left out."],
        [
          "method-failed",
          "prompts/list fails and is left out: The upstream answered with an error: prompts/list: No database (-32000)",
        ],
      ];
      assert.deepEqual(
        problems.map(({ code, message }: Record<string, string>) => [code, message]),
        expected,
      );
      const page = await server.page();
      for (const [, message] of expected) assert.ok(page.includes(message!), message);
    });
  }

  it("is refused with the reason where none of its lists works", async () => {
    assert.match(await hostedServer(berth, "none").call("echo"), /tools\/list: Method not found/);
  });

  it("keeps its tools where a list fails that worked before, which is tried again at the next start", async () => {
    const server = hostedServer(berth, "changes");
    assert.equal(await server.call("echo"), "fine");
    const listed = async (): Promise<number> =>
      (await post(server.url, request("resources/list", {}))).body.result.resources.length;
    assert.equal(await listed(), 1);
    changes.write(FEW);
    await server.idle();
    assert.match(
      await server.call("echo"),
      /^The upstream cannot be started or reached: .*resources\/list: Method not found/,
    );
    assert.equal(await listed(), 1);
    changes.write(ALL_LISTS);
    assert.equal(await server.call("echo"), "fine");
  });
});

describe("an upstream that does not acknowledge a subscription", () => {
  const modern = { era: "modern", manner: "late" } as const;

  it("serves meanwhile, and is looked at again when it does", async (t) => {
    const upstream = changing(t, [tool("first", "First.")], modern);
    const env = { BERTH_UPSTREAM_CALL_MS: "100000000" };
    const server = hostedServer(await host(t, { server: { upstream: upstream.uri } }, env));
    assert.equal(await server.call("first"), "called First.");
    upstream.offer([tool("first", "First."), tool("second", "Second.")]);
    assert.deepEqual(await server.tools(), ["first"], "its change is not reported");
    upstream.acknowledge();
    await until(async () => (await server.tools()).length === 2);
  });

  it("has a problem when it never does", async (t) => {
    const upstream = changing(t, [tool("first", "First.")], modern);
    const env = { BERTH_UPSTREAM_CALL_MS: "1500" };
    const server = hostedServer(await host(t, { server: { upstream: upstream.uri } }, env));
    await until(async () => (await server.call("first")) === "called First.");
    const told = /Changes are not reported: subscriptions\/listen fails and is left out: The upstream took too long/;
    await until(async () => told.test(await server.problems()));
    assert.match(await server.page(), told);
    assert.equal(await server.call("first"), "called First.");
  });
});
