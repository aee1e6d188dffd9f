import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { buildSync } from "esbuild";
import type { LoadOutcome } from "../../src/executor/executor.ts";
import { GuestExecutor } from "../../src/executor/guest-executor.ts";
import { traceBounds } from "../../src/executor/guest-process.ts";
import { trustedLauncher } from "../../src/executor/launcher.ts";
import { loadProblem } from "../../src/executor/load-problem.ts";
import { loadBounds } from "../../src/executor/load-trials.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { holdTimeouts } from "../support/clock.ts";
import { lower } from "../support/lowered-limits.ts";

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

  it("reports no problem if the program cannot be started", async () => {
    const nowhere = { ...trustedLauncher(node, limits), guest: () => ({ file: "/nowhere/node", args: [] }) };
    const executor = new GuestExecutor(nowhere as never, { limits });
    try {
      const outcome = await executor.load({ tenant: "default", code: async () => GOOD });
      assert.equal(loadProblem(outcome, "x.ts"), undefined);
      assert.deepEqual(outcome, { kind: "unknown" });
    } finally {
      await executor.close();
    }
  });

  it("loadElapsedMs: stops waiting for a top level that does not finish", async (t) => {
    t.after(lower({ loadElapsedMs: 300 }));
    const outcome = await loaded("await new Promise(() => {});");
    const kind = (outcome as { kind: string }).kind;
    assert.ok(kind === "unfinished" || kind === "unknown", kind);
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
