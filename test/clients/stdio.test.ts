import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { toAnswer } from "../support/clients/real-client.ts";
import { clientFile, outputOf, runOnNode24 } from "../support/clients/run-client.ts";
import { cli } from "../support/commands.ts";
import { berthInSuite, temporaryFolder } from "../support/suite.ts";
import { until } from "../support/until.ts";

const INSPECTOR = clientFile("@modelcontextprotocol/inspector/clients/launcher/build/index.js");

/** Popular clients start `berth stdio` themselves, from their configuration. */
describe("real clients over stdio", () => {
  const folder = temporaryFolder();
  const berth = berthInSuite({ files: ["test/fixtures/servers/streaming.ts", "reference_templates/echo.ts"] });
  const argumentsFor = (server: string): string[] => [
    cli,
    "stdio",
    server,
    `--image=${join(berth.folder, "boot")}`,
    `--data=${join(folder, "data")}`,
  ];

  for (const era of ["legacy", "modern"] as const) {
    it(`the official client (${era}) lists, calls, gets progress and cancels (S6, T8.2)`, async () => {
      const mode = era === "modern" ? { pin: "2026-07-28" as const } : "legacy";
      const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
      const transport = new StdioClientTransport({
        command: process.execPath,
        args: argumentsFor("streaming"),
        stderr: "ignore",
      });
      await client.connect(transport);
      const { pid } = transport;
      try {
        assert.equal(client.getNegotiatedProtocolVersion(), era === "legacy" ? "2025-11-25" : "2026-07-28");
        assert.ok((await client.listTools()).tools.some(({ name }) => name === "drip"));
        const seen: unknown[] = [];
        const answer = toAnswer(
          await client.callTool(
            { name: "stepwise", arguments: { count: 3 } },
            {
              onprogress: ({ message }) => {
                seen.push(message);
                void client.callTool({ name: "step", arguments: {} });
              },
            },
          ),
        );
        assert.equal(answer.text, "stepped 3");
        // The last may come together with the answer, after which the client ignores it.
        assert.ok(seen.length >= 2, `${seen.length} of 3`);

        const controller = new AbortController();
        const cancelled = client.callTool(
          { name: "drip", arguments: { count: 100_000, ms: 20 } },
          { signal: controller.signal, onprogress: () => controller.abort(new Error("enough")) },
        );
        await assert.rejects(cancelled);
        const stopped = async (): Promise<number> => {
          const { structuredContent } = await client.callTool({ name: "state", arguments: {} });
          return (structuredContent as { stopped: number }).stopped;
        };
        assert.equal(await until(stopped), 1);
      } finally {
        await client.close();
      }
      assert.throws(() => process.kill(pid!, 0), /ESRCH/);
    });
  }

  it("the inspector calls (S6, T8.2)", async () => {
    const asked = "--protocol-era modern --method tools/call --tool-name echo --tool-arg message=inspected";
    const command = [INSPECTOR, "--cli", process.execPath, ...argumentsFor("echo"), ...asked.split(" ")];
    assert.equal(toAnswer(JSON.parse(outputOf(await runOnNode24(command), [0]))).text, "inspected");
  });
});
