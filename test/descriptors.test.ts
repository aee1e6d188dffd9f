import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { Agent, request, type IncomingMessage } from "node:http";
import { test } from "node:test";
import { ServeProcess } from "./serve-process.ts";
import { dataFolder } from "./upstream-hosting.rig.ts";
import { until } from "./until.ts";

const LIMITS = "prlimit(1) sets the limits of another process on Linux alone";
const CALLS = [
  [
    "/mcp/checksum",
    { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "checksum", arguments: { text: "x" } } },
  ],
  ["/servers/checksum/checksum", { text: "x" }],
] as const;

test(
  "C8 without file descriptors a call is to be made again, and Berth is not ready until there are some",
  {
    skip: process.platform !== "linux" && LIMITS,
  },
  async (t) => {
    const served = await ServeProcess.start(["--port", "0", "--data", dataFolder(t)]);
    t.after(() => served.end("SIGTERM"));
    // A connection takes a descriptor, too: this one is kept.
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    t.after(() => agent.destroy());
    const send = async (
      path: string,
      body?: object,
    ): Promise<{ status: number; retryAfter?: string; text: string }> => {
      const headers = { "content-type": "application/json", accept: "application/json" };
      const sent = request(served.url + path, { method: body ? "POST" : "GET", agent, headers });
      sent.end(body && JSON.stringify(body));
      const [response] = (await once(sent, "response")) as [IncomingMessage];
      let text = "";
      for await (const part of response) text += String(part);
      const retryAfter = response.headers["retry-after"];
      return { status: response.statusCode!, ...(retryAfter !== undefined && { retryAfter }), text };
    };
    const mayOpen = (descriptors: string): void => {
      execFileSync("prlimit", ["--pid", String(served.child.pid), `--nofile=${descriptors}:`]);
    };
    assert.equal((await send("/readyz")).status, 200);

    // What a start still had open may be closed in this moment, and its number be free.
    const firstFree = (): number => {
      const open = new Set(readdirSync(`/proc/${served.child.pid}/fd`));
      for (let number = 0; ; number++) if (!open.has(String(number))) return number;
    };
    const unready = { status: 503, text: '{"status":"unready","reasons":["No file descriptor is left"]}' };
    const isUnready = async (): Promise<boolean> => {
      mayOpen(String(firstFree()));
      return (await send("/readyz")).text === unready.text;
    };
    await until(isUnready);
    assert.deepEqual(await send("/readyz"), unready);
    for (const [path, body] of CALLS) {
      const refused = await until(
        async () => {
          mayOpen(String(firstFree()));
          const answer = await send(path, body);
          return answer.status === 200 ? undefined : answer;
        },
        `${path} is refused`,
        60_000,
      );
      assert.deepEqual([refused.status, refused.retryAfter], [503, "1"], refused.text);
      assert.match(refused.text, /Berth may open no more files and connections for now: try again in 1 s/);
    }
    assert.equal((await send("/healthz")).status, 200);

    mayOpen("1024");
    await until(async () => (await send("/readyz")).status === 200);
    for (const [path, body] of CALLS) {
      const answer = await send(path, body);
      assert.equal(answer.status, 200, answer.text);
      assert.match(answer.text, /2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881/);
    }
  },
);
