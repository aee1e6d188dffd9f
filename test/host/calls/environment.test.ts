import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { pino } from "pino";
import { apiOf } from "../../support/api.ts";
import { call, callText } from "../../support/berth.ts";
import { processesWith } from "../../support/processes.ts";
import { berthInSuite } from "../../support/suite.ts";
import { until } from "../../support/until.ts";

const TOKEN = "ghp_a-very-secret-value";
const context = 'context: import("berth").ToolContext';

const GUEST = `
const env = (globalThis as { process?: { env: Record<string, string | undefined>; pid: number } }).process!.env;
/** Read as packages do, when they are loaded. */
const loaded = env["GITHUB_TOKEN"];
export function read(name: string): string { return env[name] ?? "nothing"; }
export function atLoad(): string { return loaded ?? "nothing"; }
export function names(): string { return Object.keys(env).sort().join(); }
let count = 0;
export function counted(): number { return ++count; }
export function fail(name: string): string { throw new Error("failed with " + env[name]); }
export function say(name: string): string { console.log("printed", env[name]); return "said"; }
export async function wait(${context}): Promise<string> {
  context.log.info("waits");
  while ((await context.variable("GO")) !== "now") await new Promise((resolve) => setTimeout(resolve, 20));
  return env["REGION"] + String(++count);
}
`;

const SCRIPT = `#!/bin/sh
# @param how How it ends
case "$how" in
  fail) echo "failed with $AUTH" >&2; exit 3 ;;
  *) printf '%s|%s|%s|%s' "$AUTH" "$LOG_LEVEL" "$HOME" "$PATH" ;;
esac
`;

describe("the environment of an entry", () => {
  const lines: string[] = [];
  const shown: string[] = [];
  const env = {
    GITHUB_TOKEN: "${GITHUB_TOKEN}",
    AUTH: "Bearer ${GITHUB_TOKEN}",
    LOG_LEVEL: "info",
    REGION: "${REGION}",
    LITERAL: "$${REGION}",
    UNSET: "${NOBODY_SET_IT}",
    DEFAULT: "${NOBODY_SET_IT:-else}",
  };
  const secrets = ["GITHUB_TOKEN"];
  const berth = berthInSuite({
    texts: { "guest.ts": GUEST, "other.ts": GUEST, "script.sh": SCRIPT, "namesake.sh": SCRIPT },
    mcps: {
      guest: { definition: "guest.ts", secrets, env },
      plain: { definition: "other.ts" },
      script: { definition: "script.sh", secrets, env: { AUTH: "Bearer ${GITHUB_TOKEN}", LOG_LEVEL: "info" } },
      namesake: { definition: "namesake.sh", env: { how: "tell" } },
    },
    log: pino({ level: "trace" }, { write: (line: string) => void lines.push(line) }),
  });
  const api = apiOf(berth);

  const tool = (server: string, name: string, args: Record<string, unknown> = {}): Promise<string> =>
    callText(`${berth.url}/mcp/${server}`, name, args);
  const setVariable = async (name: string, value: string): Promise<void> => {
    const { status, body } = await api.put(`/variables/${name}`, value);
    assert.ok(status < 300, JSON.stringify(body));
  };
  const setSecret = async (name: string, value: string): Promise<void> => {
    assert.equal((await api.send("PUT", `/secrets/${name}`, value)).status, 204);
  };

  before(async () => {
    await setSecret("GITHUB_TOKEN", TOKEN);
    await setVariable("REGION", "far-north");
  });

  it("is there when the program loads, with its secrets and variables filled in", async () => {
    assert.equal(await tool("guest", "atLoad"), TOKEN);
    const said = ["AUTH", "LOG_LEVEL", "REGION", "LITERAL", "UNSET", "DEFAULT"].map((name) =>
      tool("guest", "read", { name }),
    );
    assert.deepEqual(await Promise.all(said), [`Bearer ${TOKEN}`, "info", "far-north", "${REGION}", "nothing", "else"]);
    assert.ok(lines.some((line) => /UNSET is not set in its environment: .*NOBODY_SET_IT/.test(line)));
  });

  it("is nobody else's, and hides nothing that every guest has", async () => {
    assert.equal(await tool("plain", "names"), "HOME,LANG,PWD,TMPDIR,TZ".replace("PWD,", await pwd()));
    assert.equal(await tool("plain", "atLoad"), "nothing");
    const names = await tool("guest", "names");
    assert.equal(names, `AUTH,DEFAULT,GITHUB_TOKEN,HOME,LANG,LITERAL,LOG_LEVEL,${await pwd()}REGION,TMPDIR,TZ`);
  });

  /** The sandbox sets it. */
  const pwd = async (): Promise<string> => ((await tool("plain", "read", { name: "PWD" })) === "nothing" ? "" : "PWD,");

  it("stands on no command line, and in no process's own environment", async () => {
    assert.equal(await tool("guest", "atLoad"), TOKEN);
    assert.deepEqual(processesWith(TOKEN), []);
  });

  it("is a script's environment as well, which keeps what scripts always find there", async () => {
    assert.equal(
      await tool("script", "script", { how: "tell" }),
      `Bearer ${TOKEN}|info|/tmp|/usr/bin:/bin:/usr/local/bin`,
    );
  });

  it("leaves a script's tool out that has a parameter of the same name", async () => {
    const page = await (await fetch(`${berth.url}/mcp/meta/namesake`)).text();
    assert.match(page, /are the same variable; rename one of them/);
  });

  it("is another one from the next call on when a variable changes, in another process", async () => {
    await setVariable("REGION", "far-north");
    const first = Number(await tool("guest", "counted"));
    assert.equal(Number(await tool("guest", "counted")), first + 1, "nothing changed, so the process stays");
    const under = tool("guest", "wait");
    await until(() => lines.some((line) => line.includes("waits")));
    await setVariable("REGION", "deep-south");
    assert.equal(await tool("guest", "read", { name: "REGION" }), "deep-south");
    assert.equal(Number(await tool("guest", "counted")), 1);
    await setVariable("GO", "now");
    assert.equal(await under, `far-north${first + 2}`, "a call under way ends where it began");
  });

  it("is masked in errors, logs and pages where it is filled in, and nowhere else", async () => {
    for (const name of ["GITHUB_TOKEN", "AUTH", "REGION"]) {
      shown.push(JSON.stringify(await call(`${berth.url}/mcp/guest`, "fail", { name })));
      assert.match(shown.at(-1)!, /\[hidden\]/, name);
      await tool("guest", "say", { name });
    }
    shown.push(JSON.stringify(await call(`${berth.url}/mcp/script`, "script", { how: "fail" })));
    assert.match(shown.at(-1)!, /\[hidden\]/);
    const literal = JSON.stringify(await call(`${berth.url}/mcp/guest`, "fail", { name: "LOG_LEVEL" }));
    assert.match(literal, /failed with info/);
    for (const path of ["/mcp", "/mcp/meta/guest", "/mcp/meta/script", "/api/servers", "/variables/mcps"]) {
      shown.push(await (await fetch(`${berth.url}${path}`)).text());
    }
    for (const said of [...shown, ...lines]) assert.ok(!said.includes(TOKEN), said.slice(0, 1_000));
  });

  it("ends with its grants: an earlier release does not find a secret that was taken away", async () => {
    const entry = async (entry: object): Promise<void> => {
      const { status, body } = await api.put("/entries/guest", JSON.stringify(entry));
      assert.ok(status < 300, JSON.stringify(body));
    };
    const { body } = await api.send("GET", "/entries/guest");
    const [text] = Object.values(body.files as Record<string, string>);
    const was = JSON.parse(text!) as Record<string, unknown>;
    const { body: all } = await api.send("GET", "/servers");
    const { release } = all.servers.find(({ name }: { name: string }) => name === "guest");
    await setVariable("GITHUB_TOKEN", "a variable of the secret's name");
    await entry({ ...was, secrets: [], env: {} });
    assert.equal(await tool(`guest@${release}`, "read", { name: "GITHUB_TOKEN" }), "nothing");
    assert.equal(await tool(`guest@${release}`, "read", { name: "LOG_LEVEL" }), "info");
    await entry(was);
    assert.equal(await tool("guest", "atLoad"), TOKEN);
  });

  it("that is too long is told to the caller, with the limit", async () => {
    await setVariable("REGION", "x".repeat(300_000));
    assert.match(await tool("guest", "atLoad"), /longer than 262144 bytes/);
    await setVariable("REGION", "far-north");
    assert.equal(await tool("guest", "atLoad"), TOKEN);
  });
});
