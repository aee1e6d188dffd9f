import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { call, startTestBerth, type TestBerth } from "../support/berth.ts";
import { toAnswer } from "../support/clients/real-client.ts";
import { clientFile, outputOf, startOnNode24, type Running } from "../support/clients/run-client.ts";
import { isAlive } from "../support/processes.ts";
import { until } from "../support/until.ts";

const ERAS = ["legacy", "modern"] as const;

const REVIEW = [
  { role: "user", content: { type: "text", text: "Review this Dutch text, be kind." } },
  { role: "assistant", content: { type: "text", text: "Gladly." } },
];

describe("the inspector's mcpdo", { concurrency: 2 }, () => {
  let berth: TestBerth;
  let url: string;
  before(async () => {
    // Some leave work behind, which nobody should wait for.
    const env = { BERTH_SHUTDOWN_MS: "100", BERTH_CALL_MS: "600000" };
    berth = await startTestBerth({ files: ["test/fixtures/servers/whole.ts"], env });
    url = `${berth.url}/mcp/whole`;
  });

  const fateOf = async (name: string): Promise<string> => toAnswer(await call(url, "fate", { name })).text;
  const untilFate = (name: string, wanted: string): Promise<unknown> =>
    until(async () => (await fateOf(name)) === wanted, `${name} is ${wanted}`);

  let mcpdo: Mcpdo;
  before(async () => {
    mcpdo = await startMcpdo();
    for (const era of ERAS) await mcpdo.connect(era, url, era);
  });
  after(async () => {
    await mcpdo.stop();
    await berth.close();
  });

  for (const era of ERAS) {
    const name = `mcpdo in the ${era} era`;
    describe(name, { concurrency: false }, () => {
      it(`${name} lists, calls, reads and gets a prompt (T5.1, T6.2, T7.3)`, async () => {
        const { tools } = (await mcpdo.run(era, "tools/list")) as { tools: { name: string }[] };
        assert.equal(tools[0]?.name, "greet");
        const called = await mcpdo.run(era, "tools/call", "greet", "name:=Ada");
        assert.equal(toAnswer(called).text, '{"greeting":"Hello, Ada!"}');
        const read = (await mcpdo.run(era, "resources/read", "notes://2025/tea")) as { contents: { text: string }[] };
        assert.deepEqual(JSON.parse(read.contents[0]?.text ?? ""), { year: "2025", title: "tea" });
        const got = await mcpdo.run(era, "prompts/get", "review", "--prompt-args", "language=Dutch");
        assert.deepEqual((got as { messages: unknown }).messages, REVIEW);
      });

      it(`${name} completes an argument (S11)`, async () => {
        const of = ["--complete-ref-type", "ref/prompt", "--complete-ref", "review"];
        const value = ["--complete-arg-name", "language", "--complete-arg-value", "D"];
        const { values } = (await mcpdo.run(era, "prompts/complete", ...of, ...value)) as { values: string[] };
        assert.deepEqual(values, ["Danish", "Dutch"]);
      });

      it(`${name} subscribes to a resource and prints its updates (S11)`, async () => {
        const stream = mcpdo.start(era, "resources/subscribe", "notes://shopping");
        await untilPrinted(stream, '"subscribed"');
        await call(url, "write", { text: `milk for ${era}` });
        await untilPrinted(stream, '"resources/updated"');
        stream.interrupt();
        await stream.ended;
      });

      it(`${name} is asked, and a second command answers (P4)`, async () => {
        const asked = (await mcpdo.run(era, "tools/call", "forecast")) as {
          elicitationPending: { elicitationId: string; message: string };
        };
        const { elicitationId, message } = asked.elicitationPending;
        assert.equal(message, "Where are you?");
        const answered = await mcpdo.run(era, "elicitation/respond", elicitationId, "city:=Oslo");
        assert.equal(toAnswer(answered).text, "Oslo: 7 °C");
      });

      // Only the modern era treats a closed connection as a cancellation.
      if (era === "modern") {
        it("mcpdo in the modern era disconnects while a tool works, and the tool's signal is aborted (S5)", async () => {
          const working = mcpdo.start("modern", "tools/call", "work", "name:=modern");
          await untilFate("modern", "running");
          await mcpdo.run("modern", "disconnect");
          await untilFate("modern", "cancelled");
          assert.notEqual((await working.ended).exitCode, 0);
        });
      } else {
        it("mcpdo in the legacy era disconnects without cancelling, and the tool goes on (S7)", async () => {
          const working = mcpdo.start("legacy", "tools/call", "work", "name:=legacy");
          await untilFate("legacy", "running");
          await mcpdo.run("legacy", "disconnect");
          assert.notEqual((await working.ended).exitCode, 0);
          await untilFate("legacy", "running");
        });
      }
    });
  }
});

/** A command line takes its time to start. */
async function untilPrinted(running: Running, text: string): Promise<void> {
  await until(() => running.stdout().includes(text), `it prints ${text}`);
}

/** The inspector's second command line: it connects once, and a separate process keeps the connections. */
interface Mcpdo {
  connect(name: string, url: string, era: "legacy" | "modern"): Promise<void>;
  /** One command on a connection; returns its output as JSON. */
  run(name: string, ...args: string[]): Promise<unknown>;
  /** A command that goes on until it is interrupted. */
  start(name: string, ...args: string[]): Running;
  stop(): Promise<void>;
}

async function startMcpdo(): Promise<Mcpdo> {
  const home = await mkdtemp(join(tmpdir(), "berth-mcpdo-"));
  const env = {
    MCP_INSPECTOR_DAEMON_DIR: join(home, "daemon"),
    MCP_INSPECTOR_DAEMON_TOKEN: randomUUID(),
    MCP_INSPECTOR_SECRET_STORE: "file",
  };
  const script = clientFile("@modelcontextprotocol/inspector/clients/mcpdo/build/mcp-bin.js");
  const start = (...args: string[]): Running => startOnNode24([script, "--format", "json", ...args], home, env);
  const run = async (...args: string[]): Promise<unknown> =>
    // 5 means that the tool's own result is an error.
    JSON.parse(outputOf(await start(...args).ended, [0, 5]));
  return {
    async connect(name, url, era) {
      await run(`@${name}`, "connect", url, "--era", era, "--transport", "http");
    },
    run: (name, ...args) => run(`@${name}`, ...args),
    start: (name, ...args) => start(`@${name}`, ...args),
    async stop() {
      const { pid } = (await run("daemon", "status")) as { pid?: number };
      await start("daemon", "stop").ended;
      if (pid !== undefined) await until(() => !isAlive(pid));
      await rm(home, { recursive: true, force: true });
    },
  };
}
