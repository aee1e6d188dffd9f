import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { pino } from "pino";
import { apiOf } from "../support/api.ts";
import { call, callText, post, request, withStatus } from "../support/berth.ts";
import { commandOf, processes } from "../support/processes.ts";
import { berthInSuite, serverInSuite } from "../support/suite.ts";
import { until } from "../support/until.ts";
import { fixtures } from "../support/upstreams.ts";

/** Long enough to be found, with characters that JSON, URLs and patterns escape. */
const VALUE = 'hunter2 "very/secret" +[value]\\ $& é';
const OTHER = "another-very-secret-value";
const context = 'context: import("berth").ToolContext';

const GUEST = `
let first: string | undefined;
const secret = async (${context}) => (await context.secret("API_TOKEN")) ?? "nothing";
/** It may return whatever it likes. */
export async function tell(${context}): Promise<string> { return secret(context); }
/** Keeps what it was given first. */
export async function keep(${context}): Promise<string> { return (first ??= await secret(context)); }
export async function undeclared(name: string, ${context}): Promise<string> { return (await context.secret(name)) ?? "nothing"; }
export async function say(${context}): Promise<string> {
  const value = await secret(context);
  console.log("printed", value, { value });
  console.error(new Error("printed error " + value));
  context.log.info({ [value]: [value] });
  context.log.named(value).warning("named");
  return "said";
}
export async function fail(how: string, ${context}): Promise<string> {
  const value = await secret(context);
  if (how === "plain") throw new Error("failed with " + value);
  if (how === "cut") throw new Error("x".repeat(8170) + value);
  if (how === "url") throw new Error("GET https://example.org/?token=" + encodeURIComponent(value));
  if (how === "json") throw new Error(JSON.stringify({ token: value }));
  if (how === "base64") throw new Error("Basic " + Buffer.from(value).toString("base64"));
  if (how === "protocol") throw context.protocolError("broken with " + value);
  if (how === "transient") throw Object.assign(new Error("busy with " + value), { transient: true });
  throw { code: value };
}
/** Says it when nobody listens any more. */
export async function later(${context}): Promise<string> {
  const value = await secret(context);
  setTimeout(() => { console.log("later", value); void Promise.reject(new Error("unhandled " + value)); }, 20);
  return "soon";
}
`;

const NOTES = `
const notes: string[] = [];
/** Keeps a note, and gives all of them. */
export function keep(note: string): string { notes.push(note); return notes.join(); }
`;

const SCRIPT = `#!/bin/sh
# @param how How it ends
case "$how" in
  tell) printf '%s' "$API_TOKEN" ;;
  fail) echo "failed with $API_TOKEN" >&2; exit 3 ;;
  long) head -c 17000 /dev/zero | tr '\\0' x >&2; echo "$API_TOKEN" >&2; head -c 16370 /dev/zero | tr '\\0' y >&2; exit 3 ;;
  outcome) printf '{"type":"error","message":"an outcome with %s","transient":false}' "$OTHER_TOKEN" ;;
  wait) sleep 31.4159 ;;
  *) env ;;
esac
`;
const NAMESAKE = `#!/bin/sh
# @param API_TOKEN Named as the secret is
echo "$API_TOKEN"
`;

const upstream = (more = ""): string =>
  `mcp+node://${join(fixtures, "secretive.mjs")}?env.KEY=%24%7BAPI_TOKEN%7D${more}`;

describe("servers and their secrets", () => {
  const lines: string[] = [];
  /** All output of Berth, except the results of functions. */
  const shown: string[] = [];
  /** A server that records the tokens it gets, and includes them in its refusal. */
  const seen: string[] = [];
  const remote = serverInSuite(({ headers: { authorization = "" } }, response) => {
    seen.push(authorization);
    response.writeHead(403, `not with ${authorization}`).end(`not with ${authorization}`);
  });
  const secrets = ["API_TOKEN"];
  const berth = berthInSuite(() => ({
    texts: {
      "guest.ts": GUEST,
      "stranger.ts": GUEST,
      "script.sh": SCRIPT,
      "namesake.sh": NAMESAKE,
      "unlucky.sh": SCRIPT,
      "notes.ts": NOTES,
      "mine.ts": 'export { keep } from "./notes.ts";\n',
    },
    mcps: {
      theirs: { definition: "mine.ts" },
      guest: { definition: "guest.ts", secrets },
      script: { definition: "script.sh", secrets: ["API_TOKEN", "OTHER_TOKEN"] },
      namesake: { definition: "namesake.sh", secrets },
      hosted: { upstream: upstream(), secrets },
      boasts: { upstream: upstream("&env.BOASTS=1"), secrets },
      refuses: { upstream: upstream("&env.REFUSES=%24%7BAPI_TOKEN%7D"), secrets },
      remote: {
        upstream: `mcp+${remote.url}/mcp?header.Authorization=Bearer%20%24%7BOTHER_TOKEN%7D`,
        secrets: ["OTHER_TOKEN"],
      },
      unset: { definition: "guest.ts", secrets: ["NOBODY_SET_IT"] },
    },
    env: { BERTH_UPSTREAM_BACKOFF_MS: "0" },
    log: pino({ level: "trace" }, { write: (line: string) => void lines.push(line) }),
  }));
  const api = apiOf(berth);

  const setSecret = async (name: string, value: string): Promise<void> => {
    await withStatus(204, api.send("PUT", `/secrets/${name}`, value));
  };
  const callTool = (server: string, tool: string, args = {}): Promise<string> =>
    callText(`${berth.url}/mcp/${server}`, tool, args);
  const failing = async (server: string, tool: string, args: Record<string, unknown> = {}): Promise<string> => {
    const said = JSON.stringify(await call(`${berth.url}/mcp/${server}`, tool, args));
    shown.push(said);
    return said;
  };

  before(async () => {
    await setSecret("API_TOKEN", VALUE);
    await setSecret("OTHER_TOKEN", OTHER);
  });

  it("a function is given the secrets that its server's entry declares, and no other", async () => {
    assert.equal(await callTool("guest", "tell"), VALUE);
    for (const [server, name] of [
      ["guest", "OTHER_TOKEN"],
      ["stranger", "API_TOKEN"],
      ["guest", "../API_TOKEN"],
    ] as const) {
      const said = await failing(server, "undeclared", { name });
      assert.match(said, /"isError":true/);
      assert.match(said, /is not given the secret|has no access to secrets/);
    }
    assert.equal(await callTool("unset", "undeclared", { name: "NOBODY_SET_IT" }), "nothing");
  });

  it("two servers of one definition share no process, whether they are given something or not", async () => {
    assert.equal(await callTool("mine", "keep", { note: "mine" }), "mine");
    assert.equal(await callTool("theirs", "keep", { note: "theirs" }), "theirs");
    assert.equal(await callTool("mine", "keep", { note: "again" }), "mine,again");
  });

  it("a script has them in its environment, on nobody's command line", async () => {
    assert.equal(await callTool("script", "script", { how: "tell" }), VALUE);
    const stop = new AbortController();
    const headers = { "Content-Type": "application/json", Accept: "text/event-stream, application/json" };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "script.script", params: { how: "wait" } });
    const waiting = fetch(`${berth.url}/mcp`, { method: "POST", headers, body, signal: stop.signal });
    await until(() =>
      processes()
        .map(commandOf)
        .some((line) => line.includes("31.4159")),
    );
    for (const line of processes().map(commandOf)) assert.ok(!line.includes(VALUE) && !line.includes(OTHER), line);
    stop.abort();
    await (await waiting.catch(() => undefined))?.text().catch(() => undefined);
    assert.doesNotMatch(await callTool("unlucky", "unlucky", { how: "env" }), /TOKEN/);
  });

  it("a script's parameter of a secret's name leaves its tool out, since a caller would say the secret", async () => {
    assert.match(await failing("namesake", "namesake", { API_TOKEN: "mine" }), /[Uu]nknown tool|No such|not/);
    const page = await (await fetch(`${berth.url}/mcp/meta/namesake`)).text();
    assert.match(page, /are the same variable; rename one of them/);
  });

  it("a hosted server's launcher URI has them in its environment and its headers", async () => {
    assert.equal(await callTool("hosted", "tell"), VALUE);
    await failing("remote", "any");
    assert.ok(seen.includes(`Bearer ${OTHER}`), JSON.stringify(seen));
  });

  it("what code prints, logs or throws of them is shown and logged without them", async () => {
    assert.equal(await callTool("guest", "say"), "said");
    for (const how of ["plain", "cut", "url", "json", "base64", "protocol", "transient", "object"]) {
      assert.ok((await failing("guest", "fail", { how })).includes("[hidden]"), how);
    }
    assert.equal(await callTool("guest", "later"), "soon");
    await until(() => lines.some((line) => line.includes("unhandled")));
    for (const how of ["fail", "long", "outcome"])
      assert.ok((await failing("script", "script", { how })).includes("[hidden]"), how);
    for (const tool of ["fail", "die", "garble"]) assert.match(await failing("hosted", tool), /error|isError/, tool);
    await failing("refuses", "tell");
    const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
    for (const method of ["guest.say", "hosted.log", "guest.fail"]) {
      const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { how: "plain" } });
      shown.push(await (await fetch(`${berth.url}/mcp`, { method: "POST", headers, body })).text());
    }
    assert.match(shown.at(-2)!, /logged \[hidden\]/);
    const pages = "/mcp /secrets /api/secrets /api/servers /api/variables/mcps /variables/mcps /mcp?q=guest".split(" ");
    const servers = ["guest", "stranger", "script", "hosted", "refuses", "remote", "unset"];
    for (const path of [...pages, ...servers.map((name) => `/mcp/meta/${name}`), "/api/servers/refuses/upstream"]) {
      shown.push(await (await fetch(`${berth.url}${path}`)).text());
    }
    await until(() => lines.some((line) => line.includes("dies with")));
    assert.match(lines.join(""), /later \[hidden\]/);
    assert.match(lines.join(""), /cannot begin with \[hidden\]/);
    for (const said of [...shown, ...lines]) {
      for (const form of formsOf(VALUE)) assert.ok(!said.includes(form), `${form}: ${said.slice(0, 2_000)}`);
      for (const form of formsOf(OTHER)) assert.ok(!said.includes(form), `${form}: ${said.slice(0, 2_000)}`);
    }
  });

  it("what a hosted server says of them in what it offers is listed and stored without them", async () => {
    const headers = { "MCP-Protocol-Version": "2025-06-18" };
    const { body } = await post(`${berth.url}/mcp/boasts`, request("tools/list"), headers);
    const tools = Object.fromEntries(body.result.tools.map((tool: { name: string }) => [tool.name, tool]));
    assert.deepEqual(Object.keys(tools), ["tell", "fail", "log", "die", "garble", "address"]);
    const { title, description, inputSchema } = tools["address"];
    assert.deepEqual([title, description], ["[hidden]", "asks: [hidden]"]);
    assert.deepEqual(inputSchema.properties.address, { type: "string", default: "of: [hidden]", title: "[hidden]" });
    const said: string[] = [JSON.stringify(body)];
    for (const path of ["/mcp", "/mcp/meta/boasts", "/api/servers", "/api/servers/boasts/upstream"]) {
      said.push(await (await fetch(`${berth.url}${path}`)).text());
    }
    const clientInfo = { name: "test", version: "1" };
    const hello = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
    const { instructions } = (await post(`${berth.url}/mcp/boasts`, request("initialize", hello))).body.result;
    assert.equal(instructions, "connected to: [hidden]");
    assert.match(said[2]!, /lists a tool with one of the server(&#x27;|&#39;|')s secrets in its name/);
    assert.match(said.at(-1)!, /secretive: \[hidden\]/);
    const data = join(berth.folder, "data");
    for (const file of ["berth.sqlite", "berth.sqlite-wal"]) said.push((await readFile(join(data, file))).toString());
    for (const text of said) for (const form of formsOf(VALUE)) assert.ok(!text.includes(form), text.slice(0, 2_000));
  });

  it("another value counts from the next call on, for everybody, without a restart", async () => {
    const next = "the-next-very-secret-value";
    assert.equal(await callTool("hosted", "tell"), VALUE);
    await setSecret("API_TOKEN", next);
    assert.equal(await callTool("guest", "tell"), next);
    assert.equal(await callTool("guest", "keep"), next, "what a process has kept of the earlier value is gone with it");
    assert.equal(await callTool("script", "script", { how: "tell" }), next);
    assert.equal(await callTool("hosted", "tell"), next);
    await api.send("DELETE", "/secrets/API_TOKEN");
    assert.equal(await callTool("guest", "tell"), "nothing");
    assert.match(await failing("hosted", "tell"), /The variable API_TOKEN is not set/);
    await setSecret("API_TOKEN", VALUE);
    assert.equal(await callTool("hosted", "tell"), VALUE);
  });

  it("a call under way keeps its server when the secret changes, and the next one gets a new server", async () => {
    const [during, after] = [callTool("hosted", "tell"), setSecret("API_TOKEN", OTHER)];
    assert.ok([VALUE, OTHER].includes(await during));
    await after;
    assert.equal(await callTool("hosted", "tell"), OTHER);
    await setSecret("API_TOKEN", VALUE);
  });

  it("what a server wants and nobody has set is told where the server is, and goes when it is set", async () => {
    const problemsOf = async (): Promise<string> => JSON.stringify((await api.send("GET", "/servers")).body.servers);
    assert.match(await problemsOf(), /The secret \\"NOBODY_SET_IT\\" is not set: set it at \/secrets/);
    const { body } = await api.send("GET", "/secrets");
    const unset = body.secrets.find(({ name }: { name: string }) => name === "NOBODY_SET_IT");
    assert.deepEqual(unset, { name: "NOBODY_SET_IT", isSet: false, servers: ["unset"] });
    await setSecret("NOBODY_SET_IT", "somebody set it");
    assert.doesNotMatch(await problemsOf(), /is not set/);
    assert.equal(await callTool("unset", "undeclared", { name: "NOBODY_SET_IT" }), "somebody set it");
  });

  it("a review of an entry that wants more gives the server nothing more", async () => {
    const entry = JSON.stringify({ upstream: upstream(), secrets: ["API_TOKEN", "OTHER_TOKEN"] });
    await withStatus(200, api.send("POST", "/entries/hosted/review", entry));
    assert.equal(await callTool("hosted", "tell"), VALUE);
    assert.match(await failing("guest", "undeclared", { name: "OTHER_TOKEN" }), /is not given the secret/);
  });
});

/** The notations of a value in programs' output. */
function formsOf(value: string): string[] {
  const bytes = Buffer.from(value);
  const base64 = bytes.toString("base64").replace(/=+$/, "");
  return [value, JSON.stringify(value).slice(1, -1), encodeURIComponent(value), base64, bytes.toString("hex")];
}
