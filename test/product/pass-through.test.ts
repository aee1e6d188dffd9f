import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, it } from "node:test";
import {
  compareServer,
  documentedExceptions,
  EXCEPTIONS,
  openHosted,
  REVISIONS,
  SHOWN_ELSEWHERE,
  startDirect,
  type ServerToCompare,
} from "../support/pass-through.ts";
import { berthInSuite, closeAfter, temporaryFolder } from "../support/suite.ts";
import { fixtures } from "../support/upstreams.ts";

const folder = temporaryFolder();
writeFileSync(join(folder, "a.txt"), "one line\n");

describe("a hosted server, compared with itself", () => {
  const used = new Set<string>();
  const isWhole = process.env["BERTH_TEST_UPSTREAMS"] === "all";
  const all = Object.fromEntries(Object.entries(servers()).slice(0, isWhole ? undefined : 2));
  const mcps = Object.values(all).map((server, at) => [`s${at}`, { upstream: launcherOf(server) }]);
  const berth = berthInSuite({ mcps: Object.fromEntries(mcps), env: { BERTH_UPSTREAM_PROGRAMS: "on" } });

  for (const [at, [name, server]] of Object.entries(all).entries()) {
    for (const revision of REVISIONS) {
      it(`${name} is deep-equal to what it is directly, in ${revision}`, async (t) => {
        const direct = closeAfter(t, await startDirect(server, revision));
        const hosted = await openHosted(`${berth.url}/mcp/s${at}`, revision);
        await compareServer(server, revision, direct.ask, hosted, used);
      });
    }
  }

  it("differs only in what docs/pass-through.md says, and each line of it is needed", () => {
    assert.deepEqual(documentedExceptions().sort(), [...Object.keys(EXCEPTIONS), ...SHOWN_ELSEWHERE].sort());
    if (isWhole) assert.deepEqual([...used].sort(), Object.keys(EXCEPTIONS).sort());
    else for (const each of used) assert.ok(each in EXCEPTIONS, each);
  });
});

function launcherOf({ program: [, path, ...args] }: ServerToCompare): string {
  return `mcp+node://${path}?${args.map((arg) => `arg=${encodeURIComponent(arg)}`).join("&")}`;
}

function servers(): Record<string, ServerToCompare> {
  const bin = (path: string): string => resolve("test/upstreams/node_modules", path);
  const text = join(folder, "a.txt");
  const call = (name: string, args: object) => ["tools/call", { name, arguments: args }] as const;
  return {
    "a server that says all there is to say": {
      program: ["node", join(fixtures, "says-all.mjs")],
      asks: [
        call("plain", { n: 1 }),
        call("numbers", {}),
        call("repeats-numbers", { a: "#1.0", b: ["#12345678901234567890", "#-0"], c: { d: "#1e400" } }),
        call("unknown-content", {}),
        call("error", {}),
        ["tools/call", { name: "repeats-arguments" }],
        call("nothing", {}),
        ["tools/call", { name: "repeats-meta", arguments: {}, _meta: { "example.org/mark": { deep: [1, null] } } }],
        ["resources/read", { uri: "ui://all/app.html" }],
        ["resources/read", { uri: "all://none" }],
        ["prompts/get", { name: "all", arguments: { who: "Ada" } }],
        ["completion/complete", { ref: { type: "ref/prompt", name: "all" }, argument: { name: "who", value: "A" } }],
      ],
    },
    "server-everything": {
      program: ["node", bin("@modelcontextprotocol/server-everything/dist/index.js"), "stdio"],
      asks: [
        call("echo", { message: "hi" }),
        call("get-sum", { a: 1, b: 2 }),
        call("get-annotated-message", { messageType: "error", includeImage: true }),
        call("get-resource-links", { count: 3 }),
        call("get-structured-content", { location: "New York" }),
        call("get-tiny-image", {}),
        call("echo", {}),
        call("none", {}),
        ["prompts/get", { name: "args-prompt", arguments: { city: "Paris", state: "Texas" } }],
        ["resources/read", { uri: "demo://resource/static/document/features.md" }],
        ["resources/read", { uri: "demo://resource/none" }],
      ],
    },
    "server-filesystem": {
      program: ["node", bin("@modelcontextprotocol/server-filesystem/dist/index.js"), folder],
      asks: [
        call("read_text_file", { path: text }),
        call("list_directory", { path: folder }),
        call("read_text_file", { path: "/etc/passwd" }),
        call("read_media_file", { path: text }),
      ],
    },
    "filesystem 2025.8.21, whose schemas have no type": {
      program: ["node", bin("filesystem-2025.8.21/dist/index.js"), folder],
      asks: [call("read_text_file", { path: text })],
    },
    "server-memory": {
      program: ["node", bin("@modelcontextprotocol/server-memory/dist/index.js")],
      asks: [call("read_graph", {}), call("search_nodes", { query: "none" })],
    },
    "server-sequential-thinking": {
      program: ["node", bin("@modelcontextprotocol/server-sequential-thinking/dist/index.js")],
      asks: [call("sequentialthinking", { thought: "one" })],
    },
    context7: {
      program: ["node", bin("@upstash/context7-mcp/dist/index.js")],
      asks: [call("query-docs", {})],
    },
    playwright: { program: ["node", bin("playwright-0.0.76/cli.js")], asks: [] },
  };
}
