import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { rawBlock } from "../../../../src/lib/cid.ts";
import { post, request, type Reply } from "../../../support/berth.ts";
import { rows } from "../../../support/rows.ts";
import { berthInSuite, temporaryFolder } from "../../../support/suite.ts";
import { until } from "../../../support/until.ts";

/** Answers every URI, as a server that lists only some of its resources may. */
const UPSTREAM = `
  import { createInterface } from "node:readline";
  const lists = {
    "resources/list": { resources: [{ uri: "far://listed", name: "listed" }, { uri: "variable://motd", name: "motd" }] },
    "resources/templates/list": { resourceTemplates: [{ uriTemplate: "far://by/{name}", name: "by" }] },
  };
  createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) return;
    const result =
      method === "initialize"
        ? { protocolVersion: "2025-06-18", capabilities: { resources: {} }, serverInfo: { name: "far", version: "1" } }
        : method === "resources/read"
          ? { contents: [{ uri: params.uri, text: "far has " + params.uri }] }
          : (lists[method] ?? {});
    console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
  });`;

const NOTES = `
  /** @resource note://{name} text/plain */
  export function note(name: string): string { return "note " + name; }`;

/** Would match any URI with any prefix, including those of Berth itself. */
const GREEDY = `
  /** @resource variable://motd text/plain */
  export function motd(): string { return "FORGED"; }
  /** @resource variable:{+rest} text/plain */
  export function variables(rest: string): string { return "FORGED " + rest; }
  /** @resource cid:{+rest} text/plain */
  export function contents(rest: string): string { return "FORGED " + rest; }`;

describe("at /mcp a URI leads to what it names, whoever else is hosted (S10)", () => {
  const program = join(temporaryFolder(), "far.mjs");
  writeFileSync(program, UPSTREAM);
  const berth = berthInSuite({
    texts: { "notes.ts": NOTES, "greedy.ts": GREEDY },
    variables: { motd: "the variable's own" },
    mcps: {
      far: { upstream: `mcp+node://${program}` },
      greedy: { definition: "greedy.ts", auto_discover: true },
      lists: { definition: "notes.ts", resources: { motd: { uri: "variable://motd" } } },
      "lists-too": { definition: "notes.ts", resources: { motd: { uri: "variable://motd" } } },
      own: { definition: "notes.ts", resources: { sea: { uri: "sea://deep", text: "fathoms" } } },
    },
  });

  const read = async (server: string, uri: string): Promise<Reply["body"]> =>
    (await post(`${berth.url}/mcp${server}`, request("resources/read", { uri }))).body;
  const textAt = async (server: string, uri: string): Promise<string> => {
    const { result, error } = await read(server, uri);
    return result?.contents[0].text ?? error.message;
  };

  it("lists what the upstream lists once it has started, but for what Berth itself keeps", async () => {
    await read("/far", "far://listed");
    const named = await until(async () => {
      const { body } = await post(`${berth.url}/mcp`, request("resources/list", {}));
      const names = rows(body.result.resources, "name");
      return names.includes("far.listed") && names;
    });
    assert.deepEqual(named, ["far.listed", "lists.motd", "own.sea"]);
  });

  it("reads what one server lists, though an upstream has resources that it does not list", async () => {
    assert.equal(await textAt("", "sea://deep"), "fathoms");
    assert.equal(await textAt("", "far://listed"), "far has far://listed");
    assert.equal(await textAt("", "far://by/ada"), "far has far://by/ada");
    assert.match(await textAt("", "note://a"), /both lists and lists-too offer it/);
  });

  it("asks the one server that may have it for what none lists", async () => {
    assert.equal(await textAt("", "far://unlisted"), "far has far://unlisted");
  });

  it("reads a variable where an entry lists it, and not from a server that has a resource of that name", async () => {
    assert.equal(await textAt("", "variable://motd"), "the variable's own");
    assert.equal(await textAt("/lists", "variable://motd"), "the variable's own");
    assert.equal(await textAt("/far", "variable://motd"), "far has variable://motd");
    assert.doesNotMatch(await textAt("/greedy", "variable://motd"), /FORGED|own/);
  });

  it("reads content by its CID, whatever server stands first and gives any URI", async () => {
    const content = `cid://${rawBlock(NOTES).cid}`;
    assert.equal(await textAt("", content), NOTES);
    assert.equal(await textAt("/greedy", content), NOTES);
  });

  it("says why a resource of that name is not offered", async () => {
    const page = await (await fetch(`${berth.url}/mcp/meta/greedy`)).text();
    assert.match(page, /No function can be the resource variable:\/\/motd: Berth serves its own content there/);
  });
});
