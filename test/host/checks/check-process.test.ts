import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, it, type TestContext } from "node:test";
import { packageRoot } from "../../../src/config.ts";
import { checkCommand } from "../../../src/host/checks/check-process.ts";
import { Checks } from "../../../src/host/checks/checks.ts";
import { clock } from "../../../src/lib/clock.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { spawnDirectly, type Spawn } from "../../../src/processes/spawn/spawn.ts";
import { viewOf } from "../../support/confined-view.ts";
import { lower } from "../../support/lowered-limits.ts";
import { commandOf, descendants, givingWayBy, isAlive, statOf } from "../../support/processes.ts";
import { closeAfter } from "../../support/temporary-folder.ts";
import { until } from "../../support/until.ts";

const isLinux = process.platform === "linux";

/** Checks whose processes a test can signal, each with its whole group. */
function observed(t: Pick<TestContext, "after">) {
  const leaders: number[] = [];
  const start: Spawn = async (request) => {
    const started = await spawnDirectly(request);
    leaders.push(started.pid);
    return started;
  };
  const checks = closeAfter(t, new Checks(defaultLimits, { start }));
  return { checks, leaders, tell: (signal: NodeJS.Signals) => process.kill(-leaders.at(-1)!, signal) };
}

/** A slow machine takes longer for a hard value than a value may take. */
const NO_BOUND = { checkMs: 3_600_000 };
const hardPatterns = Array.from({ length: 30 }, (_, at) => ({
  pattern: `^(a?b?c?d?e?f?g?h?){60}[a-h]*${"h?".repeat(at)}$`,
}));

/** Each value has a tenant of its own where the process matters: on a busy machine a tenant soon has a slow one. */
describe("the check process", () => {
  it("is replaced when it is ended from outside, in the midst of a value or between two", async (context) => {
    const { checks, leaders, tell } = observed(context);
    assert.equal(await checks.readMessage("first", "1"), 1);
    tell("SIGSTOP");
    const reading = checks.readMessage("one", "2");
    tell("SIGKILL");
    await assert.rejects(
      reading,
      /could not be checked because its process was killed from outside \(SIGKILL\); try again/,
    );
    assert.equal(await checks.readMessage("two", "3"), 3);
    tell("SIGKILL");
    await until(() => !isAlive(leaders.at(-1)!));
    await until(() => checks.readMessage("three", "4").catch(() => 0));
    assert.ok(leaders.length >= 3);
  });

  it("checkMs: is ended for one value, and replaced for those of others that wait behind it", async (context) => {
    context.after(lower({ checkMs: 300 }));
    const { checks, leaders, tell } = observed(context);
    await until(() => checks.readMessage("first", "1").catch(() => 0));
    tell("SIGSTOP");
    const stopped = leaders.at(-1)!;
    const slow = assert.rejects(checks.readMessage("one", "2"), /within 300 ms; make it smaller/);
    const behind = ["two", "three", "four"].map((tenant) => checks.readMessage(tenant, "3"));
    await slow;
    assert.deepEqual(await Promise.all(behind), [3, 3, 3]);
    await until(() => !isAlive(stopped));
    assert.ok(leaders.length >= 2);
  });

  it("leaves tenants of which a value took long to wait for one another alone", async (context) => {
    context.after(lower(NO_BOUND));
    const { checks, tell } = observed(context);
    assert.equal(await checks.readMessage("first", "1"), 1);
    assert.equal(await checks.of("one")({ type: "string", allOf: hardPatterns })("hgfedcba".repeat(7_500)), undefined);
    assert.equal(await checks.readMessage("one", "3"), 3);
    // The process for slow values is the one that was started last.
    tell("SIGSTOP");
    const held = checks.readMessage("one", "4");
    const order: unknown[] = [];
    const all = [held, checks.readMessage("two", "5")].map(async (read) => order.push(await read));
    await all[1];
    tell("SIGCONT");
    await Promise.all(all);
    assert.deepEqual(order, [5, 4]);
  });

  it("takes no value for one that takes long only because the machine was busy with others", async (context) => {
    const { checks, leaders, tell } = observed(context);
    assert.equal(await checks.readMessage("first", "1"), 1);
    tell("SIGSTOP");
    const waiting = checks.readMessage("one", "2");
    clock.leap(300);
    tell("SIGCONT");
    assert.equal(await waiting, 2);
    assert.equal(await checks.readMessage("one", "3"), 3);
    assert.equal(leaders.length, 1, "there is one process, and one lane");
  });

  it("lets the first value of a tenant that takes long go on where no other tenant waits for it", async (context) => {
    context.after(lower(NO_BOUND));
    const { checks } = observed(context);
    const order: string[] = [];
    await checks.readMessage("first", "1");
    const hard = checks.of("one")({ type: "string", allOf: hardPatterns });
    const judged = async (): Promise<void> => {
      assert.equal(await hard("hgfedcba".repeat(7_500)), undefined);
      order.push("one");
    };
    await Promise.all([judged(), checks.readMessage("two", "2").then(() => order.push("two"))]);
    assert.deepEqual(order, ["two", "one"]);
  });

  it("refuses what comes, and what is under way, when the service ends; nothing of it is left", async (context) => {
    const { checks, leaders, tell } = observed(context);
    assert.equal(await checks.readMessage("first", "1"), 1);
    tell("SIGSTOP");
    const reading = assert.rejects(checks.readMessage("one", "2"), /because the service is ending/);
    await checks.close();
    await reading;
    await assert.rejects(checks.readMessage("one", "3"), /because the service is ending/);
    assert.deepEqual(leaders.length, 1);
    assert.equal(descendants().filter((pid) => commandOf(pid).includes("checks/child.js")).length, 0);
  });

  it("says why it cannot be started, and tries again with the next value", async (context) => {
    let isMissing = true;
    const start: Spawn = (request) => spawnDirectly(isMissing ? { ...request, file: "/nowhere/at-all" } : request);
    const checks = closeAfter(context, new Checks(defaultLimits, { start, mode: "trusted" }));
    await assert.rejects(checks.readMessage("one", "1"), /its process could not be started \(.*ENOENT\); try again/);
    isMissing = false;
    assert.equal(await checks.readMessage("one", "2"), 2);
  });

  it(
    "sees its own code and packages, and nothing else: no file, no variable, no network",
    { skip: !isLinux },
    async (context) => {
      const { packages, others, environment } = await viewOf(context, await checkCommand(defaultLimits, "sandboxed"));
      assert.deepEqual(environment, ["PWD"]);
      assert.deepEqual(others, ["/sbx/node", join(packageRoot, "package.json")].sort());
      for (const name of ["esbuild", "typescript", "express", "better-sqlite3", "jose"])
        assert.ok(!packages.has(name), name);
    },
  );

  it("is in the sandbox wherever that works, and says why where it is not", { skip: !isLinux }, async (context) => {
    const confined = observed(context);
    assert.equal(await confined.checks.readMessage("one", "1"), 1);
    assert.match(commandOf(confined.leaders[0]!), /bwrap .*--unshare-all .*--seccomp/);
    assert.equal(statOf(confined.leaders[0]!)!.niceness, givingWayBy(5));

    const script = `
      import { Checks } from ${JSON.stringify(new URL("../../../src/host/checks/checks.js", import.meta.url).href)};
      const told = [];
      const read = [];
      for (const mode of ["auto", "sandboxed"]) {
        const checks = new Checks(${JSON.stringify(defaultLimits)}, { mode, onTrusted: (reason) => told.push(reason) });
        for (let time = 0; time < 2; time++) read.push(await checks.readMessage("one", "1").catch(({ message }) => message));
        await checks.close();
      }
      console.log(JSON.stringify({ told, read }));`;
    const env = { PATH: "/nowhere" };
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
      env,
      stdio: ["ignore", "pipe", "inherit"],
    });
    const { told: reasons, read } = JSON.parse(await text(child.stdout)) as { told: string[]; read: unknown[] };
    assert.equal(reasons.length, 1);
    assert.match(reasons[0]!, /^bwrap is not installed/);
    assert.deepEqual(read.slice(0, 2), [1, 1]);
    for (const each of read.slice(2)) assert.match(String(each), /could not be started: bwrap is not installed/);
  });
});
