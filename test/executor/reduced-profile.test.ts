import { strict as assert } from "node:assert";
import { spawnSync } from "node:child_process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { openExecutor } from "../../src/executor/open-executor.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { hostileContract } from "../support/executor.hostile.ts";
import { inMaskedProc, ordinaryEnvironment } from "../support/masked-proc.ts";

/** Set in the process that runs where `/proc` is masked. */
const INSIDE = "BERTH_TEST_MASKED_PROC";

if (process.env[INSIDE] === undefined) {
  describe("a sandbox where /proc is masked", { skip: process.platform !== "linux" && "needs Linux" }, () => {
    it("uses its reduced profile, which holds hostile guests", (t) => {
      const { file, args } = inMaskedProc([process.execPath, "--test-reporter=tap", fileURLToPath(import.meta.url)]);
      const env = { ...ordinaryEnvironment(t), [INSIDE]: "1" };
      const { status, stdout, stderr } = spawnSync(file, args, { env, encoding: "utf8", maxBuffer: 2 ** 26 });
      assert.equal(status, 0, `${stdout}\n${stderr}`);
      assert.ok(Number(/^# pass (\d+)$/m.exec(stdout)?.[1]) >= 28, stdout);
      assert.match(stdout, /^# skipped 0$/m);
    });
  });
} else {
  describe("the reduced profile", () => {
    it("says what it lacks, and runs scripts", async () => {
      const executor = await openExecutor({ mode: "sandboxed", limits: defaultLimits });
      assert.equal(executor.isolation, "sandboxed");
      assert.match(executor.lacks!, /scripts have no \/proc, scripts have no network, the system call filter alone/);
      // The filter alone denies a namespace here.
      const script = "#!/bin/sh\nunshare --user true || echo refused; ls /proc | head -1";
      const run = { tenant: "default", script, argv: [], env: {}, deadlineMs: 20_000 };
      const outcome = await executor.runScript(run);
      assert.ok(outcome.ok);
      assert.equal(Buffer.from(outcome.stdout).toString(), "refused\n");
      await executor.close();
    });
  });
  hostileContract("sandboxed");
}
