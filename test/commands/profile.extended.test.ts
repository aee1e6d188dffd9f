import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { homeOf } from "../support/profile-home.ts";
import { fixtures, installed } from "../support/upstreams.ts";

test("the drift of context7 1.0.33 to 2.0.0 is told and followed, tool and argument (J6, J7)", async (t) => {
  const home = await homeOf(t);
  const uri = (version: string): string => installed(`context7-${version}/dist/index.js`);
  assert.equal((await home.run(["create", "context7", "--from", uri("1.0.33")])).code, 0);
  await home.edit("context7", "_meta", { uri: uri("2.0.0") });
  const asked = await home.run(["diff", "@context7"]);
  assert.match(asked.stdout, /\n {2}- The tool "get-library-docs" is now called "query-docs": [^\n]* \(breaking\)\n/);
  assert.match(asked.stdout, /Tool 'resolve-library-id': "query" is new and required: [^\n]* \(breaking\)\n/);
  const updated = await home.run(["update", "@context7", "--yes"]);
  assert.match(updated.stdout, /Let the tool "get-library-docs" call "query-docs" instead of "get-library-docs"/);
  const { tool, parameters } = await home.read("context7", "get-library-docs");
  assert.deepEqual([tool, Object.keys(parameters as object)], ["query-docs", ["libraryId", "query"]]);
});

test("profiles of real servers are created, valid, up to date and without difference (J4, J5, J7)", async (t) => {
  const home = await homeOf(t);
  const servers: [string, string][] = [
    ["files", `${installed("@modelcontextprotocol/server-filesystem/dist/index.js")}?arg=${fixtures}`],
    ["memory", installed("@modelcontextprotocol/server-memory/dist/index.js")],
    ["context7-old", installed("context7-1.0.33/dist/index.js")],
    ["context7", installed("@upstash/context7-mcp/dist/index.js")],
    ["playwright-old", installed("playwright-0.0.56/cli.js")],
    ["playwright", installed("playwright-0.0.76/cli.js")],
    ["notes", `mcp+python://${join(fixtures, "notes.py")}`],
  ];
  for (const [name, uri] of servers) {
    const created = await home.run(["create", name, "--from", uri]);
    assert.equal(created.code, 0, created.stderr);
    assert.equal((await home.run(["validate", `@${name}`])).stdout.split("\n")[0], `@${name}: valid`);
    assert.match((await home.run(["update", `@${name}`])).stdout, /No changes\. The profile is up to date\.\n$/);
    assert.match((await home.run(["diff", `@${name}`])).stdout, /\nNo changes\.\n/);
  }
  const names = (await home.run(["list", "--format", "ndjson"])).records.map(({ name }) => name);
  assert.deepEqual(names, servers.map(([name]) => name).sort());
});

test("the drift of playwright 0.0.70 to 0.0.76 is followed in examples, arguments and queries (J6, J7)", async (t) => {
  const home = await homeOf(t);
  const uri = (version: string): string => installed(`playwright-${version}/cli.js`);
  assert.equal((await home.run(["create", "browser", "--from", uri("0.0.70")])).code, 0);
  await home.edit("browser", "_meta", { uri: uri("0.0.76") });
  await home.edit("browser", "browser_click", {
    examples: [{ input: { element: "Save", ref: "e2" } }],
    tested_with: ["element=Save&ref=e2"],
  });
  assert.equal((await home.run(["validate", "@browser"])).code, 1);
  assert.equal((await home.run(["update", "@browser", "--yes", "--no-test"])).code, 0);
  const { examples, tested_with: tested, parameters } = await home.read("browser", "browser_click");
  assert.deepEqual(
    [examples, tested, "target" in (parameters as object), "ref" in (parameters as object)],
    [[{ input: { element: "Save", target: "e2" } }], ["element=Save&target=e2"], true, false],
  );
  assert.equal((await home.read("browser", "browser_run_code"))["tool"], "browser_run_code_unsafe");
  assert.equal((await home.run(["validate", "@browser"])).code, 0);
});
