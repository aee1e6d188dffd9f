import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { makeImage } from "../support/berth.ts";
import { ON_POSTGRES } from "../support/postgres.ts";
import { descendants, isAlive } from "../support/processes.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { until } from "../support/until.ts";

/** On a database, nodes of one machine are told apart from those of others by their lease alone. */
describe("berth serve after kill -9", { skip: process.platform !== "linux" || ON_POSTGRES }, () => {
  for (const workers of [0, 2]) {
    it(`removes the killed nodes of its data folder before it serves, with ${workers} workers`, async () => {
      const folder = mkdtempSync(join(tmpdir(), "berth-restart-"));
      try {
        const env = { ...(await makeImage(folder, { texts: {} })), BERTH_LOG: "info", BERTH_NODE_LEASE_MS: "600000" };
        const args = ["--workers", String(workers)];
        const killed = await ServeProcess.start(args, env);
        const all = descendants(killed.child.pid);
        await killed.end("SIGKILL");
        for (const pid of all) if (isAlive(pid)) process.kill(pid, "SIGKILL");
        await until(() => !all.some(isAlive));
        const again = await ServeProcess.start(args, env);
        await again.end("SIGTERM");
        assert.match(again.startLog, /"msg":"a node has gone"/);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });
  }
});
