import { strict as assert } from "node:assert";
import { spawnSync } from "node:child_process";
import { closeSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { call } from "../support/berth.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { berthInSuite, folderWith } from "../support/suite.ts";

/** An upstream with one tool, which reports where its descriptors lead. */
const upstream = `
import { readdirSync, readlinkSync } from "node:fs";
import { createInterface } from "node:readline";
const whither = (each) => { try { return each + " " + readlinkSync("/proc/self/fd/" + each); } catch { return each; } };
const results = {
  initialize: (params) => ({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "d", version: "1" } }),
  "tools/list": () => ({ tools: [{ name: "descriptors", inputSchema: { type: "object" } }] }),
  "tools/call": () => ({ content: [{ type: "text", text: readdirSync("/proc/self/fd").map(whither).join("\\n") }] }),
};
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const result = results[method]?.(params);
  const answer = result ? { result } : { error: { code: -32601, message: "none" } };
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...answer }) + "\\n");
});
`;
const script = `#!/bin/sh
# Tells where its descriptors lead.
# @noargs
for each in /proc/self/fd/*; do echo "\${each##*/} $(readlink "$each")"; done
cat <&9 || true
`;

describe("descriptors that were left open to Berth", { skip: process.platform !== "linux" && "needs /proc" }, () => {
  const folder = folderWith({ "upstream.mjs": upstream });
  const secret = join(folder, "of-the-operator");
  writeFileSync(secret, "the operator's own", { mode: 0o600 });
  const descriptor = openSync(secret, "r+");
  let berth: ServeProcess;
  const sources = berthInSuite({
    texts: { "listing.sh": script },
    mcps: { others: { upstream: `mcp+node://${join(folder, "upstream.mjs")}` } },
  });
  before(async () => {
    const args = ["--port", "0", "--data", join(folder, "data"), "--image", join(sources.folder, "boot")];
    berth = await ServeProcess.start(args, {}, { 9: descriptor, 20: descriptor, 200: descriptor });
  });
  after(async () => {
    await berth.end("SIGTERM");
    closeSync(descriptor);
  });

  it("reach no script", async () => {
    const { content } = await call(`${berth.url}/mcp/listing`, "listing", {});
    const { text } = content[0] as { text: string };
    assert.match(text, /^1 (?:socket|pipe):/m);
    assert.doesNotMatch(text, /of-the-operator|operator's own/);
    assert.doesNotMatch(text, /^(?:9|20|200) /m);
  });

  it("reach no hosted server", async () => {
    const { content } = await call(`${berth.url}/mcp/others`, "descriptors", {});
    const { text } = content[0] as { text: string };
    assert.match(text, /^1 socket:/m);
    assert.doesNotMatch(text, /of-the-operator/);
  });

  it("are still there where a command line names them", () => {
    const code = `
      import { closeInherited } from ${JSON.stringify(new URL("../../src/processes/inherited-descriptors.js", import.meta.url).href)};
      import { readFileSync, readdirSync } from "node:fs";
      closeInherited(["restore", "/dev/fd/63"]);
      console.log(readFileSync("/dev/fd/63", "utf8"), readdirSync("/proc/self/fd").includes("64"));
    `;
    const stdio = Array.from({ length: 65 }, (_, each) => (each < 3 ? "pipe" : each >= 63 ? descriptor : "ignore"));
    const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", code], { stdio });
    assert.equal(stdout.toString(), "the operator's own false\n", stderr.toString());
  });
});
