import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { createInterface } from "node:readline";
import { it } from "node:test";
import { createLog } from "../src/log.ts";
import { createEndpoint } from "../src/mcp/endpoint.ts";
import { openStdio } from "../src/mcp/stdio/stdio.ts";
import { request } from "./berth.ts";
import { memoryRecords, MemoryHost } from "./mcp-modern.rig.ts";
import { until } from "./until.ts";

it("S1 once its end has begun a connection answers what is under way, and everything else with -32002", async () => {
  const host = new MemoryHost();
  let finish: ((text: string) => void) | undefined;
  const slow = (): Promise<string> => new Promise((resolve) => (finish = resolve));
  host.offer("server", { tools: { slow } });
  const log = createLog("silent");
  const endpoint = createEndpoint({ host, berthVersion: "0", log, records: memoryRecords() });
  const [input, output] = [new PassThrough(), new PassThrough()];
  const limits = { bodyBytes: 100_000 };
  const connection = openStdio({ endpoint, tenant: "default", server: "server", input, output, limits, log });
  const lines = createInterface({ input: output })[Symbol.asyncIterator]();
  const next = async () => JSON.parse((await lines.next()).value as string);
  const say = (message: unknown): unknown => input.write(`${JSON.stringify(message)}\n`);

  const hello = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
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
