import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { pino } from "pino";
import { clock } from "../../../src/lib/clock.ts";
import type { Json, JsonObject } from "../../../src/lib/json.ts";
import { apiOf } from "../../support/api.ts";
import { request, post } from "../../support/berth.ts";
import {
  addUpstream,
  changing,
  host,
  hostedServer,
  scripted,
  tool,
  type Script,
} from "../../support/hosted-upstreams.ts";
import { lowerInSuite } from "../../support/lower-in-suite.ts";
import { rows } from "../../support/rows.ts";
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
        [
          "method-missing",
          "It advertises resources/list but does not know that method; only entries listed before are used.",
        ],
        [
          "method-failed",
          "prompts/list fails; only entries listed before are used: The upstream answered with an error: " +
            "prompts/list: No database (-32000)",
        ],
      ];
      assert.deepEqual(
        rows(problems, "code", "message"),
        expected.map((each) => each.join(" ")),
      );
      const page = await server.page();
      for (const [, message] of expected) assert.ok(page.includes(message!), message);
    });
  }

  it("is served without entries where none of its lists works", async () => {
    const server = hostedServer(berth, "none");
    assert.deepEqual(await server.tools(), []);
    assert.match(await server.problems(), /"state":"ready".*does not know that method; only entries listed before/);
    assert.match(await server.call("echo"), /Unknown tool: echo/);
  });

  it("keeps the entries of a list that fails later, and requests it again until it works", async () => {
    const server = hostedServer(berth, "changes");
    assert.equal(await server.call("echo"), "fine");
    const listed = async (): Promise<string[]> =>
      rows((await post(server.url, request("resources/list", {}))).body.result.resources, "name");
    assert.deepEqual(await listed(), ["one"]);
    const failing = { error: { code: -32000, message: "No database" } };
    changes.write({ ...FEW, answers: { ...FEW.answers, "tools/list": failing, "resources/list": failing } });
    await server.idle();
    assert.equal(await server.call("echo"), "fine");
    await until(async () => /tools\/list fails.*resources\/list fails/.test(await server.problems()));
    assert.deepEqual([await listed(), await server.tools()], [["one"], ["echo"]]);
    assert.equal((await server.state()).pending, undefined);
    assert.doesNotMatch(await server.problems(), /is removed/);
    const now = { result: { resources: [...RESOURCES.result.resources, { uri: "test://two", name: "two" }] } };
    changes.write({ ...FEW, answers: { ...FEW.answers, "resources/list": now } });
    await until(async () => {
      clock.leap(10_000);
      return (await listed()).length === 2;
    });
    assert.doesNotMatch(await server.problems(), /tools\/list|resources\/list/);
  });
});

/** Tools named by letters, and the cursor of the next page. */
const page = (names: string, nextCursor: Json = null): JsonObject => ({
  result: { tools: Array.from(names, (name) => tool(name, "A tool.")), nextCursor },
});
const LONG = {
  description: "A long tool.",
  inputSchema: { type: "object", examples: Array.from({ length: 300 }, () => ({})) },
};
const DEGRADED: Readonly<Record<string, readonly [answers: Script["answers"], tools: string, problem: RegExp]>> = {
  "a failing resources/list": [{ "tools/list": page("ab") }, "ab", /resources\/list/],
  "all lists failing": [
    { "tools/list": { error: { code: 1, message: "No." } } },
    "",
    /tools\/list fails.*resources\/list/,
  ],
  "too many values": [
    { "tools/list": { result: { tools: Array.from("ab", (name) => ({ ...LONG, name })) } } },
    "a",
    /\\"b\\" is left out: with it the list has more than 500 values/,
  ],
  "too many entries": [{ "tools/list": page("abcdefghijk") }, "abcdefghij", /end: it has more than 10 entries/],
  "too many pages": [
    {
      "tools/list": page("a", 1),
      "tools/list 1": page("b", 2),
      "tools/list 2": page("c", 3),
      "tools/list 3": page("d"),
    },
    "abc",
    /end: it has more than 3 pages/,
  ],
  "a failing second page": [
    { "tools/list": page("a", 2), "tools/list 2": { error: { code: 1, message: "No." } } },
    "a",
    /tools\/list fails/,
  ],
};

describe("a list of an upstream that fails or exceeds a limit", () => {
  lowerInSuite({ upstreamListItems: 10, upstreamListPages: 3, contractValues: 500 });
  const capabilities = { tools: {}, resources: {} };
  const scripts = Object.values(DEGRADED).map(([answers]) => scripted({ after }, { capabilities, answers }));
  const lines: string[] = [];
  const berth = berthInSuite({
    mcps: Object.fromEntries(scripts.map(({ uri }, index) => [`boot${index}`, { upstream: uri }])),
    env: { BERTH_UPSTREAM_PROGRAMS: "on" },
    log: pino({ level: "warn" }, { write: (line) => void lines.push(line) }),
  });

  for (const [index, [what, [, tools, problem]]] of Object.entries(DEGRADED).entries()) {
    it(`costs that list or the entries beyond, at boot and when saved: ${what}`, async () => {
      const atBoot = hostedServer(berth, `boot${index}`);
      const saved = await addUpstream(berth, scripts[index]!.uri);
      for (const server of [atBoot, saved]) {
        assert.deepEqual(await server.tools(), Array.from(tools));
        assert.match(await server.problems(), problem);
        assert.doesNotMatch(await server.problems(), /"severity":"error"/);
        const logged = lines.filter((line) => line.includes(`"server":"${server.name}"`));
        assert.match(logged.join("\n"), problem);
      }
    });
  }

  it("is read to its end by numbers, and by texts that look like numbers", async (t) => {
    const answers = { "tools/list": page("a", 2), "tools/list 2": page("b", "2"), 'tools/list "2"': page("c", "") };
    const server = await addUpstream(berth, scripted(t, { capabilities: { tools: {} }, answers }).uri);
    assert.deepEqual(await server.tools(), ["a", "b", "c"]);
    assert.match(await server.problems(), /"problems":\[\]/);
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
    const told = /Changes are not reported: subscriptions\/listen fails.*The upstream took too long/;
    await until(async () => told.test(await server.problems()));
    assert.match(await server.page(), told);
    assert.equal(await server.call("first"), "called First.");
  });
});
