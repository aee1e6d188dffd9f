import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { buildSync } from "esbuild";
import type { LoadOutcome } from "../../src/executor/executor.ts";
import { GuestExecutor } from "../../src/executor/guest-executor.ts";
import { traceBounds } from "../../src/executor/guest-process.ts";
import { trustedLauncher } from "../../src/executor/launcher.ts";
import { loadProblem } from "../../src/executor/load-problem.ts";
import { loadBounds } from "../../src/executor/load-trials.ts";
import { clock } from "../../src/lib/clock.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { measureCpu } from "../../src/processes/process-tree.ts";
import { holdTimeouts } from "../support/clock.ts";
import { lower } from "../support/lowered-limits.ts";
import { descendants, loopBegan } from "../support/processes.ts";
import { until } from "../support/until.ts";

const GOOD = "export const one = (): number => 1;\n";

describe("trying to load a program", () => {
  const node = { file: process.execPath, major: Number(process.versions.node.split(".")[0]) };
  const limits = { ...defaultLimits, guestSpareProcesses: 0 };

  const loaded = async (code: string, changed: Partial<typeof limits> = {}): Promise<unknown> => {
    const executor = new GuestExecutor(trustedLauncher(node, limits), { limits: { ...limits, ...changed } });
    try {
      return await executor.load({ tenant: "default", code: async () => code });
    } finally {
      await executor.close();
    }
  };

  it("reports no problem if the program cannot be started", async (t) => {
    const nowhere = { ...trustedLauncher(node, limits), guest: () => ({ file: "/nowhere/node", args: [] }) };
    const executor = new GuestExecutor(nowhere as never, { limits });
    t.after(() => executor.close());
    const outcome = await executor.load({ tenant: "default", code: async () => GOOD });
    assert.equal(loadProblem(outcome, "x.ts"), undefined);
    assert.deepEqual(outcome, { kind: "unknown" });
  });

  it("loadElapsedMs: stops waiting for a top level that awaits something, or lacks CPU time", async (t) => {
    const loadElapsedMs = 600_000;
    t.after(lower({ loadElapsedMs, loadMs: 600_000 }));
    const lacking = loaded("for (;;);");
    await loopBegan();
    clock.leap(loadElapsedMs);
    assert.deepEqual(await lacking, { kind: "unfinished", loadElapsedMs, lacksTime: true });
    const waiting = loaded("for (let n = 0; n < 2e9; n++); await new Promise(() => {});");
    await loopBegan();
    await until(() => /^S+$/.test(measureCpu(descendants()).states), "it awaits something");
    clock.leap(loadElapsedMs);
    assert.deepEqual(await waiting, { kind: "unfinished", loadElapsedMs });
    const problem = loadProblem({ kind: "unfinished", loadElapsedMs: 3_000 }, "x.ts");
    assert.equal(problem?.severity, "warning");
    assert.match(problem.message, /had not finished after 3000 ms/);
  });

  it("loadMs: reports where a top level with an endless loop was stopped", async (t) => {
    t.after(holdTimeouts(traceBounds.traceMs, loadBounds.loadElapsedMs));
    t.after(lower({ loadMs: 200 }));
    const contents = "const one = 1;\n\nwhile (one) {\n  one.toFixed();\n}\n";
    const stdin = { contents, sourcefile: "definition:x.ts", loader: "ts" } as const;
    const { outputFiles } = buildSync({ stdin, write: false, format: "esm", sourcemap: "inline" });
    const problem = loadProblem((await loaded(outputFiles[0]!.text)) as LoadOutcome, "main.ts")!;
    assert.equal(problem.code, "load-endless");
    const { file, line } = problem;
    assert.equal(file, "x.ts");
    assert.ok(line === 3 || line === 4, String(line));
    assert.match(problem.frame!, /^> [34] \|/);
  });

  it("reports a top level that ends its process", async () => {
    const problem = loadProblem((await loaded("process.exit(4);")) as never, "x.ts");
    assert.match(problem!.message, /its top level fails: its process ended with exit code 4$/);
  });
});
