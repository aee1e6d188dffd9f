import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test, type TestContext } from "node:test";
import type { Json, JsonObject } from "../../../src/lib/json.ts";
import { modern, post, request, type Reply } from "../../support/berth.ts";
import { scripted } from "../../support/hosted-upstreams.ts";
import { berthFor } from "../../support/suite.ts";

const NOTES = "/** Adds. */ export function add(a: number, b: number) { return a + b; }\n";
const SKILL = "---\nname: tidy\ndescription: Puts notes in order.\n---\n";
const URI = "skill://notes/tidy/SKILL.md";
const ZEROS = `sha256:${"0".repeat(64)}`;
const X = `sha256:${createHash("sha256").update("x").digest("hex")}`;

const env = { BERTH_UPSTREAM_PROGRAMS: "on" };

async function ask(url: string, method: string, params: Record<string, unknown> = {}): Promise<Reply["body"]> {
  const headers = { "Mcp-Name": method === "resources/read" ? String(params["uri"]) : "" };
  const { body } = await modern(url, method, params, headers);
  return body.result ?? body.error;
}

test("a hosted server's skills are those that it has: entries, files, folders and the extension, in both eras", async (t) => {
  const beside = { "notes.skills/tidy/SKILL.md": SKILL, "notes.skills/tidy/a/b.png": Uint8Array.of(0, 255) };
  const own = await berthFor(t, { texts: { "notes.ts": NOTES }, beside });
  const berth = await berthFor(t, { mcps: { hosted: { upstream: `mcp+${own.url}/mcp/notes` } }, env });
  for (const path of ["/mcp/hosted", "/mcp"]) {
    const [direct, through] = [`${own.url}/mcp/notes`, `${berth.url}${path}`];
    const same = async (method: string, params: Record<string, unknown>, part: string): Promise<void> =>
      assert.deepEqual((await ask(through, method, params))[part], (await ask(direct, method, params))[part], method);
    await same("skills/list", {}, "skills");
    await same("skills/get", { uri: URI }, "skill");
    for (const uri of [URI, "skill://notes/tidy/a/b.png"]) await same("resources/read", { uri }, "contents");
    await same("resources/directory/read", { uri: "skill://notes/tidy" }, "resources");
    const declared = (await ask(direct, "server/discover")).capabilities.extensions;
    assert.deepEqual((await ask(through, "server/discover")).capabilities.extensions, declared);
    const hello = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
    assert.deepEqual((await post(through, request("initialize", hello))).body.result.capabilities.extensions, declared);
  }
});

/** A server with these skills, each file of which holds an "x". */
function upstreamOf(t: TestContext, skills: readonly Json[]): string {
  return scripted(t, {
    capabilities: { tools: {}, resources: {}, extensions: { "io.modelcontextprotocol/skills": {} } },
    answers: {
      "tools/list": { result: { tools: [{ name: "add", inputSchema: { type: "object" } }] } },
      "resources/list": { result: { resources: [] } },
      "skills/list": { result: { skills: [...skills] } },
      "resources/read": { result: { contents: [{ uri: "skill://good/SKILL.md", text: "x" }] } },
    },
  }).uri;
}

const entry = (name: string, more: JsonObject = {}): JsonObject => {
  const uri = `skill://${name}/SKILL.md`;
  return { uri, frontmatter: { name, description: "d" }, resources: [{ uri, digest: X, size: 1 }], ...more };
};

test("entries that hosts must refuse are left out with a problem, and the others are listed", async (t) => {
  const file = { uri: "skill://long/SKILL.md", digest: ZEROS, size: 1 };
  const own = [{ ...file, uri: "skill://outside/SKILL.md" }];
  const upstream = upstreamOf(t, [
    entry("good", { future: { field: 1 } }),
    entry("dynamic", { resources: "dynamic" }),
    entry("none", { resources: null }),
    entry("long", { resources: Array.from({ length: 513 }, () => file) }),
    entry("outside", { resources: [...own, { ...file, uri: "file:///etc/passwd" }] }),
    entry("digest", { resources: [{ uri: "skill://digest/SKILL.md", digest: "sha256:x", size: 1 }] }),
    entry("size", { resources: [{ uri: "skill://size/SKILL.md", digest: ZEROS, size: -1 }] }),
    entry("renamed", { frontmatter: { name: "other", description: "d" } }),
    entry("partial", { resources: [{ uri: "skill://partial/more.md", digest: ZEROS, size: 1 }] }),
    entry("untold", { frontmatter: { name: "untold" } }),
    entry("good"),
    7,
  ]);
  const berth = await berthFor(t, { mcps: { skilled: { upstream } }, env });
  const url = `${berth.url}/mcp/skilled`;
  const { skills } = await ask(url, "skills/list");
  assert.deepEqual(skills, [entry("good", { future: { field: 1 } }), entry("dynamic", { resources: "dynamic" })]);
  const read = await ask(url, "resources/read", { uri: "skill://good/SKILL.md" });
  assert.equal(read.contents?.[0].text, "x", JSON.stringify(read));
  assert.equal((await ask(url, "skills/get", { uri: "skill://long/SKILL.md" })).code, -32602);
  const page = await (await fetch(`${berth.url}/mcp/meta/skilled`, { headers: { Accept: "text/html" } })).text();
  for (const reason of [
    "it has more than 512 files",
    "one of its files has no URI in its folder, no digest or no size",
    "its URI does not end in /other/SKILL.md",
    "its frontmatter has no name or no description",
    "its files are not listed",
    "its SKILL.md is not among its files",
  ]) {
    assert.ok(page.includes(reason), reason);
  }
});

test("a skill that two servers give is offered by neither at /mcp", async (t) => {
  const upstream = upstreamOf(t, [entry("good")]);
  const three = { upstream: upstreamOf(t, [entry("alone")]) };
  const berth = await berthFor(t, { mcps: { one: { upstream }, two: { upstream }, three }, env });
  for (const server of ["one", "two", "three"]) {
    assert.equal((await ask(`${berth.url}/mcp/${server}`, "skills/list")).skills.length, 1, server);
  }
  // All three are known at /mcp from then on.
  assert.deepEqual((await ask(`${berth.url}/mcp`, "skills/list")).skills, [entry("alone")]);
  const { code } = await ask(`${berth.url}/mcp`, "skills/get", { uri: "skill://good/SKILL.md" });
  assert.equal(code, -32602);
});
