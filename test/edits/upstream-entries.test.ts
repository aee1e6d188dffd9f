import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { apiOf } from "../support/api.ts";
import { call, withStatus } from "../support/berth.ts";
import { changing, dataFolder, host, tool } from "../support/hosted-upstreams.ts";
import { rows } from "../support/rows.ts";
import { berthInSuite } from "../support/suite.ts";
import { hostile } from "../support/upstreams.ts";

const HELLO = tool("hello", "Says hello.", "name");
const OTHER = tool("hello", "Says hello.", "name", "language");
const ASIDE = tool("aside", "Stays as it is.");

describe("a save of entries with upstreams", () => {
  const berth = berthInSuite({ env: { BERTH_UPSTREAM_PROGRAMS: "on" } });
  const api = apiOf(berth);

  it("the review of a new entry says what its server would offer, and saving serves it (J9)", async (t) => {
    const server = changing(t, [HELLO, ASIDE]);
    const entry = JSON.stringify({ upstream: server.uri });
    const { body: review } = await api.send("POST", "/entries/server/review", entry);
    assert.deepEqual(review.problems, []);
    assert.deepEqual(rows(review.servers, "server", "outcome"), ["server added"]);
    assert.equal((await api.send("GET", "/servers/server/upstream")).status, 404, "a review changes nothing");
    assert.equal((await api.put("/entries/server", entry)).status, 201);
    assert.equal((await call(`${berth.url}/mcp/server`, "aside")).content[0].text, "called Stays as it is.");
  });

  it("another version of a server is compared as a definition is, and saved only when that is wanted (J9)", async (t) => {
    const [first, second] = [changing(t, [HELLO, ASIDE]), changing(t, [OTHER, ASIDE])];
    assert.equal((await api.put("/entries/versions", JSON.stringify({ upstream: first.uri }))).status, 201);
    const entry = JSON.stringify({ upstream: second.uri });
    const refused = await api.put("/entries/versions", entry);
    assert.deepEqual([refused.status, refused.body.error.code], [409, "edit_breaking"]);
    const [effect] = refused.body.error.data.review.servers;
    assert.deepEqual([effect.server, effect.outcome], ["versions", "changed"]);
    assert.match(JSON.stringify(effect.changes), /"effect":"breaking".*language/);
    await call(`${berth.url}/mcp/versions`, "hello", { name: "x" });
    assert.deepEqual(second.called(), []);

    await withStatus(200, api.put("/entries/versions", entry, { "Berth-Allow-Breaking": "true" }));
    await call(`${berth.url}/mcp/versions`, "hello", { name: "x", language: "y" });
    assert.deepEqual(second.called(), [OTHER], "whoever saves it has approved what the review showed");
  });

  it("a wrong launcher URI is refused where it stands (J9)", async () => {
    const text = '{\n  "description": "Of others",\n  "upstream": "mcp+npx://left-pad?command"\n}';
    const { body } = await withStatus(422, api.put("/entries/wrong", text));
    const [problem, ...others] = body.error.data.problems;
    assert.deepEqual(others, []);
    assert.deepEqual([problem.line, problem.column, problem.pointer], [3, 15, "/upstream"]);
    assert.match(problem.message, /^"command" has no value.*At character 20 of the launcher URI/);
  });

  it("an entry whose server cannot be started is refused with the reason (J9)", async () => {
    const { status, body } = await api.put("/entries/dies", JSON.stringify({ upstream: hostile("dies at start") }));
    assert.equal(status, 422);
    const [problem] = body.error.data.problems;
    assert.match(problem.message, /ended with exit code 7/);
    assert.match(problem.frame, /^Error: no API key/, "what it wrote says why");
  });

  it("a save starts upstreams side by side", async (t) => {
    const uri = hostile("waits for others", `&arg=${encodeURIComponent(dataFolder(t))}&arg=4`);
    const names = ["one", "two", "three", "four"];
    const mcps = JSON.parse((await api.send("GET", "/variables/mcps")).body.files.mcps as string) as object;
    const added = Object.fromEntries(names.map((name) => [name, { upstream: uri }]));
    const { body } = await withStatus(200, api.put("/variables/mcps", JSON.stringify({ ...mcps, ...added })));
    const told = body.review.servers.map(({ server, outcome }: Record<string, string>) => `${server} ${outcome}`);
    assert.deepEqual(told.sort(), names.map((name) => `${name} added`).sort());
  });

  it("a save does not wait for an upstream that is late, and takes over what it offers when it comes", async (t) => {
    const folder = dataFolder(t);
    const late = JSON.stringify({ upstream: hostile("waits for others", `&arg=${encodeURIComponent(folder)}&arg=3`) });
    const server = changing(t, [HELLO]);
    const berth = await host(t, { known: { upstream: server.uri } }, { BERTH_UPSTREAM_SAVE_MS: "1000" });
    const api = apiOf(berth);
    const { status, body } = await api.put("/entries/late", late);
    assert.equal(status, 201, JSON.stringify(body));
    const [effect] = body.review.servers;
    assert.deepEqual([effect.server, effect.outcome, body.review.breaking], ["late", "starting", false]);
    assert.match(body.review.problems[0].message, /has not answered within 1 s: it is still starting/);
    assert.equal((await api.send("GET", "/servers/late/upstream")).body.state, "starting");

    await call(`${berth.url}/mcp/known`, "hello", { name: "x" });
    const replaced = await api.put("/entries/known", late);
    assert.deepEqual([replaced.status, replaced.body.error.code], [409, "edit_breaking"]);
    const [{ outcome, changes }] = replaced.body.error.data.review.servers;
    assert.equal(outcome, "starting");
    assert.match(
      changes[0].message,
      /What "known" will offer is unknown until it has started, so it may break callers/,
    );
    writeFileSync(join(folder, "enough"), "");
    assert.equal((await call(`${berth.url}/mcp/late`, "echo")).content[0].text, "fine");
  });
});
