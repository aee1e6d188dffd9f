import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { Agent, request, type IncomingMessage } from "node:http";
import { test, type TestContext } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { ServeProcess } from "../support/serve-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";
import { hostile } from "../support/upstreams.ts";

const LIMITS = "prlimit(1) sets the limits of another process on Linux alone";
const CALLS = [
  [
    "/mcp/checksum",
    { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "checksum", arguments: { text: "x" } } },
  ],
  ["/servers/checksum/checksum", { text: "x" }],
] as const;

interface Answer {
  readonly status: number;
  readonly retryAfter?: string;
  readonly text: string;
}

/** A Berth whose descriptors can be used up, and one persistent connection to it, which takes a descriptor, too. */
async function serve(t: TestContext, env: Record<string, string> = {}) {
  const served = await ServeProcess.start(["--port", "0", "--data", temporaryFolder(t)], env);
  t.after(() => served.end("SIGTERM"));
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  const send = async (
    path: string,
    body?: object,
    { method = body ? "POST" : "GET", ...more }: Record<string, string> = {},
  ): Promise<Answer> => {
    const headers = { "content-type": "application/json", accept: "application/json", ...more };
    const sent = request(served.url + path, { method, agent, headers });
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
  // Descriptors of a start may be closed at this moment, which frees their numbers.
  const mayOpenNone = (): void => {
    const open = new Set(readdirSync(`/proc/${served.child.pid}/fd`));
    let number = 0;
    while (open.has(String(number))) number++;
    mayOpen(String(number));
  };
  /** The first answer other than `fine` once there are no more descriptors. */
  const refusedWithout = (fine: number, what: string, ask: () => Promise<Answer>): Promise<Answer> =>
    until(
      async () => {
        mayOpenNone();
        const answer = await ask();
        return answer.status === fine ? undefined : answer;
      },
      `${what} is refused`,
      60_000,
    );
  return { send, mayOpen, mayOpenNone, refusedWithout };
}

const skip = process.platform !== "linux" && LIMITS;
const TRY_AGAIN = /Berth can open no more files and connections for now: try again in 1 s/;

test("calls fail with 503, and Berth is not ready, while no file descriptor is left", { skip }, async (t) => {
  const { send, mayOpen, mayOpenNone, refusedWithout } = await serve(t);
  assert.equal((await send("/readyz")).status, 200);

  const unready = { status: 503, text: '{"status":"unready","reasons":["No file descriptor is left"]}' };
  await until(async () => {
    mayOpenNone();
    return isDeepStrictEqual(await send("/readyz"), unready);
  });
  for (const [path, body] of CALLS) {
    const refused = await refusedWithout(200, path, () => send(path, body));
    assert.deepEqual([refused.status, refused.retryAfter], [503, "1"], refused.text);
    assert.match(refused.text, TRY_AGAIN);
  }
  assert.equal((await send("/healthz")).status, 200);

  mayOpen("1024");
  await until(async () => (await send("/readyz")).status === 200);
  for (const [path, body] of CALLS) {
    const answer = await send(path, body);
    assert.equal(answer.status, 200, answer.text);
    assert.match(answer.text, /2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881/);
  }
});

test("the save of an upstream fails with 503 while no file descriptor is left", { skip }, async (t) => {
  const { send, mayOpen, refusedWithout } = await serve(t, { BERTH_UPSTREAM_PROGRAMS: "on" });
  assert.equal((await send("/readyz")).status, 200);
  let saves = 0;
  for (const [what, upstream, fine] of [
    ["a program", hostile("misbehaves in calls"), 201],
    ["one at an address", "mcp+http://127.0.0.1:2/mcp", 422],
  ] as const) {
    const headers = { method: "PUT", "if-none-match": "*", "content-type": "text/plain" };
    const save = (): Promise<Answer> => send(`/api/entries/late${saves++}`, { upstream }, headers);
    const refused = await refusedWithout(fine, what, save);
    assert.deepEqual([refused.status, refused.retryAfter], [503, "1"], refused.text);
    assert.match(refused.text, TRY_AGAIN);
    mayOpen("1024");
    // The spawn helper may have ended for want of descriptors, too: then another one starts processes, or Berth itself.
    await until(async () => (await save()).status === fine, `${what} is saved once there are descriptors`);
  }
});
