import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { it } from "node:test";
import { sandboxUsage } from "../../src/processes/folder-use.ts";
import { runs } from "../support/fast-check.ts";

const SANDBOX =
  "--unshare-all --die-with-parent --ro-bind / / --proc /proc --dev /dev --size 1048576 --tmpfs /tmp true".split(" ");

const skip = process.platform !== "linux" && "there is no sandbox here";

it("the use of a sandbox during its setup is never that of the host's folder", { skip }, async () => {
  let isSeen = false;
  for (let run = 0; run < runs(8); run++) {
    const sandbox = spawn("bwrap", SANDBOX, { stdio: "ignore" });
    const ended = once(sandbox, "exit");
    const { pid } = sandbox;
    assert.ok(pid, "bwrap cannot be started");
    // In one go, so that each moment of the setup is seen. The process stays a zombie until the next turn.
    for (let looks = 0; looks < 2_000; looks++) {
      const use = sandboxUsage([pid, pid + 1, pid + 2]);
      isSeen ||= use !== undefined;
      assert.ok((use?.files ?? 0) < 100, `${use?.files} files`);
    }
    assert.deepEqual(await ended, [0, null]);
  }
  assert.ok(isSeen, "no sandbox was seen");
});
