import { strict as assert } from "node:assert";
import { it } from "node:test";
import { openExecutor } from "../../src/executor/open-executor.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { executorContract } from "../support/executor.contract.ts";
import { hostileContract } from "../support/executor.hostile.ts";
import { scriptsContract } from "../support/executor.scripts.ts";

// On Linux the sandbox has to work: without bubblewrap these fail and say to run scripts/setup.mjs.
if (process.platform === "linux") {
  executorContract("sandboxed");
  hostileContract("sandboxed");
  scriptsContract("sandboxed");
} else {
  it("the sandbox is refused with its reason where there is none", async () => {
    const open = openExecutor({ mode: "sandboxed", limits: defaultLimits });
    await assert.rejects(open, { code: "sandbox_unavailable", message: /needs Linux/ });
  });
}
