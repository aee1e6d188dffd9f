import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { call } from "../support/berth.ts";
import { berthInProcess as command } from "../support/in-process.ts";
import { AMPLE } from "../support/store.ts";
import { berthInSuite, temporaryFolder } from "../support/suite.ts";
import { onStoreOf } from "../support/tenants.ts";

/** A title, a cleared screen, colours, directions, nothing visible, a carriage return. */
const HOSTILE = "up\u001b]0;OWNED\u0007\u001b[2J\u001b[8m\u009b31m\u202e\u2066\u061c\u200b\u{e0041}\u2028\r\u007fdown";
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u2028\u{e0041}\p{Bidi_Control}\p{Surrogate}]/u;
/** A hostile key of state, which has no control characters. */
const KEY = "a\u202e\u200bb";

const upstream = (folder: string): string => {
  const results = {
    initialize: {
      protocolVersion: "2025-06-18",
      capabilities: { tools: {}, resources: {}, prompts: {} },
      serverInfo: { name: HOSTILE, version: `${HOSTILE}\nTools (0)` },
      instructions: HOSTILE,
    },
    "tools/list": {
      tools: ["say", HOSTILE].map((name) => ({
        name,
        description: HOSTILE,
        inputSchema: { type: "object", description: HOSTILE, properties: { [HOSTILE]: { type: "string" } } },
      })),
    },
    "tools/call": { content: [{ type: "text", text: HOSTILE }] },
    "resources/list": { resources: [{ uri: "note://1", name: HOSTILE, description: HOSTILE }] },
    "resources/templates/list": { resourceTemplates: [{ uriTemplate: "note://{n}", name: HOSTILE }] },
    "prompts/list": { prompts: [{ name: HOSTILE, description: HOSTILE, arguments: [{ name: HOSTILE }] }] },
  };
  const file = join(folder, "server.cjs");
  writeFileSync(
    file,
    `const results = ${JSON.stringify(results)};
    process.stderr.write(${JSON.stringify(HOSTILE)});
    require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
      const { id, method, params } = JSON.parse(line);
      if (id === undefined) return;
      const failed = { error: { code: -32602, message: ${JSON.stringify(HOSTILE)}, data: ${JSON.stringify(HOSTILE)} } };
      const said = results[method] && params?.name !== ${JSON.stringify(HOSTILE)} ? { result: results[method] } : failed;
      process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...said }) + "\\n");
    });`,
  );
  return `mcp+node://${file}`;
};

const SOURCE = `/** ${HOSTILE} */
export function say(text: string): string { console.warn(${JSON.stringify(HOSTILE)}); return ${JSON.stringify(HOSTILE)}; }
/** ${HOSTILE} */
export function fail(): string { throw new Error(${JSON.stringify(HOSTILE)}); }
`;

describe("what commands print of a hostile tenant, caller, and upstream", () => {
  const folder = temporaryFolder();
  const uri = upstream(folder);
  const berth = berthInSuite({ texts: { "own.ts": SOURCE }, variables: { note: HOSTILE } });
  before(async () => {
    await onStoreOf(berth, async (store) => {
      for (const [key, text, isJson] of [
        [KEY, HOSTILE, false],
        ["json", JSON.stringify(HOSTILE), true],
      ] as const)
        await store.values.set("default", "state", "own", key, {
          value: Buffer.from(text),
          isJson,
          expiresAt: null,
          room: AMPLE,
        });
    });
    await call(`${berth.url}/mcp/own`, HOSTILE, {});
    writeFileSync(join(folder, "mcps.json"), '{"own": {"definition": "own.ts"}}');
    writeFileSync(
      join(folder, "own.ts"),
      `${SOURCE}\nexport function wrong(what: ${HOSTILE.replaceAll("\r", "")}) {}\n`,
    );
  });

  const inFolder = (...args: string[]): string[] => [...args, "--data", join(berth.folder, "data")];
  const quoted = encodeURIComponent(HOSTILE);
  /** All that a person reads, whether it goes to a terminal or not. */
  const read = (): Record<string, string[]> => ({
    "state list": inFolder("state", "list", "own"),
    audit: inFolder("audit", "--format", "text"),
    "audit as JSON": inFolder("audit", "--format", "json"),
    "token list": inFolder("token", "list"),
    "secret list": inFolder("secret", "list"),
    "packages list": inFolder("packages", "list"),
    "packages history": inFolder("packages", "history"),
    "tenant list": inFolder("tenant", "list", "--json"),
    discover: ["discover", join(folder, "own.ts")],
    "discover as JSON": ["discover", join(folder, "own.ts"), "--json"],
    check: ["check", folder],
    "call of a tool that fails": ["call", "--url", berth.url, "own.fail"],
    "call of no tool": ["call", "--url", berth.url, `own.${HOSTILE}`],
    "call with wrong arguments": ["call", "--url", berth.url, "own.say", "number=1"],
    "state get of JSON": inFolder("state", "get", "own", "json"),
    inspect: ["inspect", uri],
    "mcp tools": ["mcp", "tools", uri, "--format", "text"],
    "mcp schema": ["mcp", "schema", uri],
    "mcp schema of one": ["mcp", "schema", uri, HOSTILE],
    "-v": ["mcp", "hash", uri, "-v"],
    "cat of a tool that fails": ["cat", `${uri}?tool=${quoted}`],
    "profile create": ["profile", "create", "hostile", "--from", uri, "--replace"],
    "profile info": ["profile", "info", "@hostile"],
    "profile diff": ["profile", "diff", "@hostile"],
  });
  /** Data, which a program gets as it is. */
  const raw = (): Record<string, string[]> => ({
    "state get": inFolder("state", "get", "own", KEY),
    call: ["call", "--url", berth.url, "own.say", "text=x"],
    cat: ["cat", `${uri}?tool=say`, "--format", "text"],
  });

  const home = join(folder, "home");
  const env = { XDG_CONFIG_HOME: home, HOME: home };

  it("has no control characters in text for people, or in JSON", async () => {
    const quoting: string[] = [];
    for (const [what, args] of Object.entries(read())) {
      const { stdout, stderr } = await command(args, { env, cwd: folder });
      assert.doesNotMatch(stdout + stderr, CONTROLS, `${what}: ${JSON.stringify(stdout + stderr)}`);
      if ((stdout + stderr).includes("OWNED")) quoting.push(what);
    }
    assert.ok(quoting.length >= 13, quoting.join(", "));
    const { stdout } = await command(read()["mcp schema"]!);
    assert.ok(
      JSON.stringify(JSON.parse(stdout)).includes(JSON.stringify(HOSTILE).slice(1, -1)),
      "its JSON says the same",
    );
    const kept = await command(read()["state get of JSON"]!);
    assert.equal(JSON.parse(kept.stdout), HOSTILE);
  });

  it("is unchanged as data for a program, and has no control characters on a terminal", async () => {
    for (const [what, args] of Object.entries(raw())) {
      const { stdout, stderr } = await command(args);
      assert.equal(stdout.replace(/\n$/, ""), HOSTILE, `${what}: ${stderr}`);
    }
    for (const [what, args] of Object.entries({ ...read(), ...raw() })) {
      const { stdout } = await command(args, { env: { ...env, NO_COLOR: "1" }, cwd: folder, isTerminal: true });
      // A line of progress is cleared.
      assert.doesNotMatch(stdout.replaceAll("\r\u001b[K", ""), CONTROLS, `${what}: ${JSON.stringify(stdout)}`);
      if (what === "inspect") assert.doesNotMatch(stdout, /^Tools \(0\)/m);
    }
  });
});
