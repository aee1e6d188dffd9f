import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import type { JsonObject } from "../../../src/lib/json.ts";
import { modern, type Reply } from "../../support/berth.ts";
import { declaring } from "../../support/mcp-host.ts";
import { berthInSuite } from "../../support/suite.ts";
import { until } from "../../support/until.ts";

const EXTENSION = "io.modelcontextprotocol/tasks";
const META = declaring({ elicitation: {}, extensions: { [EXTENSION]: {} } });

const DEFINITION = `
import type { ToolContext } from "berth";

const schema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] } as const;

/** Asks who is there. */
export async function who(greeting = "Hello", context: ToolContext): Promise<string> {
  const answer = await context.elicit({ key: "name", message: "Who?", schema });
  return answer.action === "accept" ? greeting + ", " + answer.content.name : "Nobody";
}

/** Is hidden by the next one. */
export function echo(message: string): string {
  return message;
}

/** Hides echo. */
export async function hideEcho(context: ToolContext): Promise<void> {
  await context.hide("echo");
}

/**
 * Works for a while.
 * @task
 */
export async function work(ms: number, context: ToolContext): Promise<string> {
  for (let done = 0; done < ms; done += 20) {
    context.signal.throwIfAborted();
    await context.progress({ progress: done, total: ms, message: "at " + done });
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return "worked";
}

/**
 * Ends its process.
 * @task
 */
export function crash(): string {
  (globalThis as { process?: { exit(): void } }).process?.exit();
  throw new Error("there is no process");
}
`;

const accepted = { action: "accept", content: { name: "Ada" } };

describe("a hosted server in the modern era", () => {
  const berth = berthInSuite({ texts: { "asks.ts": DEFINITION } });
  let url: string;
  before(() => void (url = `${berth.url}/mcp/asks`));

  const call = (name: string, params: JsonObject = {}): Promise<Reply> =>
    modern(url, "tools/call", { name, arguments: {}, _meta: META, ...params });

  it("a question is answered in the release that asked it, and a release is there for ever under its CID", async () => {
    const { requestState, _meta } = (await call("who", { arguments: { greeting: "Hi" } })).body.result;
    const release = _meta["io.modelcontextprotocol/serverInfo"].version.split("+")[1];
    const names = async (of: string): Promise<string[]> =>
      (await modern(of, "tools/list")).body.result.tools.map((tool: { name: string }) => tool.name);

    await call("hideEcho");
    assert.equal((await names(url)).includes("echo"), false);
    const retry = { arguments: { greeting: "Hi" }, requestState, inputResponses: { name: accepted } };
    const { result } = (await call("who", retry)).body;
    assert.equal(result.content[0].text, "Hi, Ada");
    assert.ok(result._meta["io.modelcontextprotocol/serverInfo"].version.endsWith(release));

    const pinned = `${url}@${release}`;
    assert.ok((await names(pinned)).includes("echo"));
    const discovered = (await modern(pinned, "server/discover")).body.result;
    assert.ok(discovered.ttlMs > 24 * 3_600_000);
    assert.deepEqual(discovered.capabilities.tools, {});
    const params = { name: "echo", arguments: { message: "still here" }, _meta: META };
    assert.equal((await modern(pinned, "tools/call", params)).body.result.content[0].text, "still here");
  });

  it("a release that the server never had is not found", async () => {
    const { _meta } = (await modern(url, "server/discover")).body.result;
    const release = _meta["io.modelcontextprotocol/serverInfo"].version.split("+")[1];
    const missing = [`asks@${release.slice(0, -1)}x`, "asks@", "asks@nonsense", `nobody@${release}`, `@${release}`];
    for (const name of missing) {
      assert.equal((await modern(`${berth.url}/mcp/${name}`, "tools/list")).status, 404, name);
    }
  });

  it("a task whose guest dies fails, and a cancelled one ends its guest's work", async () => {
    const get = async (taskId: string): Promise<Reply["body"]> =>
      (await modern(url, "tasks/get", { taskId, _meta: META }, { "Mcp-Name": taskId })).body.result;
    const { taskId } = (await call("crash")).body.result;
    const crashed = await until(async () => ((await get(taskId)).status === "working" ? undefined : get(taskId)));
    assert.equal(crashed.status, "failed", JSON.stringify(crashed));
    assert.equal(crashed.error.code, -32603);

    const work = (await call("work", { arguments: { ms: 60_000 } })).body.result.taskId;
    await until(async () => (await get(work)).statusMessage?.startsWith("at "));
    await modern(url, "tasks/cancel", { taskId: work, _meta: META }, { "Mcp-Name": work });
    assert.equal((await get(work)).status, "cancelled");
  });
});
