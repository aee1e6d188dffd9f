import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { hasEnded, processIdentity } from "../../src/lib/process-identity.ts";
import { killedProcess, statOf } from "../support/processes.ts";
import { until } from "../support/until.ts";

describe("the identity of a process", { skip: process.platform !== "linux" }, () => {
  it("shows that a killed process has ended, and that a running one has not", async () => {
    assert.equal(hasEnded(processIdentity()), false);
    assert.equal(hasEnded(await killedProcess()), true);
  });

  it("shows that a process has ended whose PID was reused", () => {
    const earlier = processIdentity()!.replace(/\d+$/, (startedAt) => String(Number(startedAt) - 1));
    assert.equal(hasEnded(earlier), true);
  });

  it("shows that a process has ended whose parent has not waited for it", async (t) => {
    // The shell becomes a program that waits for no children.
    const parent = spawn("sh", ["-c", "sleep 0.2 & echo $!; exec sleep 600"], { stdio: ["ignore", "pipe", "ignore"] });
    t.after(() => parent.kill("SIGKILL"));
    const [line] = (await once(parent.stdout, "data")) as [Buffer];
    const pid = Number(line);
    const identity = processIdentity(pid);
    await until(() => statOf(pid)?.state === "Z");
    assert.equal(hasEnded(identity), true);
  });

  it("shows nothing of processes of another boot, host or PID namespace", async () => {
    const killed = await killedProcess();
    const [boot, host, namespace, ...rest] = killed.split(" ");
    for (const other of [
      ["1f0d1c2b-0000-4000-8000-000000000000", host, namespace],
      [boot, "another-host", namespace],
      [boot, host, "pid:[1]"],
    ]) {
      assert.equal(hasEnded([...other, ...rest].join(" ")), false);
    }
  });

  it("is nothing that a malformed text could be", () => {
    for (const text of [undefined, null, 7, {}, "", "x", "a b c 1 2", `${processIdentity()} x`]) {
      assert.equal(hasEnded(text), false);
    }
  });
});
