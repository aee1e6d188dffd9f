import assert from "node:assert/strict";
import { chmodSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { apiOf, type Api } from "../support/api.ts";
import { makeImage, modern, post, request } from "../support/berth.ts";
import { freezableDisk, type FreezableDisk } from "../support/frozen-disk.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { bearer, makeToken } from "../support/tokens.ts";
import { until } from "../support/until.ts";
import { fixtures } from "../support/upstreams.ts";

const COUNTER = `import type { ToolContext } from "berth";
export const count = ({ state }: ToolContext): Promise<number> => state.update<number>("n", (n = 0) => n + 1);
export const counted = async ({ state }: ToolContext): Promise<number> => (await state.get<number>("n")) ?? 0;
export const plain = (text: string): string => text;
`;
const SCRIPT = `#!/bin/sh
printf '%s' "$MOTTO of $(printf '%s' "$KEY" | wc -c)"
`;

async function serve(disk: FreezableDisk) {
  const { folder } = disk;
  const env = {
    ...(await makeImage(dirname(folder), {
      texts: { "counter.ts": COUNTER, "kept.ts": COUNTER, "script.sh": SCRIPT },
      mcps: {
        kept: { definition: "kept.ts", retain_calls: "1d" },
        script: { definition: "script.sh", secrets: ["KEY"], env: { MOTTO: "${motto}" } },
        upstream: { upstream: `mcp+node://${join(fixtures, "counting.mjs")}?arg=${join(dirname(folder), "calls")}` },
      },
      variables: { motto: "before" },
    })),
    BERTH_DATA: join(folder, "data"),
    // A killed process leaves its folder of work behind.
    TMPDIR: dirname(folder),
    BERTH_ACCESS: "required",
    BERTH_UPSTREAM_PROGRAMS: "on",
    BERTH_LOG: "error",
    // What is known of tokens is too old for each request, and the heartbeat is soon.
    BERTH_KNOWN_TOKEN_MS: "1",
    BERTH_NODE_LEASE_MS: "2000",
  };
  const { token } = await makeToken({ folder }, { can: ["admin"] });
  const headers = bearer(token);
  const start = async () => {
    const berth = await ServeProcess.start([], env);
    disk.after(() => berth.end("SIGKILL"));
    const send: Api["send"] = (method, path, body, given) =>
      apiOf(berth).send(method, path, body, { ...headers, ...given });
    /** Calls a tool, in a session where there is one, and returns its text. */
    const call = async (server: string, tool: string, args = {}, session?: string): Promise<string> => {
      const own = { ...headers, "MCP-Protocol-Version": "2025-06-18" };
      const all = session === undefined ? own : { ...own, "Mcp-Session-Id": session };
      const { body } = await post(
        `${berth.url}/mcp/${server}`,
        request("tools/call", { name: tool, arguments: args }),
        all,
      );
      assert.ok(body.result && body.result.isError !== true, JSON.stringify(body));
      return body.result.content[0].text as string;
    };
    return { berth, send, call };
  };
  return { start, token, headers };
}

test("a blocked disk delays saves alone, makes Berth unready, and loses no acknowledged save", async (t) => {
  const disk = freezableDisk(t);
  if (!disk) return;
  chmodSync(dirname(disk.folder), 0o711);
  const { start, token, headers } = await serve(disk);
  let served = await start();
  const { berth, send, call } = served;
  const { url } = berth;
  assert.equal((await send("PUT", "/secrets/KEY", "hunter22")).status, 204);
  const hello = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "test", version: "1" } };
  const opened = await post(`${url}/mcp/kept`, request("initialize", hello), headers);
  const session = opened.headers.get("mcp-session-id")!;
  const signedIn = await fetch(`${url}/sign-in`, {
    method: "POST",
    redirect: "manual",
    headers: { "Content-Type": "application/x-www-form-urlencoded", Origin: url },
    body: `token=${token}`,
  });
  const cookie = { Cookie: signedIn.headers.get("set-cookie")!.split(";")[0]!, Origin: url };
  const get = async (path: string): Promise<string> => {
    const response = await fetch(url + path, { headers });
    assert.equal(response.status, 200, path);
    return response.text();
  };
  const names = async (server: string): Promise<string> => {
    const { body } = await post(`${url}/mcp/${server}`, request("tools/list"), headers);
    return body.result.tools.map(({ name }: { name: string }) => name).join();
  };
  const calls: Readonly<Record<string, () => Promise<unknown>>> = {
    "a health check": () => get("/healthz"),
    metrics: () => get("/metrics"),
    "a list": () => names("counter"),
    "a list of all servers": () => names(""),
    "a modern list": async () => (await modern(`${url}/mcp/counter`, "tools/list", {}, headers)).body.result.tools,
    "a modern call": async () => {
      const params = { name: "plain", arguments: { text: "heard" } };
      return (await modern(`${url}/mcp/counter`, "tools/call", params, headers)).body.result.content;
    },
    "a call in a session": () => call("kept", "plain", { text: "heard" }, session),
    "a call of a script with a secret and a variable": () => call("script", "script"),
    "a call of an upstream": () => call("upstream", "measure", { text: "heard" }),
    "a call of a browser": async () => {
      const init = { method: "POST", headers: { ...cookie, "Content-Type": "application/json" } };
      const response = await fetch(`${url}/servers/counter/plain`, { ...init, body: '{"text":"heard"}' });
      assert.equal(response.status, 200);
      return response.text();
    },
  };
  const before = new Map<string, unknown>();
  // What an upstream offers is listed once it has started.
  await calls["a call of an upstream"]!();
  for (const [what, make] of Object.entries(calls)) before.set(what, await make());
  let told = 0;
  const ending = new AbortController();
  const saving = Array.from({ length: 3 }, async () => {
    while (!ending.signal.aborted) told = Math.max(told, Number(await call("counter", "count")));
  });
  await until(() => told > 10);

  const thaw = await disk.freeze();
  const settled: string[] = [];
  const saves = Object.entries({
    state: () => call("kept", "count"),
    variable: () => send("PUT", "/variables/motto", "after", { "If-Match": "*" }),
    token: () => send("POST", "/tokens", { name: "made", can: ["read"] }),
  }).map(async ([what, save]) => {
    const saved = await save();
    settled.push(what);
    return saved;
  });
  const answers = async (): Promise<void> => {
    const each = Object.entries(calls).map(async ([what, make]) => {
      for (const answer of await Promise.all(Array.from({ length: 4 }, make))) {
        if (what !== "metrics") assert.deepEqual(answer, before.get(what), what);
      }
    });
    await Promise.all(each);
  };
  await answers();
  const unready = await until(async () => {
    const response = await fetch(`${url}/readyz`);
    return response.status === 503 ? response.text() : undefined;
  });
  assert.match(unready, /the disk of the data folder/);
  // The heartbeat is overdue by now.
  await answers();
  assert.deepEqual(settled, [], "no save counts as made before it is on the disk");
  ending.abort();
  await thaw();

  const [, variable, made] = await Promise.all(saves);
  assert.deepEqual([(variable as { status: number }).status, (made as { status: number }).status], [200, 201]);
  await Promise.all(saving);
  await until(async () => (await fetch(`${url}/readyz`)).ok);
  const kept = async (): Promise<number> =>
    (await send("GET", "/servers/kept/calls?tool=plain&limit=100")).body.calls.length;
  await until(async () => (await kept()) === 9);
  await berth.end("SIGKILL");
  served = await start();
  assert.equal(Number(await served.call("kept", "counted")), 1);
  const counted = Number(await served.call("counter", "counted"));
  assert.ok(counted >= told && counted <= told + 3, `${counted} after ${told}`);
  assert.equal((await served.send("GET", "/variables/motto")).body.files.motto, "after");
  assert.equal((await served.send("GET", "/servers/kept/calls?tool=plain&limit=100")).body.calls.length, 9);
});
