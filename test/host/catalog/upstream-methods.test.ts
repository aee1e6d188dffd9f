import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { call, modern, request, post } from "../../support/berth.ts";
import { berth as run } from "../../support/commands.ts";
import { host, scripted, tool, type Script } from "../../support/hosted-upstreams.ts";

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

describe("an upstream that advertises methods and does not have them", () => {
  for (const era of ["legacy", "modern"] as const) {
    it(`serves what works of it, and says what does not on its page and in inspect (${era})`, async (t) => {
      const { uri } = scripted(t, FEW, era);
      const berth = await host(t, { few: { upstream: uri } });
      assert.equal((await call(`${berth.url}/mcp/few`, "echo")).content[0].text, "fine");
      const { body } = await apiOf(berth).send("GET", "/servers");
      const said: [string, string][] = body.servers[0].problems.map(({ code, message }: Record<string, string>) => [
        code,
        message,
      ]);
      const unheard = era === "legacy" ? "logging/setLevel" : "subscriptions/listen";
      assert.deepEqual(said, [
        ["method-missing", `It advertises ${unheard} but does not know that method; it is left out.`],
        ["method-missing", "It advertises resources/list but does not know that method; it is left out."],
        [
          "method-failed",
          "prompts/list fails and is left out: The upstream answered with an error: prompts/list: No database (-32000)",
        ],
      ]);
      const page = await (await fetch(`${berth.url}/mcp/meta/few`, { headers: { Accept: "text/html" } })).text();
      for (const [, message] of said) assert.ok(page.includes(message), message);
    });
  }

  it("is inspected all the same", async (t) => {
    const { code, stdout, stderr } = await run(["inspect", scripted(t, FEW).uri]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /Tools \(1\)\n {2}echo\(\)/);
    assert.match(stdout, /warning: It advertises resources\/list but does not know that method/);
    assert.match(stdout, /error: prompts\/list fails and is left out: .*No database/);
  });

  it("is refused with the reason where no list of it works", async (t) => {
    const none = { capabilities: { tools: {} }, answers: {} };
    const berth = await host(t, { none: { upstream: scripted(t, none).uri } });
    const { error } = await call(`${berth.url}/mcp/none`, "echo");
    assert.match(error.message, /tools\/list: Method not found/);
  });

  it("keeps its tools where a list fails that once was there: it is looked at again at the next start", async (t) => {
    const { uri, write } = scripted(t, { ...FEW, answers: { ...FEW.answers, "resources/list": RESOURCES } });
    const berth = await host(t, { few: { upstream: uri } }, { BERTH_UPSTREAM_IDLE_MS: "1" });
    const url = `${berth.url}/mcp/few`;
    const listed = async (): Promise<number> =>
      (await post(url, request("resources/list", {}))).body.result.resources.length;
    await call(url, "echo");
    assert.equal(await listed(), 1);
    write(FEW);
    await waitIdle(berth);
    assert.match(
      (await call(url, "echo")).content[0].text,
      /^The upstream cannot be started or reached: .*resources\/list: Method not found/,
    );
    assert.equal(await listed(), 1);
    write({ ...FEW, answers: { ...FEW.answers, "resources/list": RESOURCES } });
    assert.equal((await call(url, "echo")).content[0].text, "fine");
  });
});

const RESOURCES = { result: { resources: [{ uri: "test://one", name: "one" }] } };

async function waitIdle(berth: { url: string }): Promise<void> {
  while ((await apiOf(berth).send("GET", "/servers/few/upstream")).body.state === "running") {
    await modern(`${berth.url}/mcp/few`, "tools/list");
  }
}
