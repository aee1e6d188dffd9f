import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { clientFile, outputOf, startOnNode24, type Running } from "./run-client.ts";

/** The inspector's second command line: it connects once, and a separate process keeps the connections. */
export interface Mcpdo {
  connect(name: string, url: string, era: "legacy" | "modern"): Promise<void>;
  /** One command on a connection; returns its output as JSON. */
  run(name: string, ...args: string[]): Promise<unknown>;
  /** A command that goes on until it is interrupted. */
  start(name: string, ...args: string[]): Running;
  stop(): Promise<void>;
}

export async function startMcpdo(): Promise<Mcpdo> {
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
      if (pid !== undefined) await untilGone(pid);
      await rm(home, { recursive: true, force: true });
    },
  };
}

async function untilGone(pid: number): Promise<void> {
  try {
    for (;;) {
      process.kill(pid, 0);
      await sleep(20);
    }
  } catch (error) {
    if ((error as { code?: string }).code !== "ESRCH") throw error;
  }
}
