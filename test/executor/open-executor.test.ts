import { strict as assert } from "node:assert";
import { execFileSync } from "node:child_process";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import type { ExecutorLog } from "../../src/executor/guest-log.ts";
import { openExecutor } from "../../src/executor/open-executor.ts";
import { clock } from "../../src/lib/clock.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { assertNothingLeft } from "../support/executor.ts";
import { lower } from "../support/lowered-limits.ts";
import { commandOf, descendants } from "../support/processes.ts";
import { folderWith, temporaryFolder } from "../support/suite.ts";
import { until } from "../support/until.ts";

after(assertNothingLeft);

describe("opening an executor", () => {
  const open = async (mode: "auto" | "sandboxed", path: string, log?: ExecutorLog): ReturnType<typeof openExecutor> => {
    const before = process.env["PATH"];
    process.env["PATH"] = path;
    try {
      const limits = { ...defaultLimits, guestSpareProcesses: 0 };
      return await openExecutor({ mode, limits, ...(log && { log }) });
    } finally {
      process.env["PATH"] = before;
    }
  };

  const reason = process.platform === "linux" ? /bwrap is not installed: .* install bubblewrap/ : /needs Linux/;

  it("falls back to `trusted` in the mode `auto`, with the reason", async (t) => {
    const executor = await open("auto", temporaryFolder(t));
    assert.equal(executor.isolation, "trusted");
    assert.match(executor.reason!, reason);
    await executor.close();
  });

  it("rejects in the mode `sandboxed`, with the reason", (t) =>
    assert.rejects(open("sandboxed", temporaryFolder(t)), { code: "sandbox_unavailable", message: reason }));

  describe("where the sandbox fails for a moment", { skip: process.platform !== "linux" && "needs Linux" }, () => {
    const bwrap = execFileSync("/bin/sh", ["-c", "command -v bwrap"], { encoding: "utf8" }).trim();
    /** A `bwrap` that does `how` for its first `times` starts, and its work from then on. */
    const failing = (times: number, how: string): string =>
      `n=$(cat "$0.n" 2>/dev/null || echo 0); echo $((n + 1)) > "$0.n"; chmod 666 "$0.n" 2>/dev/null
       if [ "$n" -lt ${times} ]; then ${how}; fi
       exec ${bwrap} "$@"`;
    const openWith = async (
      text: string,
      mode: "auto" | "sandboxed",
      use: (opening: ReturnType<typeof openExecutor>, warned: object[]) => Promise<void>,
    ): Promise<void> => {
      const folder = folderWith({ bwrap: `#!/bin/sh\n${text}\n` });
      chmodSync(join(folder, "bwrap"), 0o755);
      // The user that guests have outside counts there, too.
      chmodSync(folder, 0o777);
      const warned: object[] = [];
      const log = { debug() {}, info() {}, warn: (data: object) => void warned.push(data) };
      const path = `${folder}:${process.env["PATH"]}`;
      await use(open(mode, path, log), warned);
    };

    const short = 'echo "bwrap: Creating new namespace failed: Resource temporarily unavailable" >&2; exit 1';
    it("tries again, and trusts no guest meanwhile", () =>
      openWith(failing(2, short), "auto", async (opening, warned) => {
        const executor = await opening;
        assert.equal(executor.isolation, "sandboxed");
        assert.equal(executor.reason, undefined);
        assert.equal(warned.length, 2);
        await executor.close();
      }));

    it("tries again when a guest was not ready in time", () =>
      openWith(failing(1, "exec sleep 1000"), "auto", async (opening, warned) => {
        await until(() => descendants().some((pid) => commandOf(pid).startsWith("sleep 1000")), "it is tried");
        clock.leap(10_000);
        const executor = await opening;
        assert.equal(executor.isolation, "sandboxed");
        assert.match(JSON.stringify(warned), /no guest was ready after 10000 ms/);
        await executor.close();
      }));

    it("sandboxTrialMs: rejects in every mode if the failure lasts, with advice", async (t) => {
      t.after(lower({ sandboxTrialMs: 300 }));
      for (const mode of ["auto", "sandboxed"] as const) {
        await openWith(failing(1_000, short), mode, async (opening) => {
          const message =
            /for now \(bwrap: Creating .*unavailable\), and kept failing for 300 ms: .*BERTH_GUESTS=trusted/;
          await assert.rejects(opening, { code: "sandbox_unavailable", message });
        });
      }
    });

    it("does not try again when the sandbox is forbidden", () =>
      openWith(
        failing(1_000, 'echo "bwrap: setting up uid map: Permission denied" >&2; exit 1'),
        "auto",
        async (opening, warned) => {
          const executor = await opening;
          assert.equal(executor.isolation, "trusted");
          assert.match(executor.reason!, /does not start here \(bwrap: setting up uid map: Permission denied\)/);
          assert.deepEqual(warned, []);
          await executor.close();
        },
      ));
  });
});
