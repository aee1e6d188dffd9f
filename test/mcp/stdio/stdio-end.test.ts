import assert from "node:assert/strict";
import { it } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { CallOptions } from "../../../src/host/offers/catalog.ts";
import { readingBounds } from "../../../src/lib/reading-bounds.ts";
import { request } from "../../support/berth.ts";
import { MemoryHost, stdioClient } from "../../support/mcp-host.ts";
import { until } from "../../support/until.ts";

const hello = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };

it("once its end has begun a connection answers what is under way, and everything else with -32002 (S1)", async () => {
  const host = new MemoryHost();
  let finish: ((text: string) => void) | undefined;
  const slow = (): Promise<string> => new Promise((resolve) => (finish = resolve));
  host.offer("server", { tools: { slow } });
  const { endpoint, connection, say, next } = stdioClient(host);
  say(request("initialize", hello, "hello"));
  assert.equal((await next()).result.protocolVersion, "2025-11-25");
  say(request("tools/call", { name: "slow", arguments: {} }, "slow"));
  await until(() => finish);

  const closed = connection.close();
  for (const method of ["tools/list", "ping", "initialize"]) {
    say(request(method, method === "initialize" ? hello : {}, method));
    const { id, error } = await next();
    assert.deepEqual([id, error.code], [method, -32002]);
  }
  finish!("done");
  const { id, result } = await next();
  assert.deepEqual([id, result.content[0].text], ["slow", "done"]);
  await closed;
  endpoint.close();
});

it("a long line is read where long messages are, and what comes with it and after it keeps its order (S1)", async () => {
  const host = new MemoryHost();
  const called: string[] = [];
  let ended: (() => void) | undefined;
  const slow = (_args: unknown, { signal }: CallOptions): Promise<string> => {
    called.push("slow");
    return new Promise((resolve) => {
      ended = () => resolve("done");
      signal?.addEventListener("abort", () => called.push("cancelled"));
    });
  };
  const quick = (): string => {
    called.push("quick");
    return "done";
  };
  host.offer("server", { tools: { slow, quick } });
  const long: number[] = [];
  const checks = {
    async readMessage(_tenant: string, body: string): Promise<unknown> {
      long.push(body.length);
      await setImmediate();
      return JSON.parse(body);
    },
    scalarsIn: assert.fail,
  };
  const { endpoint, connection, input, say, next } = stdioClient(host, { checks });
  const lengthy = "x".repeat(readingBounds.inlineBodyBytes);
  const call = (id: string, name: string, args: object): string =>
    `${JSON.stringify(request("tools/call", { name, arguments: args }, id))}\n`;

  say(request("initialize", hello, "hello"));
  await next();
  const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "slow" } };
  const cancelled = `${JSON.stringify(cancel)}\n`;
  input.write(
    `${call("slow", "slow", { lengthy })}${cancelled}${call("long", "quick", { lengthy })}${"{".repeat(100)}\n`,
  );
  input.write(call("last", "quick", {}));
  input.end();
  await connection.ended;
  const closed = connection.close();
  const answers = [await next(), await next(), await next()];
  assert.deepEqual(new Set(answers.map(({ id }) => id as unknown)), new Set(["long", "last", null]));
  assert.deepEqual(called, ["slow", "cancelled", "quick", "quick"]);
  assert.equal(long.length, 2);
  ended!();
  await closed;
  endpoint.close();
});
