import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { call, modern, startTestBerth, type Reply } from "../../../support/berth.ts";
import { declaring } from "../../../support/mcp-host.ts";
import { until } from "../../../support/until.ts";

const WITH_TASKS = declaring({ extensions: { "io.modelcontextprotocol/tasks": {} } });
const WORKER = `
let goOn = () => {};

/**
 * Works until \`step\`.
 * @task
 */
export async function work(): Promise<string> {
  await new Promise<void>((resolve) => (goOn = resolve));
  return "worked";
}

export function step(): void {
  goOn();
}
`;
const canMount = process.platform === "linux" && process.getuid?.() === 0;

describe("a task that ends while the disk is full", { skip: !canMount && "mounts" }, () => {
  it("is told as what it is once there is room, and never as failed", async () => {
    const folder = await mkdtemp(join(tmpdir(), "berth-tasks-disk-"));
    const disk = join(folder, "disk");
    await mkdir(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64m", "tmpfs", disk]);
    const env = { BERTH_TASK_LEASE_MS: "300", BERTH_CALL_MS: "120000" };
    const berth = await startTestBerth({ texts: { "worker.ts": WORKER }, config: { dataDir: disk }, env });
    const url = `${berth.url}/mcp/worker`;
    const send = async (method: string, params: Record<string, unknown>): Promise<Reply["body"]> =>
      (
        await modern(
          url,
          method,
          { _meta: WITH_TASKS, ...params },
          { "Mcp-Name": String(params["name"] ?? params["taskId"]) },
        )
      ).body.result;
    try {
      const { taskId } = await send("tools/call", { name: "work", arguments: {} });
      const task = (): Promise<Reply["body"]> => send("tasks/get", { taskId });
      const filler = join(disk, "filler");
      await assert.rejects(writeFile(filler, Buffer.alloc(128 * 1024 * 1024)), { code: "ENOSPC" });
      await call(url, "step");
      await until(async () => {
        const { status, statusMessage } = await task();
        assert.equal(status, "working");
        return /It has ended, but its outcome cannot be stored now/.test(statusMessage);
      }, "it has ended");
      const endedAt = Date.now();
      await until(async () => {
        assert.equal((await task()).status, "working");
        return Date.now() - endedAt > 900;
      }, "its lease has run out");

      await rm(filler);
      const { status, result } = await until(async () => {
        const seen = await task();
        return seen.status === "working" ? undefined : seen;
      }, "what became of it is kept");
      assert.equal(status, "completed");
      assert.equal(result.content[0].text, "worked");
    } finally {
      await berth.close();
      execFileSync("umount", [disk]);
      await rm(folder, { recursive: true, force: true });
    }
  });
});
