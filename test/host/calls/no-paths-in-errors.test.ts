import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { pino } from "pino";
import { withoutPaths } from "../../../src/lib/error-mapping.ts";
import { BerthError } from "../../../src/lib/errors.ts";
import { MODERN_META, modern, post, request } from "../../support/berth.ts";
import { berthInSuite, temporaryFolder } from "../../support/suite.ts";
import { bearer, makeToken } from "../../support/tokens.ts";

/** A part of each path that only the log may show. */
const PLACE = "a-place-of-the-host";

const folder = join(temporaryFolder(), PLACE);
mkdirSync(folder);

describe("errors of servers that are programs of the host", () => {
  writeFileSync(join(folder, "ends.mjs"), "process.exit(1);");
  // Its message names its path, too.
  writeFileSync(join(folder, "falls.mjs"), "throw new Error(import.meta.url);");
  symlinkSync(join(folder, "circle.mjs"), join(folder, "circle.mjs"));
  const at = (file: string): { upstream: string } => ({ upstream: `mcp+node://${join(folder, file)}` });
  const berth = berthInSuite({
    mcps: {
      ends: at("ends.mjs"),
      falls: at("falls.mjs"),
      missing: at("missing.mjs"),
      circle: at("circle.mjs"),
      nowhere: { upstream: `mcp+node://${join(folder, "ends.mjs")}?cwd=${join(folder, "no-folder")}` },
    },
    env: { BERTH_ACCESS: "required" },
    log: pino({ level: "warn" }, { write: (line: string) => void lines.push(line) }),
  });
  let [caller, reader] = ["", ""];
  const lines: string[] = [];
  const servers = ["ends", "falls", "missing", "circle", "nowhere"];

  before(async () => {
    caller = (await makeToken(berth, { can: ["call"] })).token;
    reader = (await makeToken(berth, { can: ["read"] })).token;
  });

  for (const server of servers) {
    it(`${server}: no answer of MCP, the API or a page tells a folder, and the log does`, async () => {
      const url = `${berth.url}/mcp/${server}`;
      const headers = { ...bearer(caller), "MCP-Protocol-Version": "2025-06-18" };
      const legacy = await post(url, request("tools/list"), headers);
      const now = await modern(url, "tools/call", { name: "any", _meta: MODERN_META }, bearer(caller));
      for (const { text } of [legacy, now]) assert.match(text, /"error"|"isError":true/);

      const answers = [legacy.text, now.text];
      const api = ["", `/${server}/upstream`, `/${server}/releases`].map((path) => `/api/servers${path}`);
      for (const path of [...api, "/mcp", `/mcp/${server}`]) {
        for (const token of [caller, reader]) {
          const response = await fetch(berth.url + path, { headers: { Accept: "text/html, */*", ...bearer(token) } });
          answers.push(`${path} ${response.status} ${await response.text()}`);
        }
      }
      for (const text of answers) assert.ok(!text.includes(PLACE), text);
      assert.ok(answers.some((text) => text.includes(`${server === "nowhere" ? "ends" : server}.mjs`)));
      const logged = lines.map((line) => JSON.parse(line)).filter((line) => line.server === server);
      assert.notEqual(logged.length, 0);
      for (const { upstream } of logged) assert.ok(upstream.startsWith(folder), upstream);
    });
  }
});

it("an error that names files tells the last part of each, of both files, and of what caused it", () => {
  const from = join(folder, "from.txt");
  const to = join(folder, "no", "to.txt");
  writeFileSync(from, "", { mode: 0o600 });
  const told = (work: () => unknown, message: string): void =>
    assert.throws(work, (error: Error) => (assert.equal(withoutPaths(error).message, message), true));
  told(() => readFileSync(to), "ENOENT: no such file or directory, open 'to.txt'");
  told(() => renameSync(from, to), "ENOENT: no such file or directory, rename 'from.txt' -> 'to.txt'");
  // No user may run it.
  const refused = spawnSync(from).error!;
  assert.match(refused.message, /EACCES/);
  const started = new BerthError("upstream_not_started", refused.message, { cause: refused });
  assert.ok(started.message.includes(folder));
  assert.match(withoutPaths(started).message, /spawnSync from\.txt EACCES/);
});
